package dev.rackspan.kafka;

import java.util.Map;

import org.apache.kafka.coordinator.group.api.assignor.ConsumerGroupPartitionAssignor;
import org.apache.kafka.coordinator.group.api.assignor.GroupAssignment;
import org.apache.kafka.coordinator.group.api.assignor.GroupSpec;
import org.apache.kafka.coordinator.group.api.assignor.SubscribedTopicDescriber;

/**
 * Assigns partitions to the members of a consumer group of KIP-848 so that they can read near by.
 *
 * <p>Ranked goals:
 *
 * <ol>
 *   <li>Balance: members read as many partitions as each other, as far as subscriptions allow. Where all subscribe to the
 *       same topics, counts differ by one at most, as with Kafka's {@code uniform}.
 *   <li>Locality: the sum, over all partitions, of the leading steps that the reader's {@code client.rack} has in common
 *       with the {@code broker.rack} of the partition's nearest replica.
 *   <li>Stickiness: members keep what they have.
 * </ol>
 *
 * <p>No assignment that is as even has more locality, unless the group is so large that the search is cut short. What
 * members keep is not the most there is: it is the most between kinds of members, and what is first found inside a kind.
 *
 * <p>The same group gets the same assignment on every broker: members stand in the order of their instance ids, where they
 * have one, else of their member ids, and chance plays no part.
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
