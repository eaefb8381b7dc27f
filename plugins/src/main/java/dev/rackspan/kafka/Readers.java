package dev.rackspan.kafka;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.BitSet;
import java.util.Comparator;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;

import org.apache.kafka.common.Uuid;
import org.apache.kafka.coordinator.group.api.assignor.GroupSpec;
import org.apache.kafka.coordinator.group.api.assignor.MemberSubscription;
import org.apache.kafka.coordinator.group.api.assignor.PartitionAssignorException;
import org.apache.kafka.coordinator.group.api.assignor.SubscribedTopicDescriber;
import org.apache.kafka.coordinator.group.api.assignor.SubscriptionType;

/**
 * The members of a group and the partitions that they may read, as numbers, and which of them are alike.
 *
 * <p>Members are of one kind if they subscribe to the same topics and all brokers are as near to one as to the other;
 * partitions are of one sort if the same members may read them, they are as near to each of them, and their readers are of
 * one kind now.
 */
final class Readers {
    private static final int DEEPEST = 15;

    final String[] members;
    final int[] kindOf;
    final int[] kindSize;
    final int[] subscriptionOfKind;
    final int subscriptions;

    final Uuid[] topics;
    /** The number of the first partition of each topic; the last entry is how many partitions there are. */
    final int[] first;
    /** Which member has each partition now, -1 where none has. */
    final int[] owner;
    /** What each member has now, also of topics that are gone. */
    final List<Map<Uuid, Set<Integer>>> has;

    final int[] sortOf;
    final int[] sortSize;
    /** Which kind has the partitions of each sort now, -1 where none has. */
    final int[] kindOfSort;
    private final int[] audienceOfSort;
    private final int[] valueOfSort;
    private final List<BitSet> audiences;
    private final int[] placeOfKind;
    private final int[][] stepsOfValue;
    private final int weight;

    Readers(GroupSpec group, SubscribedTopicDescriber describer) {
        members = inOrder(group);
        List<Set<Uuid>> subscribed = new ArrayList<>();
        int[] subscriptionOf = subscriptionOf(group, subscribed);
        subscriptions = subscribed.size();
        topics = subscribed.stream().flatMap(Set::stream).distinct().sorted().toArray(Uuid[]::new);
        first = firstOf(topics, describer);
        audiences = new ArrayList<>();
        int[] audienceOfTopic = audienceOf(topics, subscribed, audiences);

        List<RackPath> brokerRacks = new ArrayList<>();
        List<int[]> rackSets = new ArrayList<>();
        int[] rackSetOf = rackSetOf(topics, first, describer, brokerRacks, rackSets);
        List<int[]> places = new ArrayList<>();
        int[] placeOf = placeOf(group, brokerRacks, places);
        List<int[]> values = new ArrayList<>();
        int[] valueOfRackSet = valueOf(rackSets, places, values);
        stepsOfValue = values.toArray(int[][]::new);

        Numbers kinds = new Numbers((long) places.size() * subscriptions);
        kindOf = new int[members.length];
        for (int member = 0; member < members.length; member++) {
            kindOf[member] = kinds.of((long) placeOf[member] * subscriptions + subscriptionOf[member]);
        }
        kindSize = kinds.counts();
        placeOfKind = new int[kindSize.length];
        subscriptionOfKind = new int[kindSize.length];
        for (int member = 0; member < members.length; member++) {
            placeOfKind[kindOf[member]] = placeOf[member];
            subscriptionOfKind[kindOf[member]] = subscriptionOf[member];
        }
        weight = kindSize.length + 2;

        has = new ArrayList<>();
        for (String member : members) {
            has.add(group.memberAssignment(member).partitions());
        }
        owner = ownerOf(subscriptionOf, subscribed);
        sortOf = new int[owner.length];
        long wide = kindSize.length + 1L;
        Numbers sorts = new Numbers(wide * values.size() * audiences.size());
        for (int topic = 0; topic < topics.length; topic++) {
            for (int item = first[topic]; item < first[topic + 1]; item++) {
                long alike = (long) audienceOfTopic[topic] * values.size() + valueOfRackSet[rackSetOf[item]];
                sortOf[item] = sorts.of(alike * wide + (owner[item] < 0 ? 0 : 1 + kindOf[owner[item]]));
            }
        }
        sortSize = sorts.counts();
        audienceOfSort = new int[sortSize.length];
        kindOfSort = new int[sortSize.length];
        valueOfSort = new int[sortSize.length];
        long[] keys = sorts.keys();
        for (int sort = 0; sort < keys.length; sort++) {
            kindOfSort[sort] = (int) (keys[sort] % wide) - 1;
            valueOfSort[sort] = (int) (keys[sort] / wide % values.size());
            audienceOfSort[sort] = (int) (keys[sort] / wide / values.size());
        }
    }

    /** What a partition of a sort is worth to a member of a kind: near before kept; -1 where it is not subscribed to. */
    int worth(int sort, int kind) {
        if (!audiences.get(audienceOfSort[sort]).get(subscriptionOfKind[kind])) {
            return -1;
        }
        int kept = kindOfSort[sort] == kind ? 1 : 0;
        return stepsOfValue[valueOfSort[sort]][placeOfKind[kind]] * weight + kept;
    }

    /** No partition is worth more than that. */
    int mostWorth() {
        return DEEPEST * weight + 1;
    }

    /** How many partitions each subscription reads in the most even assignment. */
    int[] evenLoads() {
        if (subscriptions == 1) {
            return new int[] {owner.length};
        }
        int[] size = new int[subscriptions];
        for (int kind = 0; kind < kindSize.length; kind++) {
            size[subscriptionOfKind[kind]] += kindSize[kind];
        }
        int[] supply = new int[audiences.size()];
        for (int sort = 0; sort < sortSize.length; sort++) {
            supply[audienceOfSort[sort]] += sortSize[sort];
        }
        Transport even = new Transport(size, supply, (audience, one) -> audiences.get(audience).get(one) ? 0 : -1);
        even.pour();
        even.improve(0);
        int[] loads = new int[subscriptions];
        Arrays.setAll(loads, even::load);
        return loads;
    }

    private static String[] inOrder(GroupSpec group) {
        record Member(String name, String id) {}

        return group.memberIds()
            .stream()
            .map(id -> new Member(group.memberSubscription(id).instanceId().orElse(id), id))
            .sorted(Comparator.comparing(Member::name).thenComparing(Member::id))
            .map(Member::id)
            .toArray(String[]::new);
    }

    private int[] subscriptionOf(GroupSpec group, List<Set<Uuid>> subscribed) {
        int[] numbers = new int[members.length];
        if (group.subscriptionType() == SubscriptionType.HOMOGENEOUS) {
            subscribed.add(group.memberSubscription(members[0]).subscribedTopicIds());
            return numbers;
        }
        Map<Set<Uuid>, Integer> known = new HashMap<>();
        for (int member = 0; member < members.length; member++) {
            Set<Uuid> topicIds = group.memberSubscription(members[member]).subscribedTopicIds();
            Integer number = known.putIfAbsent(topicIds, subscribed.size());
            if (number == null) {
                number = subscribed.size();
                subscribed.add(topicIds);
            }
            numbers[member] = number;
        }
        return numbers;
    }

    private static int[] firstOf(Uuid[] topics, SubscribedTopicDescriber describer) {
        int[] first = new int[topics.length + 1];
        for (int topic = 0; topic < topics.length; topic++) {
            int partitions = describer.numPartitions(topics[topic]);
            if (partitions < 0) {
                throw new PartitionAssignorException("Members subscribe to " + topics[topic] + ", which is not there.");
            }
            first[topic + 1] = first[topic] + partitions;
        }
        return first;
    }

    private static int[] audienceOf(Uuid[] topics, List<Set<Uuid>> subscribed, List<BitSet> audiences) {
        Map<BitSet, Integer> known = new HashMap<>();
        int[] audienceOf = new int[topics.length];
        for (int topic = 0; topic < topics.length; topic++) {
            BitSet audience = new BitSet(subscribed.size());
            for (int one = 0; one < subscribed.size(); one++) {
                audience.set(one, subscribed.get(one).contains(topics[topic]));
            }
            audienceOf[topic] = known.computeIfAbsent(audience, added -> {
                audiences.add(added);
                return audiences.size() - 1;
            });
        }
        return audienceOf;
    }

    private static int[] rackSetOf(
        Uuid[] topics, int[] first, SubscribedTopicDescriber describer, List<RackPath> racks, List<int[]> rackSets
    ) {
        Map<String, Integer> known = new HashMap<>();
        // Not by sets of names: ids that are written alike make sets of which many have the same hash.
        Map<BitSet, Integer> knownSets = new HashMap<>();
        int[] rackSetOf = new int[first[topics.length]];
        BitSet found = new BitSet();
        for (int topic = 0; topic < topics.length; topic++) {
            for (int item = first[topic]; item < first[topic + 1]; item++) {
                found.clear();
                for (String name : describer.racksForPartition(topics[topic], item - first[topic])) {
                    Integer rack = known.putIfAbsent(name, racks.size());
                    if (rack == null) {
                        rack = racks.size();
                        racks.add(RackPath.of(name));
                    }
                    found.set(rack);
                }
                Integer number = knownSets.get(found);
                if (number == null) {
                    number = rackSets.size();
                    knownSets.put((BitSet) found.clone(), number);
                    rackSets.add(found.stream().toArray());
                }
                rackSetOf[item] = number;
            }
        }
        return rackSetOf;
    }

    /** Members are in one place if they have as many steps in common with each broker. */
    private int[] placeOf(GroupSpec group, List<RackPath> brokerRacks, List<int[]> places) {
        Map<String, Integer> byRack = new HashMap<>();
        Map<List<Integer>, Integer> known = new HashMap<>();
        int[] placeOf = new int[members.length];
        for (int member = 0; member < members.length; member++) {
            MemberSubscription subscription = group.memberSubscription(members[member]);
            placeOf[member] = byRack.computeIfAbsent(subscription.rackId().orElse(""), rack -> {
                RackPath here = RackPath.of(rack);
                List<Integer> steps =
                    brokerRacks.stream().map(there -> Math.min(DEEPEST, here.stepsInCommon(there))).toList();
                return known.computeIfAbsent(steps, added -> {
                    places.add(added.stream().mapToInt(Integer::intValue).toArray());
                    return places.size() - 1;
                });
            });
        }
        return placeOf;
    }

    /** The steps between each set of racks, its nearest one, and each place. */
    private static int[] valueOf(List<int[]> rackSets, List<int[]> places, List<int[]> values) {
        Map<List<Integer>, Integer> known = new HashMap<>();
        int[] valueOf = new int[rackSets.size()];
        for (int set = 0; set < valueOf.length; set++) {
            int[] steps = new int[places.size()];
            for (int place = 0; place < steps.length; place++) {
                for (int rack : rackSets.get(set)) {
                    steps[place] = Math.max(steps[place], places.get(place)[rack]);
                }
            }
            valueOf[set] = known.computeIfAbsent(Arrays.stream(steps).boxed().toList(), added -> {
                values.add(steps);
                return values.size() - 1;
            });
        }
        return valueOf;
    }

    private int[] ownerOf(int[] subscriptionOf, List<Set<Uuid>> subscribed) {
        int[] owner = new int[first[topics.length]];
        Arrays.fill(owner, -1);
        Map<Uuid, Integer> number = new HashMap<>();
        for (int topic = 0; topic < topics.length; topic++) {
            number.put(topics[topic], topic);
        }
        for (int member = 0; member < members.length; member++) {
            Set<Uuid> wanted = subscribed.get(subscriptionOf[member]);
            for (Map.Entry<Uuid, Set<Integer>> some : has.get(member).entrySet()) {
                if (wanted.contains(some.getKey())) {
                    int topic = number.get(some.getKey());
                    for (int partition : some.getValue()) {
                        if (partition < first[topic + 1] - first[topic]) {
                            owner[first[topic] + partition] = member;
                        }
                    }
                }
            }
        }
        return owner;
    }

    /** Numbers from 0 for keys as they come, and how often each came. */
    private static final class Numbers {
        private static final int MOST_NOTED = 1 << 18;

        private final int[] noted;
        private final Map<Long, Integer> others = new HashMap<>();
        private long[] keys = new long[16];
        private int[] counts = new int[16];
        private int used;

        /** Keys are below `bound`. */
        Numbers(long bound) {
            noted = new int[(int) Math.min(bound, MOST_NOTED)];
        }

        int of(long key) {
            int number = key < noted.length ? noted[(int) key] - 1 : others.getOrDefault(key, -1);
            if (number < 0) {
                number = added(key);
            }
            counts[number]++;
            return number;
        }

        private int added(long key) {
            if (used == keys.length) {
                keys = Arrays.copyOf(keys, 2 * used);
                counts = Arrays.copyOf(counts, 2 * used);
            }
            keys[used] = key;
            if (key < noted.length) {
                noted[(int) key] = used + 1;
            } else {
                others.put(key, used);
            }
            return used++;
        }

        int[] counts() {
            return Arrays.copyOf(counts, used);
        }

        long[] keys() {
            return Arrays.copyOf(keys, used);
        }
    }
}
