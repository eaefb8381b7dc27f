import java.lang.management.ManagementFactory;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Random;
import java.util.Set;

import org.apache.kafka.common.Uuid;
import org.apache.kafka.coordinator.group.api.assignor.ConsumerGroupPartitionAssignor;
import org.apache.kafka.coordinator.group.api.assignor.GroupAssignment;
import org.apache.kafka.coordinator.group.api.assignor.GroupSpec;
import org.apache.kafka.coordinator.group.api.assignor.SubscribedTopicDescriber;
import org.apache.kafka.coordinator.group.api.assignor.SubscriptionType;
import org.apache.kafka.coordinator.group.modern.Assignment;
import org.apache.kafka.coordinator.group.modern.GroupSpecImpl;
import org.apache.kafka.coordinator.group.modern.MemberSubscriptionAndAssignmentImpl;

/**
 * CPU time of a thread for one assignment, the median of many after others that let the JVM compile; and what came of it.
 *
 * Arguments: members, partitions, runs, and then assignors. Prints rows of a table.
 */
public class AssignorSpeed {
    private static final int TOPICS = 100;

    private record Shape(String name, int zones, int racks, int subscriptions, boolean skewed) {}

    private record Group(GroupSpec spec, SubscribedTopicDescriber topics, Map<String, List<String>> rackOf) {}

    public static void main(String[] arguments) throws Exception {
        int members = Integer.parseInt(arguments[0]);
        int partitions = Integer.parseInt(arguments[1]);
        int runs = Integer.parseInt(arguments[2]);
        List<Shape> shapes = List.of(
            new Shape("three racks, RF 3", 3, 1, 1, false),
            new Shape("three zones of three racks, RF 3", 3, 3, 1, false),
            new Shape("ten zones of three racks, RF 3", 10, 3, 1, false),
            new Shape("the same, members unevenly", 10, 3, 1, true),
            new Shape("three zones of three racks, 20 subscriptions", 3, 3, 20, false));
        for (Shape shape : shapes) {
            for (String moment : List.of("first", "one more member", "unchanged")) {
                for (int at = 3; at < arguments.length; at++) {
                    ConsumerGroupPartitionAssignor assignor = (ConsumerGroupPartitionAssignor)
                        Class.forName(arguments[at]).getDeclaredConstructor().newInstance();
                    System.out.println(row(shape, moment, assignor, members, partitions, runs));
                }
            }
        }
    }

    private static String row(
        Shape shape, String moment, ConsumerGroupPartitionAssignor assignor, int members, int partitions, int runs
    ) {
        Group group = group(shape, members, partitions, Map.of());
        Map<String, Map<Uuid, Set<Integer>>> before = Map.of();
        if (!moment.equals("first")) {
            before = plain(assignor.assign(group.spec, group.topics));
            group = group(shape, moment.equals("unchanged") ? members : members + 1, partitions, before);
        }
        double[] times = new double[runs];
        GroupAssignment assigned = null;
        for (int run = -runs; run < runs; run++) {
            long start = ManagementFactory.getThreadMXBean().getCurrentThreadCpuTime();
            assigned = assignor.assign(group.spec, group.topics);
            if (run >= 0) {
                times[run] = (ManagementFactory.getThreadMXBean().getCurrentThreadCpuTime() - start) / 1e6;
            }
        }
        Arrays.sort(times);
        return String.format(
            "| %s | %s | %s | %.1f | %s |",
            shape.name, moment, assignor.name(), times[runs / 2], told(group, plain(assigned), before, partitions));
    }

    private static String told(
        Group group,
        Map<String, Map<Uuid, Set<Integer>>> after,
        Map<String, Map<Uuid, Set<Integer>>> before,
        int partitions
    ) {
        int near = 0;
        int moved = 0;
        int most = 0;
        int least = Integer.MAX_VALUE;
        for (Map.Entry<String, Map<Uuid, Set<Integer>>> member : after.entrySet()) {
            int count = 0;
            List<String> rack = group.rackOf.get(member.getKey());
            for (Map.Entry<Uuid, Set<Integer>> topic : member.getValue().entrySet()) {
                Set<Integer> had = before.getOrDefault(member.getKey(), Map.of()).getOrDefault(topic.getKey(), Set.of());
                for (int partition : topic.getValue()) {
                    count++;
                    near += group.topics.racksForPartition(topic.getKey(), partition).contains(rack.get(0)) ? 1 : 0;
                    moved += before.isEmpty() || had.contains(partition) ? 0 : 1;
                }
            }
            most = Math.max(most, count);
            least = Math.min(least, count);
        }
        return String.format("%.1f %% | %d to %d | %d", 100.0 * near / partitions, least, most, moved);
    }

    private static Map<String, Map<Uuid, Set<Integer>>> plain(GroupAssignment assigned) {
        Map<String, Map<Uuid, Set<Integer>>> plain = new HashMap<>();
        assigned.members().forEach((member, has) -> plain.put(member, has.partitions()));
        return plain;
    }

    private static Group group(Shape shape, int members, int partitions, Map<String, Map<Uuid, Set<Integer>>> before) {
        Random chance = new Random(1);
        List<String> racks = new ArrayList<>();
        for (int zone = 0; zone < shape.zones; zone++) {
            for (int rack = 0; rack < shape.racks; rack++) {
                racks.add("/eu/zone-" + zone + "/rack-" + rack);
            }
        }
        List<Uuid> topics = new ArrayList<>();
        Map<Uuid, List<List<String>>> replicas = new HashMap<>();
        for (int topic = 0; topic < TOPICS; topic++) {
            List<List<String>> rows = new ArrayList<>();
            for (int partition = 0; partition < partitions / TOPICS; partition++) {
                List<String> row = new ArrayList<>();
                for (int zone : chance.ints(0, shape.zones).distinct().limit(3).toArray()) {
                    row.add(racks.get(zone * shape.racks + chance.nextInt(shape.racks)));
                }
                rows.add(row);
            }
            topics.add(new Uuid(1, topic));
            replicas.put(topics.get(topic), rows);
        }
        List<Set<Uuid>> subscriptions = new ArrayList<>();
        for (int number = 0; number < shape.subscriptions; number++) {
            Set<Uuid> subscribed = new HashSet<>(topics);
            if (number > 0) {
                subscribed.removeIf(topic -> chance.nextInt(10) > 0);
            }
            subscriptions.add(subscribed);
        }
        Map<String, MemberSubscriptionAndAssignmentImpl> all = new HashMap<>();
        Map<String, List<String>> rackOf = new HashMap<>();
        Map<Uuid, Map<Integer, String>> inverted = new HashMap<>();
        for (int member = 0; member < members; member++) {
            String id = new Uuid(chance.nextLong(), chance.nextLong()).toString();
            double where = shape.skewed ? Math.pow(chance.nextDouble(), 2) : chance.nextDouble();
            String rack = racks.get((int) (where * racks.size()));
            Map<Uuid, Set<Integer>> has = before.getOrDefault(id, Map.of());
            has.forEach((topic, numbers) -> numbers.forEach(
                number -> inverted.computeIfAbsent(topic, added -> new HashMap<>()).put(number, id)));
            all.put(
                id,
                new MemberSubscriptionAndAssignmentImpl(
                    Optional.of(rack), Optional.empty(), subscriptions.get(member % subscriptions.size()), new Assignment(has)));
            rackOf.put(id, List.of(rack));
        }
        SubscriptionType type =
            shape.subscriptions == 1 ? SubscriptionType.HOMOGENEOUS : SubscriptionType.HETEROGENEOUS;
        return new Group(new GroupSpecImpl(all, type, inverted), describer(replicas), rackOf);
    }

    /** A set of its own for each question, as brokers make it. */
    private static SubscribedTopicDescriber describer(Map<Uuid, List<List<String>>> replicas) {
        return new SubscribedTopicDescriber() {
            @Override
            public int numPartitions(Uuid topic) {
                return replicas.get(topic).size();
            }

            @Override
            public Set<String> racksForPartition(Uuid topic, int partition) {
                return new HashSet<>(replicas.get(topic).get(partition));
            }
        };
    }
}
