package dev.rackspan.kafka;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;

import org.apache.kafka.common.Uuid;
import org.apache.kafka.coordinator.group.api.assignor.SubscribedTopicDescriber;

/**
 * How near each partition is to each place where members are: the steps in common with the replica that they read from.
 *
 * <p>Members are in one place if they have as many steps in common with each broker. Where all have the same rack id, or
 * none, nothing is nearer to one than to another, and the racks of partitions are not asked for: that takes longest.
 */
final class Nearness {
    /** The replica that a member reads from: the nearest one, or the leader, which may be in each of the racks. */
    enum Source { NEAREST, LEADER }

    private static final int DEEPEST = 15;
    private static final int RACKS_BITS = 20;
    /** Means over up to six racks are whole numbers of this part of a step. */
    private static final int FRACTIONS = 60;

    /** The place of each member. */
    final int[] placeOf;
    /** What tells how near each partition is to the places; partitions with the same one are alike. */
    final int[] valueOf;
    final int places;
    final int values;
    /** No partition is nearer than that. */
    final int most;
    /** By value, then by place. */
    private final char[][] steps;

    Nearness(String[] memberRacks, Uuid[] topics, int[] first, SubscribedTopicDescriber describer, Source source) {
        most = source == Source.LEADER ? DEEPEST * FRACTIONS : DEEPEST;
        Map<String, Integer> racks = new HashMap<>();
        Numbers sets = new Numbers();
        boolean alike = new HashSet<>(Arrays.asList(memberRacks)).size() == 1;
        int[] setOf = alike ? new int[first[topics.length]] : setOf(topics, first, describer, racks, sets);
        List<char[]> stepsOfRack = new ArrayList<>();
        placeOf = placeOf(memberRacks, racks, stepsOfRack);
        places = 1 + Arrays.stream(placeOf).max().orElseThrow();

        // The set without racks is number 0; any other one is a smaller set and a rack.
        char[][] stepsOfSet = new char[1 + sets.size()][];
        stepsOfSet[0] = new char[places];
        int[] racksOfSet = new int[stepsOfSet.length];
        long[] keys = sets.keys();
        int[] valueOfSet = new int[stepsOfSet.length];
        Map<String, Integer> known = new HashMap<>();
        List<char[]> distinct = new ArrayList<>();
        for (int set = 0; set < stepsOfSet.length; set++) {
            if (set > 0) {
                int smaller = (int) (keys[set - 1] >>> RACKS_BITS);
                char[] ofRack = stepsOfRack.get((int) keys[set - 1] & (1 << RACKS_BITS) - 1);
                char[] both = stepsOfSet[smaller].clone();
                for (int place = 0; place < places; place++) {
                    int sum = both[place] + ofRack[place];
                    both[place] = (char) (source == Source.LEADER ? sum : Math.max(both[place], ofRack[place]));
                }
                stepsOfSet[set] = both;
                racksOfSet[set] = 1 + racksOfSet[smaller];
            }
            char[] here = source == Source.LEADER ? means(stepsOfSet[set], racksOfSet[set]) : stepsOfSet[set];
            valueOfSet[set] = known.computeIfAbsent(new String(here), added -> {
                distinct.add(here);
                return distinct.size() - 1;
            });
        }
        steps = distinct.toArray(char[][]::new);
        values = steps.length;
        valueOf = setOf;
        for (int item = 0; item < valueOf.length; item++) {
            valueOf[item] = valueOfSet[setOf[item]];
        }
    }

    int steps(int value, int place) {
        return steps[value][place];
    }

    private static char[] means(char[] sums, int racks) {
        char[] means = new char[sums.length];
        for (int place = 0; place < means.length; place++) {
            means[place] = (char) (sums[place] * FRACTIONS / Math.max(1, racks));
        }
        return means;
    }

    /** The set of racks of each partition: one more than the number of its key, which is a smaller set and a rack. */
    private static int[] setOf(
        Uuid[] topics, int[] first, SubscribedTopicDescriber describer, Map<String, Integer> racks, Numbers sets
    ) {
        int[] setOf = new int[first[topics.length]];
        int[] found = new int[8];
        for (int topic = 0; topic < topics.length; topic++) {
            for (int item = first[topic]; item < first[topic + 1]; item++) {
                int count = 0;
                for (String name : describer.racksForPartition(topics[topic], item - first[topic])) {
                    Integer rack = racks.get(name);
                    if (rack == null) {
                        rack = racks.size();
                        racks.put(name, rack);
                    }
                    if (count == found.length) {
                        found = Arrays.copyOf(found, 2 * count);
                    }
                    int at = count++;
                    for (; at > 0 && found[at - 1] > rack; at--) {
                        found[at] = found[at - 1];
                    }
                    found[at] = rack;
                }
                long set = 0;
                for (int at = 0; at < count; at++) {
                    set = 1 + sets.of(set << RACKS_BITS | found[at]);
                }
                setOf[item] = (int) set;
            }
        }
        return setOf;
    }

    private static int[] placeOf(String[] memberRacks, Map<String, Integer> racks, List<char[]> stepsOfRack) {
        RackPath[] brokers = new RackPath[racks.size()];
        racks.forEach((name, rack) -> brokers[rack] = RackPath.of(name));
        Map<String, Integer> byRack = new HashMap<>();
        Map<String, Integer> known = new HashMap<>();
        List<char[]> places = new ArrayList<>();
        int[] placeOf = new int[memberRacks.length];
        for (int member = 0; member < placeOf.length; member++) {
            Integer place = byRack.get(memberRacks[member]);
            if (place == null) {
                RackPath here = RackPath.of(memberRacks[member]);
                char[] steps = new char[brokers.length];
                for (int rack = 0; rack < steps.length; rack++) {
                    steps[rack] = (char) Math.min(DEEPEST, here.stepsInCommon(brokers[rack]));
                }
                place = known.computeIfAbsent(new String(steps), added -> {
                    places.add(steps);
                    return places.size() - 1;
                });
                byRack.put(memberRacks[member], place);
            }
            placeOf[member] = place;
        }
        for (int rack = 0; rack < brokers.length; rack++) {
            char[] ofRack = new char[places.size()];
            for (int place = 0; place < ofRack.length; place++) {
                ofRack[place] = places.get(place)[rack];
            }
            stepsOfRack.add(ofRack);
        }
        return placeOf;
    }
}
