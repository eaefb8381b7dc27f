package dev.rackspan.kafka;

import java.util.Arrays;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Set;

import org.apache.kafka.common.Uuid;
import org.apache.kafka.coordinator.group.api.assignor.SubscribedTopicDescriber;

/**
 * The nearness of each partition to each place of members: the leading steps that a member has in common with the
 * replica that it reads from.
 *
 * <p>Members are in the same place if they have equal numbers of common steps with each broker. If all members have the
 * same rack, or none has a rack, all partitions are equally near. Then the racks of partitions are not read, because
 * this takes the most time.
 */
final class Nearness {
    /** The replica that a member reads from: the nearest one, or the leader, which can be in any of the racks. */
    enum Source { NEAREST, LEADER }

    static final int DEEPEST = 15;
    private static final int RACK_BITS = 20;
    private static final int RACK = (1 << RACK_BITS) - 1;
    /** The flag of a key for more than three racks. Such a key has the number of a smaller set, and one more rack. */
    private static final long MORE = 1L << 3 * RACK_BITS;
    /** The unit of means, in parts of a step. Means over up to six racks are integers in this unit. */
    private static final int FRACTIONS = 60;

    /** The place of each member. */
    final int[] placeOf;
    /** The set of racks of each partition, which determines its nearness to the places. */
    final int[] valueOf;
    final int places;
    final int values;
    /** The maximum of the nearness. */
    final int most;
    /** The nearness by value, then by place. */
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

    /** Returns the nearness of partitions with a value, by place. */
    int[] steps(int value) {
        return steps[value];
    }

    private static void add(int[] ofRack, int[] steps, Source source) {
        for (int place = 0; place < steps.length; place++) {
            int sum = steps[place] + ofRack[place];
            steps[place] = source == Source.LEADER ? sum : Math.max(steps[place], ofRack[place]);
        }
    }

    /** Returns a number for the racks of a partition. It does not depend on their order. */
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
        // A key has up to three racks: the smallest (0 if there are fewer than three), the middle and the largest one.
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
