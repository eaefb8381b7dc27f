package dev.rackspan.kafka;

import java.util.ArrayList;
import java.util.Comparator;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;

import org.apache.kafka.common.Uuid;
import org.apache.kafka.coordinator.group.api.assignor.GroupAssignment;
import org.apache.kafka.coordinator.group.api.assignor.GroupSpec;
import org.apache.kafka.coordinator.group.api.assignor.MemberAssignment;
import org.apache.kafka.coordinator.group.api.assignor.MemberSubscription;
import org.apache.kafka.coordinator.group.api.assignor.ShareGroupPartitionAssignor;
import org.apache.kafka.coordinator.group.api.assignor.SubscribedTopicDescriber;
import org.apache.kafka.coordinator.group.api.assignor.SubscriptionType;

/**
 * Assigns partitions to the members of a share group (KIP-932) so that their leaders are likely to be near.
 *
 * <p>Share consumers only read from leaders. An assignor knows the racks of the replicas, but not which replica is the
 * leader. So the nearness of a partition is the mean over the racks of its replicas.
 *
 * <p>Topics with the same subscribers are assigned together. As with Kafka's {@code simple}, all P partitions have the
 * same number of members: 1 if there are at most P members, else the smallest number that gives every member a
 * partition. Members form that number of teams, with members of all racks in each team. Every team gets each partition
 * once, by the goals of {@link RackAwareAssignor}: balance, then locality, then stickiness.
 */
public final class RackAwareShareAssignor implements ShareGroupPartitionAssignor {
    private record Partition(Uuid topic, int number) {}

    private record Assigned(Map<Uuid, Set<Integer>> partitions) implements MemberAssignment {}

    private record Subscribed(Optional<String> rackId, Optional<String> instanceId, Set<Uuid> subscribedTopicIds)
        implements MemberSubscription {}

    /** A part of a group, with some of its members and some of the topics to which all of these members subscribe. */
    private record Team(GroupSpec group, List<String> memberIds, Set<Uuid> topics) implements GroupSpec {
        @Override
        public SubscriptionType subscriptionType() {
            return SubscriptionType.HOMOGENEOUS;
        }

        @Override
        public boolean isPartitionAssigned(Uuid topic, int partition) {
            return group.isPartitionAssigned(topic, partition);
        }

        @Override
        public boolean isPartitionAssignable(Uuid topic, int partition) {
            return group.isPartitionAssignable(topic, partition);
        }

        @Override
        public MemberSubscription memberSubscription(String member) {
            MemberSubscription all = group.memberSubscription(member);
            return new Subscribed(all.rackId(), all.instanceId(), topics);
        }

        @Override
        public MemberAssignment memberAssignment(String member) {
            Map<Uuid, Set<Integer>> all = group.memberAssignment(member).partitions();
            Map<Uuid, Set<Integer>> some = new HashMap<>();
            for (Uuid topic : topics) {
                Set<Integer> numbers = all.get(topic);
                if (numbers != null) {
                    some.put(topic, numbers);
                }
            }
            return new Assigned(some);
        }
    }

    /** Omits the new partitions at the end of each topic that the share coordinator does not know yet. */
    private static final class Known implements SubscribedTopicDescriber {
        private final GroupSpec group;
        private final SubscribedTopicDescriber all;
        /** The number of partitions per topic, which each team asks for. */
        private final Map<Uuid, Integer> numbers = new HashMap<>();

        Known(GroupSpec group, SubscribedTopicDescriber all) {
            this.group = group;
            this.all = all;
        }

        @Override
        public int numPartitions(Uuid topic) {
            return numbers.computeIfAbsent(topic, this::count);
        }

        @Override
        public Set<String> racksForPartition(Uuid topic, int partition) {
            return all.racksForPartition(topic, partition);
        }

        private int count(Uuid topic) {
            int number = all.numPartitions(topic);
            while (number > 0 && !group.isPartitionAssignable(topic, number - 1)) {
                number--;
            }
            return number;
        }
    }

    @Override
    public String name() {
        return RackAwareAssignor.NAME;
    }

    @Override
    public GroupAssignment assign(GroupSpec group, SubscribedTopicDescriber described) {
        SubscribedTopicDescriber topics = new Known(group, described);
        Map<String, MemberAssignment> assigned = new HashMap<>();
        group.memberIds().forEach(member -> assigned.put(member, new Assigned(new HashMap<>())));
        topicsBySubscribers(group).forEach((subscribers, some) -> {
            int partitions = some.stream().mapToInt(topics::numPartitions).sum();
            int sharing = partitions < 1 ? 1 : (subscribers.size() + partitions - 1) / partitions;
            for (List<String> members : teams(new Team(group, subscribers, some), sharing)) {
                Readers readers = new Readers(new Team(group, members, some), topics, Nearness.Source.LEADER);
                new Deal(readers).assignment().members().forEach(
                    (member, dealt) -> assigned.get(member).partitions().putAll(assignable(group, dealt)));
            }
        });
        return new GroupAssignment(assigned);
    }

    /** Omits other partitions that the share coordinator does not know yet. Later it starts a rebalance for them. */
    private static Map<Uuid, Set<Integer>> assignable(GroupSpec group, MemberAssignment dealt) {
        Map<Uuid, Set<Integer>> assignable = new HashMap<>();
        dealt.partitions().forEach((topic, numbers) -> {
            Set<Integer> some = new HashSet<>(numbers);
            some.removeIf(number -> !group.isPartitionAssignable(topic, number));
            if (!some.isEmpty()) {
                assignable.put(topic, some);
            }
        });
        return assignable;
    }

    /** Returns the topics by their subscribers, which are ordered by rack. */
    private static Map<List<String>, Set<Uuid>> topicsBySubscribers(GroupSpec group) {
        List<String> members = new ArrayList<>(group.memberIds());
        members.sort(Comparator
            .comparing((String member) -> group.memberSubscription(member).rackId().orElse(""))
            .thenComparing(Comparator.naturalOrder()));
        Map<Uuid, List<String>> subscribers = new HashMap<>();
        for (String member : members) {
            for (Uuid topic : group.memberSubscription(member).subscribedTopicIds()) {
                subscribers.computeIfAbsent(topic, added -> new ArrayList<>()).add(member);
            }
        }
        Map<List<String>, Set<Uuid>> topics = new HashMap<>();
        subscribers.forEach((some, all) -> topics.computeIfAbsent(all, added -> new HashSet<>()).add(some));
        return topics;
    }

    /**
     * Divides members into teams. Consecutive members are in different teams, so that each team has equally many
     * members of each rack, zone and region. A member joins the free team that has the fewest of its current
     * partitions.
     */
    private static List<List<String>> teams(Team all, int number) {
        List<List<String>> teams = new ArrayList<>();
        List<Set<Partition>> taken = new ArrayList<>();
        List<Integer> free = new ArrayList<>();
        for (int team = 0; team < number; team++) {
            teams.add(new ArrayList<>());
            taken.add(new HashSet<>());
        }
        for (String member : all.memberIds) {
            if (free.isEmpty()) {
                for (int team = 0; team < number; team++) {
                    free.add(team);
                }
            }
            List<Partition> has = new ArrayList<>();
            all.memberAssignment(member).partitions().forEach(
                (topic, numbers) -> numbers.forEach(partition -> has.add(new Partition(topic, partition))));
            Integer best = null;
            long fewest = Long.MAX_VALUE;
            for (Integer team : free) {
                long conflicts = has.stream().filter(taken.get(team)::contains).count();
                if (conflicts < fewest) {
                    best = team;
                    fewest = conflicts;
                }
            }
            free.remove(best);
            teams.get(best).add(member);
            taken.get(best).addAll(has);
        }
        return teams;
    }
}
