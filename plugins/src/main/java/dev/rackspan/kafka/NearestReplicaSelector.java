package dev.rackspan.kafka;

import java.util.Map;
import java.util.Objects;
import java.util.Optional;
import java.util.concurrent.ConcurrentHashMap;

import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.replica.ClientMetadata;
import org.apache.kafka.common.replica.PartitionView;
import org.apache.kafka.common.replica.ReplicaSelector;
import org.apache.kafka.common.replica.ReplicaView;

/**
 * Selects the nearest in-sync replica for a consumer, a hierarchical version of KIP-392. The nearest replica is the one
 * whose {@code broker.rack} has the most leading steps in common with the {@code client.rack} of the consumer.
 *
 * <p>If several replicas are equally near, the leader is selected, or the replica with the smallest lag if the leader
 * is not among them. The leader is also selected if no replica has the first step in common, and for consumers without
 * a rack. If Kafka's selector finds a replica in the rack of the consumer, this selector finds one, too, possibly in a
 * deeper rack.
 *
 * <p>Brokers only offer replicas that are in sync and have the requested offset. A broker without a rack, or with an
 * address that this broker does not know, is selected only if it is the leader.
 */
public final class NearestReplicaSelector implements ReplicaSelector {
    private record Client(String rackId, RackPath rack) {}

    /** The parsed racks of brokers, which are few. */
    private final Map<String, RackPath> brokerRacks = new ConcurrentHashMap<>();
    /** The latest client. A fetch request asks for each of its partitions, and its rack can be long. */
    private volatile Client latest = new Client(null, RackPath.of(null));

    @Override
    public Optional<ReplicaView> select(TopicPartition partition, ClientMetadata client, PartitionView view) {
        ReplicaView leader = view.leader();
        RackPath rack = rackOf(client);
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

    private RackPath rackOf(ClientMetadata client) {
        Client known = latest;
        if (!Objects.equals(known.rackId, client.rackId())) {
            latest = known = new Client(client.rackId(), RackPath.of(client.rackId()));
        }
        return known.rack;
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
