import java.lang.management.ManagementFactory;
import java.net.InetAddress;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Locale;
import java.util.Optional;
import java.util.Set;

import org.apache.kafka.common.Node;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.replica.ClientMetadata;
import org.apache.kafka.common.replica.PartitionView;
import org.apache.kafka.common.replica.PartitionView.DefaultPartitionView;
import org.apache.kafka.common.replica.ReplicaSelector;
import org.apache.kafka.common.replica.ReplicaView;
import org.apache.kafka.common.replica.ReplicaView.DefaultReplicaView;
import org.apache.kafka.common.security.auth.KafkaPrincipal;

/**
 * Measures the CPU time of the selection of a replica, as the median of many batches after a warm-up.
 *
 * Arguments: the seconds of the warm-up, the number of runs, and the class of a selector, or `SelectorSpeed$None`.
 * Prints a line per case: case|ns.
 */
public class SelectorSpeed {
    private static final int BATCH = 50_000;
    private static final List<String> RACKS =
        List.of("/us/us-1a/r1", "/eu/eu-1b/r1", "/eu/eu-1a/r2", "/eu/eu-1a/r3", "/us/us-1b/r4");

    /** Selects the leader, like a broker without a selector. */
    public static final class None implements ReplicaSelector {
        @Override
        public Optional<ReplicaView> select(TopicPartition partition, ClientMetadata client, PartitionView view) {
            return Optional.of(view.leader());
        }
    }

    public static void main(String[] arguments) throws Exception {
        double warmUp = Double.parseDouble(arguments[0]);
        int runs = Integer.parseInt(arguments[1]);
        ReplicaSelector selector =
            (ReplicaSelector) Class.forName(arguments[2]).getDeclaredConstructor().newInstance();
        for (int replicas : new int[] {3, 5}) {
            row("RF " + replicas + ", a replica in the same rack", selector, replicas, "/eu/eu-1a/r2", warmUp, runs);
            row("RF " + replicas + ", one in the same zone", selector, replicas, "/eu/eu-1a/r9", warmUp, runs);
            row("RF " + replicas + ", none in the same region", selector, replicas, "/asia/a/r1", warmUp, runs);
        }
    }

    private static void row(String name, ReplicaSelector selector, int count, String rack, double warmUp, int runs)
        throws Exception {
        Set<ReplicaView> replicas = new LinkedHashSet<>();
        for (int broker = 0; broker < count; broker++) {
            replicas.add(new DefaultReplicaView(new Node(broker, "host", 9092, RACKS.get(broker)), 100 - broker, broker));
        }
        PartitionView view = new DefaultPartitionView(replicas, replicas.iterator().next());
        // Each fetch has the rack of its client as a new string.
        List<ClientMetadata> clients = new ArrayList<>();
        for (int client = 0; client < 64; client++) {
            clients.add(new ClientMetadata.DefaultClientMetadata(
                new String(rack.toCharArray()), "client", InetAddress.getLoopbackAddress(), KafkaPrincipal.ANONYMOUS, "IN"));
        }
        TopicPartition partition = new TopicPartition("topic", 0);
        long chosen = 0;
        for (long start = now(); now() - start < warmUp * 1e9;) {
            chosen += batch(selector, partition, clients, view);
        }
        double[] times = new double[runs];
        for (int run = 0; run < runs; run++) {
            long start = now();
            chosen += batch(selector, partition, clients, view);
            times[run] = (now() - start) / (double) BATCH;
        }
        Arrays.sort(times);
        if (chosen < 0) {
            throw new IllegalStateException("no replica was selected");
        }
        System.out.println(String.format(Locale.ROOT, "%s|%.2f", name, times[runs / 2]));
    }

    private static long batch(ReplicaSelector selector, TopicPartition partition, List<ClientMetadata> clients, PartitionView view) {
        long chosen = 0;
        for (int call = 0; call < BATCH; call++) {
            chosen += selector.select(partition, clients.get(call & 63), view).orElseThrow().endpoint().id();
        }
        return chosen;
    }

    private static long now() {
        return ManagementFactory.getThreadMXBean().getCurrentThreadCpuTime();
    }
}
