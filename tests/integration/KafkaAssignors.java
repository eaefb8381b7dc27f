import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;

import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.GroupSubscription;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.Subscription;
import org.apache.kafka.clients.consumer.CooperativeStickyAssignor;
import org.apache.kafka.clients.consumer.RangeAssignor;
import org.apache.kafka.common.Cluster;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.PartitionInfo;
import org.apache.kafka.common.TopicPartition;

/**
 * The results of Kafka's own assignors for groups without an earlier assignment.
 *
 * Input: one group per line, with the name of the assignor, the rack of each member, and the racks of the replicas of
 * each partition, such as "range|0,1|0+1,1+2;0+2": two members, a topic with two partitions and one with one partition.
 * Output: the member of each partition in the same order, such as "0,1,1".
 */
public class KafkaAssignors {
    public static void main(String[] arguments) throws Exception {
        StringBuilder answers = new StringBuilder();
        BufferedReader groups = new BufferedReader(new InputStreamReader(System.in));
        for (String group = groups.readLine(); group != null; group = groups.readLine()) {
            String[] parts = group.split("\\|");
            answers.append(owners(parts[0], parts[1].split(","), parts[2].split(";"))).append('\n');
        }
        System.out.print(answers);
    }

    private static String owners(String assignor, String[] members, String[] topics) {
        Map<String, Node> nodes = new HashMap<>();
        List<PartitionInfo> partitions = new ArrayList<>();
        List<String> names = new ArrayList<>();
        for (int topic = 0; topic < topics.length; topic++) {
            names.add(name(topic));
            String[] rows = topics[topic].split(",");
            for (int number = 0; number < rows.length; number++) {
                Node[] replicas = Arrays.stream(rows[number].split("\\+"))
                    .map(rack -> nodes.computeIfAbsent(rack, r -> new Node(Integer.parseInt(r), "host", 1, r)))
                    .toArray(Node[]::new);
                partitions.add(new PartitionInfo(name(topic), number, replicas[0], replicas, replicas));
            }
        }
        Cluster cluster =
            new Cluster("cluster", nodes.values(), partitions, Collections.emptySet(), Collections.emptySet());
        Map<String, Subscription> subscriptions = new HashMap<>();
        for (int member = 0; member < members.length; member++) {
            subscriptions.put(
                name(member),
                new Subscription(names, null, Collections.emptyList(), -1, Optional.of(members[member])));
        }
        ConsumerPartitionAssignor chosen =
            assignor.equals("range") ? new RangeAssignor() : new CooperativeStickyAssignor();
        Map<TopicPartition, Integer> owner = new HashMap<>();
        chosen.assign(cluster, new GroupSubscription(subscriptions)).groupAssignment().forEach(
            (member, assignment) -> assignment.partitions().forEach(
                partition -> owner.put(partition, Integer.parseInt(member))));
        List<String> owners = new ArrayList<>();
        for (PartitionInfo partition : partitions) {
            owners.add(String.valueOf(owner.get(new TopicPartition(partition.topic(), partition.partition()))));
        }
        return String.join(",", owners);
    }

    private static String name(int number) {
        return String.format("%03d", number);
    }
}
