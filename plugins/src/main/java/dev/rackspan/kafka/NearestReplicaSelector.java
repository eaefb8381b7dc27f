package dev.rackspan.kafka;

import java.util.Map;
import java.util.Optional;
import java.util.concurrent.ConcurrentHashMap;

import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.replica.ClientMetadata;
import org.apache.kafka.common.replica.PartitionView;
import org.apache.kafka.common.replica.ReplicaSelector;
import org.apache.kafka.common.replica.ReplicaView;

/**
 * Sends a consumer to the nearest replica in sync (KIP-392, made hierarchical): the one whose {@code broker.rack} has the
 * most leading steps in common with the consumer's {@code client.rack}.
 *
 * <p>Of several that are as near the leader serves, and where it is not one of them, the one that lags least. The leader
 * also serves where no replica shares even the first step, and a consumer that does not tell its rack. Wherever Kafka's
 * own selector finds a replica in the consumer's rack, so does this one, be it in a deeper one.
 *
 * <p>Brokers offer only replicas that are in sync and hold the offset that is asked for. A broker without a rack, or one
 * that this broker does not know the address of, is chosen only if it leads.
 */
public final class NearestReplicaSelector implements ReplicaSelector {
    /** Brokers' own, which are few; what clients send is not kept. */
    private final Map<String, RackPath> brokerRacks = new ConcurrentHashMap<>();

    @Override
    public Optional<ReplicaView> select(TopicPartition partition, ClientMetadata client, PartitionView view) {
        ReplicaView leader = view.leader();
        RackPath rack = RackPath.of(client.rackId());
        ReplicaView nearest = leader;
        int most = rack.stepsInCommon(rackOf(leader));
        for (ReplicaView replica : view.replicas()) {
            int steps = rack.stepsInCommon(rackOf(replica));
            if (steps > most || steps == most && nearest != leader && lagsLess(replica, nearest)) {
                nearest = replica;
                most = steps;
            }
        }
        return Optional.of(nearest);
    }

    private RackPath rackOf(ReplicaView replica) {
        String rack = replica.endpoint().rack();
        RackPath known = rack == null ? RackPath.of(null) : brokerRacks.get(rack);
        return known == null ? brokerRacks.computeIfAbsent(rack, RackPath::of) : known;
    }

    private static boolean lagsLess(ReplicaView one, ReplicaView other) {
        return ReplicaView.comparator().compare(one, other) > 0;
    }
}
