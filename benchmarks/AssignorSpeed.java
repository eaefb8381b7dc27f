import java.lang.management.ManagementFactory;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Optional;
import java.util.Random;
import java.util.Set;

import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.metadata.PartitionRecord;
import org.apache.kafka.common.metadata.RegisterBrokerRecord;
import org.apache.kafka.common.metadata.TopicRecord;
import org.apache.kafka.coordinator.common.runtime.CoordinatorMetadataImage;
import org.apache.kafka.coordinator.common.runtime.KRaftCoordinatorMetadataImage;
import org.apache.kafka.coordinator.group.api.assignor.ConsumerGroupPartitionAssignor;
import org.apache.kafka.coordinator.group.api.assignor.GroupAssignment;
import org.apache.kafka.coordinator.group.api.assignor.GroupSpec;
import org.apache.kafka.coordinator.group.api.assignor.SubscribedTopicDescriber;
import org.apache.kafka.coordinator.group.api.assignor.SubscriptionType;
import org.apache.kafka.coordinator.group.modern.Assignment;
import org.apache.kafka.coordinator.group.modern.GroupSpecImpl;
import org.apache.kafka.coordinator.group.modern.MemberSubscriptionAndAssignmentImpl;
import org.apache.kafka.coordinator.group.modern.SubscribedTopicDescriberImpl;
import org.apache.kafka.coordinator.group.modern.TopicIds;
import org.apache.kafka.image.MetadataDelta;
import org.apache.kafka.image.MetadataImage;
import org.apache.kafka.image.MetadataProvenance;

/**
 * Measures the CPU time of an assignment, as the median of many runs after a warm-up, and evaluates the assignment.
 *
 * Groups and topics are the classes of the broker, on an image of the metadata of a cluster.
 *
 * Arguments: the numbers of members and partitions, the seconds of the warm-up, the number of runs, the name of a
 * shape, and the class of an assignor, or `AssignorSpeed$Reading`. Prints a line per moment: moment|ms|near|moved. The
 * only argument `shapes` prints the names of all shapes.
 */
public class AssignorSpeed {
    private record Shape(String name, int zones, int racks, int topics, int subscriptions, boolean skewed, boolean told) {}

    private record Group(GroupSpec spec, Map<String, String> rackOf) {}

    private record Cluster(SubscribedTopicDescriber described, TopicIds.TopicResolver resolver, List<String> names) {}

    private static final List<Shape> SHAPES = List.of(
        new Shape("three racks", 3, 1, 100, 1, false, true),
        new Shape("three zones of three racks", 3, 3, 100, 1, false, true),
        new Shape("the same, members without racks", 3, 3, 100, 1, false, false),
        new Shape("the same, one big topic", 3, 3, 1, 1, false, true),
        new Shape("the same, 1,000 small topics", 3, 3, 1_000, 1, false, true),
        new Shape("the same, 20 subscriptions", 3, 3, 100, 20, false, true),
        new Shape("ten zones of three racks", 10, 3, 100, 1, false, true),
        new Shape("the same, members spread unevenly", 10, 3, 100, 1, true, true));

    private static final List<String> MOMENTS = List.of("first", "one joins", "one leaves", "unchanged");

    /** Only reads the racks of all partitions. This is a lower bound for the time of rack-aware assignors. */
    public static final class Reading implements ConsumerGroupPartitionAssignor {
        private int found;

        @Override
        public String name() {
            return "reading";
        }

        @Override
        public GroupAssignment assign(GroupSpec group, SubscribedTopicDescriber topics) {
            Set<Uuid> read = new HashSet<>();
            group.memberIds().forEach(member -> {
                if (group.subscriptionType() != SubscriptionType.HOMOGENEOUS || read.isEmpty()) {
                    read.addAll(group.memberSubscription(member).subscribedTopicIds());
                }
            });
            for (Uuid topic : read) {
                int partitions = topics.numPartitions(topic);
                for (int number = 0; number < partitions; number++) {
                    for (String rack : topics.racksForPartition(topic, number)) {
                        found += rack.length();
                    }
                }
            }
            return new GroupAssignment(Map.of());
        }
    }

    public static void main(String[] arguments) throws Exception {
        if (arguments[0].equals("shapes")) {
            SHAPES.forEach(shape -> System.out.println(shape.name));
            return;
        }
        int members = Integer.parseInt(arguments[0]);
        int partitions = Integer.parseInt(arguments[1]);
        double warmUp = Double.parseDouble(arguments[2]);
        int runs = Integer.parseInt(arguments[3]);
        Shape shape = SHAPES.stream().filter(each -> each.name.equals(arguments[4])).findAny().orElseThrow();
        ConsumerGroupPartitionAssignor assignor = (ConsumerGroupPartitionAssignor)
            Class.forName(arguments[5]).getDeclaredConstructor().newInstance();
        Cluster cluster = cluster(shape, partitions);
        for (String moment : MOMENTS) {
            System.out.println(row(shape, cluster, moment, assignor, members, warmUp, runs));
        }
    }

    private static String row(
        Shape shape, Cluster cluster, String moment, ConsumerGroupPartitionAssignor assignor, int members, double warmUp, int runs
    ) {
        Group group = group(shape, cluster, members, Map.of());
        Map<String, Map<Uuid, Set<Integer>>> before = Map.of();
        if (!moment.equals("first")) {
            before = plain(assignor.assign(group.spec, cluster.described));
            int more = moment.equals("one joins") ? 1 : moment.equals("one leaves") ? -1 : 0;
            group = group(shape, cluster, members + more, before);
        }
        GroupAssignment assigned = null;
        for (long start = now(); now() - start < warmUp * 1e9;) {
            assigned = assignor.assign(group.spec, cluster.described);
        }
        double[] times = new double[runs];
        for (int run = 0; run < runs; run++) {
            long start = now();
            assigned = assignor.assign(group.spec, cluster.described);
            times[run] = (now() - start) / 1e6;
        }
        Arrays.sort(times);
        return String.format(
            Locale.ROOT, "%s|%.4f|%s", moment, times[runs / 2], told(group, cluster, plain(assigned), before));
    }

    private static long now() {
        return ManagementFactory.getThreadMXBean().getCurrentThreadCpuTime();
    }

    private static String told(
        Group group, Cluster cluster, Map<String, Map<Uuid, Set<Integer>>> after, Map<String, Map<Uuid, Set<Integer>>> before
    ) {
        int near = 0;
        int moved = 0;
        for (Map.Entry<String, Map<Uuid, Set<Integer>>> member : after.entrySet()) {
            String rack = group.rackOf.get(member.getKey());
            for (Map.Entry<Uuid, Set<Integer>> topic : member.getValue().entrySet()) {
                Set<Integer> had = before.getOrDefault(member.getKey(), Map.of()).getOrDefault(topic.getKey(), Set.of());
                for (int partition : topic.getValue()) {
                    near += cluster.described.racksForPartition(topic.getKey(), partition).contains(rack) ? 1 : 0;
                    moved += before.isEmpty() || had.contains(partition) ? 0 : 1;
                }
            }
        }
        return near + "|" + moved;
    }

    /** Returns the assignment with sets like those that brokers create from the records of a group. */
    private static Map<String, Map<Uuid, Set<Integer>>> plain(GroupAssignment assigned) {
        Map<String, Map<Uuid, Set<Integer>>> plain = new HashMap<>();
        assigned.members().forEach((member, has) -> {
            Map<Uuid, Set<Integer>> copy = new HashMap<>();
            has.partitions().forEach((topic, numbers) -> copy.put(topic, new HashSet<>(numbers)));
            plain.put(member, copy);
        });
        return plain;
    }

    /** Returns a cluster with a broker per rack. Each partition has replicas in three zones. */
    private static Cluster cluster(Shape shape, int partitions) {
        Random chance = new Random(1);
        MetadataDelta delta = new MetadataDelta.Builder().setImage(MetadataImage.EMPTY).build();
        for (int broker = 0; broker < shape.zones * shape.racks; broker++) {
            delta.replay(new RegisterBrokerRecord().setBrokerId(broker).setRack(rack(shape, broker)).setFenced(false));
        }
        List<String> names = new ArrayList<>();
        for (int topic = 0; topic < shape.topics; topic++) {
            Uuid id = new Uuid(chance.nextLong(), chance.nextLong());
            names.add("topic-" + topic);
            delta.replay(new TopicRecord().setName("topic-" + topic).setTopicId(id));
            for (int partition = 0; partition < partitions / shape.topics; partition++) {
                List<Integer> replicas = new ArrayList<>();
                for (int zone : chance.ints(0, shape.zones).distinct().limit(3).toArray()) {
                    replicas.add(zone * shape.racks + chance.nextInt(shape.racks));
                }
                delta.replay(new PartitionRecord()
                    .setTopicId(id).setPartitionId(partition).setReplicas(replicas).setIsr(replicas).setLeader(replicas.get(0)));
            }
        }
        CoordinatorMetadataImage image =
            new KRaftCoordinatorMetadataImage(delta.apply(new MetadataProvenance(1, 1, 1, true)));
        return new Cluster(new SubscribedTopicDescriberImpl(image), new TopicIds.CachedTopicResolver(image), names);
    }

    private static String rack(Shape shape, int number) {
        return "/eu/zone-" + number / shape.racks + "/rack-" + number % shape.racks;
    }

    private static Group group(Shape shape, Cluster cluster, int members, Map<String, Map<Uuid, Set<Integer>>> before) {
        Random chance = new Random(2);
        List<Set<String>> subscriptions = new ArrayList<>();
        for (int number = 0; number < shape.subscriptions; number++) {
            Set<String> subscribed = new HashSet<>(cluster.names);
            if (number > 0) {
                subscribed.removeIf(topic -> chance.nextInt(10) > 0);
            }
            subscriptions.add(subscribed);
        }
        Map<String, MemberSubscriptionAndAssignmentImpl> all = new HashMap<>();
        Map<String, String> rackOf = new HashMap<>();
        Map<Uuid, Map<Integer, String>> inverted = new HashMap<>();
        for (int member = 0; member < members; member++) {
            String id = new Uuid(chance.nextLong(), chance.nextLong()).toString();
            double where = shape.skewed ? Math.pow(chance.nextDouble(), 2) : chance.nextDouble();
            String rack = rack(shape, (int) (where * shape.zones * shape.racks));
            Map<Uuid, Set<Integer>> has = before.getOrDefault(id, Map.of());
            has.forEach((topic, numbers) -> numbers.forEach(
                number -> inverted.computeIfAbsent(topic, added -> new HashMap<>()).put(number, id)));
            Set<String> subscribed = new HashSet<>(subscriptions.get(member % subscriptions.size()));
            all.put(
                id,
                new MemberSubscriptionAndAssignmentImpl(
                    shape.told ? Optional.of(rack) : Optional.empty(),
                    Optional.empty(),
                    new TopicIds(subscribed, cluster.resolver),
                    new Assignment(has)));
            rackOf.put(id, rack);
        }
        SubscriptionType type =
            shape.subscriptions == 1 ? SubscriptionType.HOMOGENEOUS : SubscriptionType.HETEROGENEOUS;
        return new Group(new GroupSpecImpl(all, type, inverted), rackOf);
    }
}
