package dev.rackspan.kafka;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;

/** Racks of brokers as numbers from 1: those that are as near to each rack of members have one number. */
final class Racks {
    private record Rack(String name, int number) {}

    private final RackPath[] ofMembers;
    /** The first rack at each place of its hash, and all others. */
    private final Rack[] racks = new Rack[1 << 10];
    private final Map<String, Integer> others = new HashMap<>();
    private final Map<String, Integer> known = new HashMap<>();
    /** By number, then by rack of members. */
    private final List<char[]> steps = new ArrayList<>();

    Racks(String[] ofMembers) {
        this.ofMembers = Arrays.stream(ofMembers).map(RackPath::of).toArray(RackPath[]::new);
        steps.add(new char[ofMembers.length]);
    }

    /** The number of a rack. Each replica's rack is looked up, and in a HashMap alone this takes twice as long. */
    int number(String name) {
        int at = name.hashCode() & racks.length - 1;
        Rack rack = racks[at];
        if (rack == null) {
            rack = racks[at] = new Rack(name, numberOf(name));
        }
        return rack.name.equals(name) ? rack.number : others.computeIfAbsent(name, this::numberOf);
    }

    /** The steps in common by number, then by place. Racks of members that are as near to each number are one place. */
    int[][] byPlace(int[] placeOfRack) {
        Map<String, Integer> places = new HashMap<>();
        int[][] byPlace = new int[steps.size()][placeOfRack.length];
        for (int member = 0; member < placeOfRack.length; member++) {
            char[] near = new char[steps.size()];
            for (int number = 0; number < near.length; number++) {
                near[number] = steps.get(number)[member];
            }
            places.putIfAbsent(new String(near), places.size());
            int place = places.get(new String(near));
            for (int number = 0; number < near.length; number++) {
                byPlace[number][place] = near[number];
            }
            placeOfRack[member] = place;
        }
        return byPlace;
    }

    private int numberOf(String name) {
        RackPath rack = RackPath.of(name);
        char[] near = new char[ofMembers.length];
        for (int member = 0; member < near.length; member++) {
            near[member] = (char) Math.min(Nearness.DEEPEST, ofMembers[member].stepsInCommon(rack));
        }
        return known.computeIfAbsent(new String(near), added -> {
            steps.add(near);
            return steps.size() - 1;
        });
    }
}
