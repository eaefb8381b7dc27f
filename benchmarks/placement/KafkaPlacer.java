import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.management.ManagementFactory;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Iterator;
import java.util.List;
import java.util.Optional;
import java.util.Random;
import java.util.stream.Collectors;

import com.sun.management.OperatingSystemMXBean;

import org.apache.kafka.common.Uuid;
import org.apache.kafka.metadata.placement.ClusterDescriber;
import org.apache.kafka.metadata.placement.PartitionAssignment;
import org.apache.kafka.metadata.placement.PlacementSpec;
import org.apache.kafka.metadata.placement.StripedReplicaPlacer;
import org.apache.kafka.metadata.placement.TopicAssignment;
import org.apache.kafka.metadata.placement.UsableBroker;

/**
 * Measures Kafka's StripedReplicaPlacer.
 *
 * Arguments: a file with a line "id rack" per broker, the numbers of partitions, replicas and warm-up runs, and a file
 * for the last placement. After the warm-up, it places the topic once for each line of its input. It prints the
 * nanoseconds of each placement: time on the clock, and CPU time of the whole process, including garbage collection.
 */
public class KafkaPlacer {
    public static void main(String[] args) throws IOException {
        List<UsableBroker> brokers = new ArrayList<>();
        for (String line : Files.readAllLines(Path.of(args[0]))) {
            String[] fields = line.split(" ");
            brokers.add(new UsableBroker(Integer.parseInt(fields[0]), Optional.of(fields[1]), false));
        }
        ClusterDescriber cluster = new ClusterDescriber() {
            @Override
            public Iterator<UsableBroker> usableBrokers() {
                return brokers.iterator();
            }

            @Override
            public Uuid defaultDir(int brokerId) {
                return Uuid.ZERO_UUID;
            }
        };
        PlacementSpec spec = new PlacementSpec(0, Integer.parseInt(args[1]), Short.parseShort(args[2]));
        Random random = new Random(0);
        for (int run = 0; run < Integer.parseInt(args[3]); run++) {
            new StripedReplicaPlacer(random).place(spec, cluster);
        }
        OperatingSystemMXBean process = ManagementFactory.getPlatformMXBean(OperatingSystemMXBean.class);
        TopicAssignment last = null;
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in));
        while (input.readLine() != null) {
            long cpu = process.getProcessCpuTime();
            long start = System.nanoTime();
            last = new StripedReplicaPlacer(random).place(spec, cluster);
            long took = System.nanoTime() - start;
            System.out.println(took + " " + (process.getProcessCpuTime() - cpu));
        }
        try (PrintStream out = new PrintStream(Files.newOutputStream(Path.of(args[4])))) {
            for (PartitionAssignment assignment : last.assignments()) {
                out.println(assignment.replicas().stream().map(String::valueOf).collect(Collectors.joining(" ")));
            }
        }
    }
}
