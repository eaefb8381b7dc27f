package org.apache.kafka.clients.admin;

import java.io.BufferedReader;
import java.io.File;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.Proxy;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.Iterator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Random;
import java.util.TreeMap;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;

import org.apache.kafka.common.KafkaFuture;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.TopicPartitionInfo;
import org.apache.kafka.common.TopicPartitionReplica;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.metadata.placement.ClusterDescriber;
import org.apache.kafka.metadata.placement.PartitionAssignment;
import org.apache.kafka.metadata.placement.PlacementSpec;
import org.apache.kafka.metadata.placement.StripedReplicaPlacer;
import org.apache.kafka.metadata.placement.UsableBroker;
import org.apache.kafka.tools.reassign.ReassignPartitionsCommand;

/**
 * Runs Kafka's reassignment tool and Kafka's placer on a cluster that is read from a snapshot file.
 *
 * The fake Admin client implements the three calls of `kafka-reassign-partitions --generate` and rejects all others.
 * All other code is that of the tool. This class is in a package of Kafka, because the results of Admin calls have
 * package-private constructors.
 *
 * Each line of input is a request with tab-separated fields. For each one, the output is a line, "ok" or the error:
 *
 *   generate  SNAPSHOT  BROKER-LIST  OUTPUT    the unchanged output of the tool for all topics
 *   place     SNAPSHOT  SEED         OUTPUT    all topics as a controller would create them, as reassignment JSON
 */
public class KafkaTool {
    private static final ObjectMapper JSON = new ObjectMapper();

    private final Map<Integer, Node> brokers = new TreeMap<>();
    private final Map<String, TopicDescription> topics = new LinkedHashMap<>();

    private KafkaTool(String snapshot) throws IOException {
        JsonNode document = JSON.readTree(new File(snapshot));
        for (JsonNode broker : document.get("brokers")) {
            int id = broker.get("id").asInt();
            JsonNode rack = broker.get("rack");
            String known = rack == null || rack.isNull() ? null : rack.asText();
            brokers.put(id, new Node(id, "broker-" + id, 9092, known));
        }
        for (JsonNode topic : document.get("topics")) {
            List<TopicPartitionInfo> partitions = new ArrayList<>();
            for (JsonNode partition : topic.get("partitions")) {
                List<Node> replicas = new ArrayList<>();
                partition.get("replicas").forEach(broker -> replicas.add(brokers.get(broker.asInt())));
                int number = partition.get("partition").asInt();
                partitions.add(new TopicPartitionInfo(number, replicas.get(0), replicas, replicas));
            }
            String name = topic.get("name").asText();
            topics.put(name, new TopicDescription(name, false, partitions));
        }
    }

    public static void main(String[] args) throws IOException {
        PrintStream answers = System.out;
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = input.readLine(); line != null; line = input.readLine()) {
            String[] request = line.split("\t");
            try (PrintStream output = new PrintStream(request[3], StandardCharsets.UTF_8)) {
                System.setOut(output);
                KafkaTool cluster = new KafkaTool(request[1]);
                if (request[0].equals("generate")) {
                    cluster.generate(request[2]);
                } else {
                    cluster.place(Long.parseLong(request[2]));
                }
                answers.println("ok");
            } catch (Exception error) {
                answers.println(error.toString().replace('\n', ' '));
            }
            answers.flush();
        }
    }

    private void generate(String brokerList) throws Exception {
        List<Map<String, String>> named = topics.keySet().stream().map(topic -> Map.of("topic", topic)).toList();
        String toMove = JSON.writeValueAsString(Map.of("topics", named, "version", 1));
        ReassignPartitionsCommand.generateAssignment(admin(), toMove, brokerList, true);
    }

    private void place(long seed) throws IOException {
        StripedReplicaPlacer placer = new StripedReplicaPlacer(new Random(seed));
        Map<TopicPartition, List<Integer>> placed = new HashMap<>();
        for (TopicDescription topic : topics.values()) {
            int count = topic.partitions().size();
            short replicas = (short) topic.partitions().get(0).replicas().size();
            int number = 0;
            for (PartitionAssignment one : placer.place(new PlacementSpec(0, count, replicas), describer()).assignments()) {
                placed.put(new TopicPartition(topic.name(), number++), one.replicas());
            }
        }
        System.out.println(ReassignPartitionsCommand.formatAsReassignmentJson(placed, Map.of()));
    }

    private ClusterDescriber describer() {
        return new ClusterDescriber() {
            @Override
            public Iterator<UsableBroker> usableBrokers() {
                return brokers.values().stream()
                    .map(node -> new UsableBroker(node.id(), Optional.ofNullable(node.rack()), false))
                    .iterator();
            }

            @Override
            public Uuid defaultDir(int brokerId) {
                return Uuid.ZERO_UUID;
            }
        };
    }

    private Admin admin() {
        Class<?>[] faces = {Admin.class};
        return (Admin) Proxy.newProxyInstance(getClass().getClassLoader(), faces, (proxy, method, arguments) -> {
            switch (method.getName()) {
                case "describeTopics":
                    return describeTopics((Collection<?>) arguments[0]);
                case "describeCluster":
                    Collection<Node> nodes = brokers.values();
                    return new DescribeClusterResult(done(nodes), null, null, null);
                case "describeReplicaLogDirs":
                    return describeReplicaLogDirs((Collection<?>) arguments[0]);
                default:
                    throw new UnsupportedOperationException("the tool called " + method);
            }
        });
    }

    private DescribeTopicsResult describeTopics(Collection<?> names) {
        Map<String, KafkaFuture<TopicDescription>> found = new HashMap<>();
        names.forEach(name -> found.put((String) name, done(topics.get(name))));
        return new DescribeTopicsResult(null, found);
    }

    private DescribeReplicaLogDirsResult describeReplicaLogDirs(Collection<?> replicas) {
        Map<TopicPartitionReplica, KafkaFuture<DescribeReplicaLogDirsResult.ReplicaLogDirInfo>> found = new HashMap<>();
        DescribeReplicaLogDirsResult.ReplicaLogDirInfo nowhere = new DescribeReplicaLogDirsResult.ReplicaLogDirInfo();
        replicas.forEach(replica -> found.put((TopicPartitionReplica) replica, done(nowhere)));
        return new DescribeReplicaLogDirsResult(found);
    }

    private static <T> KafkaFuture<T> done(T value) {
        return KafkaFuture.completedFuture(value);
    }
}
