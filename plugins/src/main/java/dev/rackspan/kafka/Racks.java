package dev.rackspan.kafka;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;

/** Numbers the racks of brokers from 1. Racks that are equally near to each rack of members have the same number. */
final class Racks {
    private record Rack(String name, int number) {}

    private final RackPath[] ofMembers;
    /** The first rack with each hash slot. The others are in `others`. */
    private final Rack[] racks = new Rack[1 << 10];
    private final Map<String, Integer> others = new HashMap<>();
    private final Map<String, Integer> known = new HashMap<>();
    /** The steps in common, by number, then by rack of members. */
    private final List<char[]> steps = new ArrayList<>();

    Racks(String[] ofMembers) {
        this.ofMembers = Arrays.stream(ofMembers).map(RackPath::of).toArray(RackPath[]::new);
        steps.add(new char[ofMembers.length]);
    }

    /** Returns the number of a rack. It is called for each replica, and a HashMap alone would take twice as long. */
    int number(String name) {
        int at = name.hashCode() & racks.length - 1;
        Rack rack = racks[at];
        if (rack == null) {
            rack = racks[at] = new Rack(name, numberOf(name));
        }
        return rack.name.equals(name) ? rack.number : others.computeIfAbsent(name, this::numberOf);
    }

    /**
     * Returns the steps in common, by number, then by place. Writes the place of each rack of members to `placeOfRack`.
     * Racks of members that are equally near to each number are the same place.
     */
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
