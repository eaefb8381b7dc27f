package dev.rackspan.kafka;

import java.util.Map;

import org.apache.kafka.coordinator.group.api.assignor.ConsumerGroupPartitionAssignor;
import org.apache.kafka.coordinator.group.api.assignor.GroupAssignment;
import org.apache.kafka.coordinator.group.api.assignor.GroupSpec;
import org.apache.kafka.coordinator.group.api.assignor.SubscribedTopicDescriber;

/**
 * Assigns partitions to the members of a consumer group (KIP-848) so that members read from near replicas.
 *
 * <p>Ranked goals:
 *
 * <ol>
 *   <li>Balance: all members read equal numbers of partitions, as far as subscriptions allow. If all members subscribe
 *       to the same topics, the numbers differ by at most 1, as with Kafka's {@code uniform}.
 *   <li>Locality: the sum, over all partitions, of the leading steps that the reader's {@code client.rack} has in common
 *       with the {@code broker.rack} of the partition's nearest replica.
 *   <li>Stickiness: members keep their partitions.
 * </ol>
 *
 * <p>No assignment with the same balance has more locality, unless the search was stopped because the group is too
 * large. Then the group keeps its assignment unless the new one is better. Stickiness is not always the maximum: it is
 * the maximum between kinds of members, but a heuristic within a kind.
 *
 * <p>The same group gets the same assignment on every broker. Members are ordered by their instance ids, or by their
 * member ids if they have none, and nothing is random.
 */
public final class RackAwareAssignor implements ConsumerGroupPartitionAssignor {
    public static final String NAME = "rack-aware";

    @Override
    public String name() {
        return NAME;
    }

    @Override
    public GroupAssignment assign(GroupSpec group, SubscribedTopicDescriber topics) {
        return group.memberIds().isEmpty()
            ? new GroupAssignment(Map.of())
            : new Deal(new Readers(group, topics, Nearness.Source.NEAREST)).assignment();
    }
}
