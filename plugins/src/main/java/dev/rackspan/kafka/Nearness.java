package dev.rackspan.kafka;

import java.util.Arrays;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Set;

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

    static final int DEEPEST = 15;
    private static final int RACK_BITS = 20;
    private static final int RACK = (1 << RACK_BITS) - 1;
    /** Marks a set of more than three racks: the number of a smaller set, and one more rack. */
    private static final long MORE = 1L << 3 * RACK_BITS;
    /** Means over up to six racks are whole numbers of this part of a step. */
    private static final int FRACTIONS = 60;

    /** The place of each member. */
    final int[] placeOf;
    /** The set of racks of each partition: what tells how near it is to the places. */
    final int[] valueOf;
    final int places;
    final int values;
    /** No partition is nearer than that. */
    final int most;
    /** By value, then by place. */
    private final int[][] steps;

    Nearness(String[] memberRacks, Uuid[] topics, int[] first, SubscribedTopicDescriber describer, Source source) {
        most = source == Source.LEADER ? DEEPEST * FRACTIONS : DEEPEST;
        Map<String, Integer> known = new LinkedHashMap<>();
        int[] rackOf = new int[memberRacks.length];
        for (int member = 0; member < rackOf.length; member++) {
            Integer rack = known.putIfAbsent(memberRacks[member], known.size());
            rackOf[member] = rack == null ? known.size() - 1 : rack;
        }
        Racks racks = new Racks(known.keySet().toArray(String[]::new));
        Numbers sets = new Numbers();
        valueOf = new int[first[topics.length]];
        for (int topic = 0; topic < topics.length && known.size() > 1; topic++) {
            for (int item = first[topic]; item < first[topic + 1]; item++) {
                valueOf[item] = setOf(describer.racksForPartition(topics[topic], item - first[topic]), racks, sets);
            }
        }
        int[] placeOfRack = new int[known.size()];
        int[][] stepsOfRack = racks.byPlace(placeOfRack);
        placeOf = new int[memberRacks.length];
        Arrays.setAll(placeOf, member -> placeOfRack[rackOf[member]]);
        places = 1 + Arrays.stream(placeOfRack).max().orElseThrow();

        long[] keys = sets.keys();
        values = Math.max(1, keys.length);
        steps = new int[values][];
        steps[0] = new int[places];
        int[] size = new int[values];
        for (int set = 0; set < keys.length; set++) {
            int rack = (int) keys[set] & RACK;
            steps[set] = Arrays.copyOf(stepsOfRack[rack], places);
            size[set] = rack == 0 ? 0 : 1;
            if (keys[set] >= MORE) {
                int smaller = (int) (keys[set] - MORE >>> RACK_BITS);
                add(steps[smaller], steps[set], source);
                size[set] += size[smaller];
            } else {
                for (long others = keys[set] >>> RACK_BITS; others > 0; others >>>= RACK_BITS) {
                    add(stepsOfRack[(int) others & RACK], steps[set], source);
                    size[set]++;
                }
            }
        }
        if (source == Source.LEADER) {
            for (int set = 0; set < values; set++) {
                for (int place = 0; place < places; place++) {
                    steps[set][place] = steps[set][place] * FRACTIONS / Math.max(1, size[set]);
                }
            }
        }
    }

    /** Of partitions with a value, by place. */
    int[] steps(int value) {
        return steps[value];
    }

    private static void add(int[] ofRack, int[] steps, Source source) {
        for (int place = 0; place < steps.length; place++) {
            int sum = steps[place] + ofRack[place];
            steps[place] = source == Source.LEADER ? sum : Math.max(steps[place], ofRack[place]);
        }
    }

    /** A number for the racks of a partition, in whatever order they come. */
    private static int setOf(Set<String> names, Racks racks, Numbers sets) {
        int count = 0;
        int least = RACK;
        int most = 0;
        int sum = 0;
        for (String name : names) {
            int rack = racks.number(name);
            least = Math.min(least, rack);
            most = Math.max(most, rack);
            sum += rack;
            count++;
        }
        if (count > 3) {
            return setOfMany(names.stream().mapToInt(racks::number).sorted().toArray(), sets);
        }
        // Up to three are known by the least of them, 0 where there are fewer, the one between, and the most.
        return sets.of(count < 3 ? key(0, sum - most, most) : key(least, sum - least - most, most));
    }

    private static int setOfMany(int[] racks, Numbers sets) {
        int set = sets.of(key(racks[0], racks[1], racks[2]));
        for (int at = 3; at < racks.length; at++) {
            set = sets.of(MORE | (long) set << RACK_BITS | racks[at]);
        }
        return set;
    }

    private static long key(long least, long between, long most) {
        return (least << RACK_BITS | between) << RACK_BITS | most;
    }
}
