package dev.rackspan.kafka;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.BitSet;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.Spliterator;

import org.apache.kafka.common.Uuid;
import org.apache.kafka.coordinator.group.api.assignor.GroupSpec;
import org.apache.kafka.coordinator.group.api.assignor.MemberSubscription;
import org.apache.kafka.coordinator.group.api.assignor.PartitionAssignorException;
import org.apache.kafka.coordinator.group.api.assignor.SubscribedTopicDescriber;
import org.apache.kafka.coordinator.group.api.assignor.SubscriptionType;

/**
 * The members of a group and the partitions that they may read, numbered and divided into classes.
 *
 * <p>Members have the same kind if they subscribe to the same topics and are equally near to each broker. Partitions
 * have the same sort if the same members may read them, if they are equally near to each of these members, and if their
 * current readers have the same kind.
 */
final class Readers {
    private static final int MOST_ROUNDS = 32;

    final Member[] members;
    final int[] kindOf;
    final int[] kindSize;
    final int[] subscriptionOfKind;
    final int subscriptions;

    final Uuid[] topics;
    /** The number of the first partition of each topic. The last entry is the number of all partitions. */
    final int[] first;
    /** The current member of each partition, or -1. */
    final int[] owner;

    final int[] sortOf;
    final int[] sortSize;
    /** The kind of the current members of each sort, or -1. */
    final int[] kindOfSort;
    private final int[] audienceOfSort;
    private final int[] valueOfSort;
    /** The subscriptions of each audience. An audience is a set of subscriptions that share topics. */
    private final BitSet[] audiences;
    private final int[] placeOfKind;
    private final Nearness nearness;
    private final int weight;
    private boolean isCut;

    Readers(GroupSpec group, SubscribedTopicDescriber describer, Nearness.Source source) {
        List<Member> held = new ArrayList<>();
        group.memberIds().forEach(id -> held.add(new Member(group, id)));
        members = inOrder(held);
        List<Set<Uuid>> subscribed = new ArrayList<>();
        int[] subscriptionOf = subscriptionOf(members, group.subscriptionType(), subscribed);
        subscriptions = subscribed.size();
        topics = topicsOf(subscribed);
        first = firstOf(topics, describer);
        int[] audienceOfTopic = new int[topics.length];
        audiences = audiences(topics, subscribed, audienceOfTopic);

        nearness = new Nearness(racksOf(members), topics, first, describer, source);
        int[] placeOf = nearness.placeOf;
        Numbers kinds = new Numbers();
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

        owner = new int[first[topics.length]];
        Arrays.fill(owner, -1);
        findOwners(held, audienceOfTopic, subscriptionOf);
        sortOf = new int[owner.length];
        long wide = kindSize.length + 1L;
        Numbers sorts = new Numbers();
        for (int topic = 0; topic < topics.length; topic++) {
            for (int item = first[topic]; item < first[topic + 1]; item++) {
                long alike = (long) audienceOfTopic[topic] * nearness.values + nearness.valueOf[item];
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
            valueOfSort[sort] = (int) (keys[sort] / wide % nearness.values);
            audienceOfSort[sort] = (int) (keys[sort] / wide / nearness.values);
        }
    }

    /** Writes the worth of a sort per kind: locality, then stickiness. It is -1 for kinds without a subscription. */
    void worth(int sort, int[] byKind) {
        BitSet audience = audiences[audienceOfSort[sort]];
        boolean all = audience.cardinality() == subscriptions;
        int[] steps = nearness.steps(valueOfSort[sort]);
        for (int kind = 0; kind < byKind.length; kind++) {
            byKind[kind] = all || audience.get(subscriptionOfKind[kind]) ? steps[placeOfKind[kind]] * weight : -1;
        }
        if (kindOfSort[sort] >= 0) {
            byKind[kindOfSort[sort]]++;
        }
    }

    /** Returns the nearness of a partition to a member. */
    int steps(int item, int member) {
        return nearness.steps(nearness.valueOf[item])[nearness.placeOf[member]];
    }

    /** Returns whether the search for {@link #evenLoads} was stopped early. */
    boolean isCut() {
        return isCut;
    }

    /** Returns the maximum worth of a partition. */
    int mostWorth() {
        return nearness.most * weight + 1;
    }

    /** Returns the number of partitions that each subscription reads in the assignment with the best balance. */
    int[] evenLoads() {
        if (subscriptions == 1) {
            return new int[] {owner.length};
        }
        int[] size = new int[subscriptions];
        for (int kind = 0; kind < kindSize.length; kind++) {
            size[subscriptionOfKind[kind]] += kindSize[kind];
        }
        int[] supply = new int[audiences.length];
        for (int sort = 0; sort < sortSize.length; sort++) {
            supply[audienceOfSort[sort]] += sortSize[sort];
        }
        Transport even = new Transport(size, supply, (audience, bySubscription) ->
            Arrays.setAll(bySubscription, one -> audiences[audience].get(one) ? 0 : -1));
        // With many subscriptions, a single round would leave many cycles. With few, more rounds would take more time.
        even.pour(Math.max(1, Math.min(subscriptions / 16, MOST_ROUNDS)));
        even.improve(0);
        isCut = even.isCut();
        int[] loads = new int[subscriptions];
        Arrays.setAll(loads, even::load);
        return loads;
    }

    static final class Member {
        final String id;
        /** The current partitions of the member, including those of deleted topics. */
        final Map<Uuid, Set<Integer>> has;
        /** The number of partitions in `has`. */
        int hasSize;
        private final String name;
        private final String rack;
        private final MemberSubscription subscription;
        private int number;

        private Member(GroupSpec group, String id) {
            this.id = id;
            subscription = group.memberSubscription(id);
            name = subscription.instanceId().orElse(id);
            rack = subscription.rackId().orElse("");
            has = group.memberAssignment(id).partitions();
        }
    }

    private static Member[] inOrder(List<Member> held) {
        Member[] inOrder = held.toArray(Member[]::new);
        Arrays.sort(inOrder, (one, other) -> {
            int byName = one.name.compareTo(other.name);
            return byName == 0 ? one.id.compareTo(other.id) : byName;
        });
        for (int number = 0; number < inOrder.length; number++) {
            inOrder[number].number = number;
        }
        return inOrder;
    }

    private static Uuid[] topicsOf(List<Set<Uuid>> subscribed) {
        Set<Uuid> all = new HashSet<>();
        subscribed.forEach(all::addAll);
        Uuid[] topics = all.toArray(Uuid[]::new);
        Arrays.sort(topics);
        return topics;
    }

    private static int[] subscriptionOf(Member[] members, SubscriptionType type, List<Set<Uuid>> subscribed) {
        int[] numbers = new int[members.length];
        if (type == SubscriptionType.HOMOGENEOUS) {
            subscribed.add(new HashSet<>(members[0].subscription.subscribedTopicIds()));
            return numbers;
        }
        Map<Set<Uuid>, Integer> known = new HashMap<>();
        for (int member = 0; member < members.length; member++) {
            // A copy, because the hash of the broker's set includes the metadata of the whole cluster.
            Set<Uuid> topicIds = new HashSet<>(members[member].subscription.subscribedTopicIds());
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
                throw new PartitionAssignorException("Members subscribe to " + topics[topic] + ", which is unknown.");
            }
            first[topic + 1] = first[topic] + partitions;
        }
        return first;
    }

    private static BitSet[] audiences(Uuid[] topics, List<Set<Uuid>> subscribed, int[] audienceOfTopic) {
        Map<BitSet, Integer> known = new HashMap<>();
        List<BitSet> audiences = new ArrayList<>();
        for (int topic = 0; topic < topics.length; topic++) {
            BitSet audience = new BitSet(subscribed.size());
            for (int one = 0; one < subscribed.size(); one++) {
                audience.set(one, subscribed.get(one).contains(topics[topic]));
            }
            audienceOfTopic[topic] = known.computeIfAbsent(audience, added -> {
                audiences.add(added);
                return audiences.size() - 1;
            });
        }
        return audiences.toArray(BitSet[]::new);
    }

    private static String[] racksOf(Member[] members) {
        String[] racks = new String[members.length];
        Arrays.setAll(racks, member -> members[member].rack);
        return racks;
    }

    private void findOwners(List<Member> held, int[] audienceOfTopic, int[] subscriptionOf) {
        Map<Uuid, Integer> numberOf = new HashMap<>(2 * topics.length);
        for (int topic = 0; topic < topics.length; topic++) {
            numberOf.put(topics[topic], topic);
        }
        // In the order of the broker, which matches the order in memory. Any other order takes a third longer.
        for (Member member : held) {
            member.has.forEach((id, numbers) -> {
                Integer topic = numberOf.get(id);
                boolean reads = topic != null && audiences[audienceOfTopic[topic]].get(subscriptionOf[member.number]);
                int from = reads ? first[topic] : 0;
                int partitions = reads ? first[topic + 1] - from : 0;
                member.hasSize += numbers.size();
                // The iterator of a HashSet would search its table to the end after the last element.
                Spliterator<Integer> each = numbers.spliterator();
                for (int left = numbers.size(); left > 0; left--) {
                    each.tryAdvance(number -> {
                        if (number < partitions) {
                            owner[from + number] = member.number;
                        }
                    });
                }
            });
        }
    }
}
