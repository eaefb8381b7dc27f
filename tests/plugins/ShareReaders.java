import java.io.PrintStream;
import java.nio.ByteBuffer;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutionException;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.ShareGroupDescription;
import org.apache.kafka.clients.admin.ShareMemberDescription;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaShareConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.GroupState;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.errors.GroupIdNotFoundException;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * Runs the consumers of a share group. They read records that are produced after all partitions are assigned.
 *
 * The input is {"bootstrap": "", "group": "", "topics": {"topic": 3}, "racks": ["/a"], "records": 10, "bytes": 100}:
 * the partitions of each topic, a rack per member, and the number of records per partition. The output for each member
 * is {"topic-0": 10}: its assigned partitions, and the number of records that it has read.
 */
public class ShareReaders {
    private static final Duration PATIENCE = Duration.ofMinutes(4);

    public static void main(String[] arguments) throws Exception {
        PrintStream out = System.out;
        System.setOut(System.err);  // for the logs of clients
        ObjectMapper json = new ObjectMapper();
        JsonNode asked = json.readTree(System.in);
        Map<String, Object> client = Map.of("bootstrap.servers", asked.get("bootstrap").textValue());
        String group = asked.get("group").textValue();
        Set<TopicPartition> partitions = new HashSet<>();
        asked.get("topics").properties().forEach(topic -> {
            for (int number = 0; number < topic.getValue().intValue(); number++) {
                partitions.add(new TopicPartition(topic.getKey(), number));
            }
        });
        Set<ByteBuffer> unread = ConcurrentHashMap.newKeySet();
        List<Reader> readers = new ArrayList<>();
        asked.get("racks").forEach(rack -> readers.add(new Reader(client, group, partitions, rack.textValue(), unread)));
        List<Thread> threads = readers.stream().map(Thread::new).toList();
        threads.forEach(thread -> thread.setDaemon(true));
        unread.add(ByteBuffer.allocate(0));  // a placeholder, so that readers do not end before records are produced
        try (Admin admin = Admin.create(client)) {
            readAll(admin, group);
            threads.forEach(Thread::start);
            Map<String, Set<TopicPartition>> assigned = assigned(admin, group, partitions, readers.size());
            produce(client, group, partitions, asked.get("records").intValue(), asked.get("bytes").intValue(), unread);
            for (Thread thread : threads) {
                thread.join(PATIENCE.toMillis());
                if (thread.isAlive()) {
                    throw new IllegalStateException(unread.size() + " records are unread");
                }
            }
            List<Map<String, Integer>> answer = new ArrayList<>();
            for (int number = 0; number < readers.size(); number++) {
                Map<String, Integer> read = new TreeMap<>();
                assigned.get("member-" + number).forEach(partition -> read.put(partition.toString(), 0));
                readers.get(number).read.forEach((partition, records) -> read.merge(partition.toString(), records, Integer::sum));
                answer.add(read);
            }
            out.print(json.writeValueAsString(answer));
        }
    }

    private static final class Reader implements Runnable {
        private static int number;

        private final Map<TopicPartition, Integer> read = new HashMap<>();
        private final KafkaShareConsumer<byte[], byte[]> consumer;
        private final Set<ByteBuffer> unread;

        Reader(
            Map<String, Object> client, String group, Set<TopicPartition> partitions, String rack, Set<ByteBuffer> unread
        ) {
            Map<String, Object> config = new HashMap<>(client);
            config.putAll(Map.of("group.id", group, "client.rack", rack, "client.id", "member-" + number++));
            consumer = new KafkaShareConsumer<>(config, new ByteArrayDeserializer(), new ByteArrayDeserializer());
            consumer.subscribe(partitions.stream().map(TopicPartition::topic).distinct().toList());
            this.unread = unread;
        }

        @Override
        public void run() {
            while (!unread.isEmpty()) {
                for (ConsumerRecord<byte[], byte[]> record : consumer.poll(Duration.ofMillis(200))) {
                    read.merge(new TopicPartition(record.topic(), record.partition()), 1, Integer::sum);
                    unread.remove(ByteBuffer.wrap(record.key()));
                }
            }
            consumer.close();
        }
    }

    /** Includes records that are produced after the assignment, but before the first read. */
    private static void readAll(Admin admin, String group) throws Exception {
        ConfigEntry earliest = new ConfigEntry("share.auto.offset.reset", "earliest");
        admin.incrementalAlterConfigs(Map.of(
            new ConfigResource(ConfigResource.Type.GROUP, group),
            List.of(new AlterConfigOp(earliest, AlterConfigOp.OpType.SET)))).all().get();
    }

    private static Map<String, Set<TopicPartition>> assigned(
        Admin admin, String group, Set<TopicPartition> partitions, int members
    ) throws Exception {
        ShareGroupDescription found = null;
        for (long start = System.nanoTime(); System.nanoTime() - start < PATIENCE.toNanos(); Thread.sleep(500)) {
            try {
                found = admin.describeShareGroups(List.of(group)).all().get().get(group);
            } catch (ExecutionException exception) {
                if (exception.getCause() instanceof GroupIdNotFoundException) {
                    continue;  // until its first member has joined
                }
                throw exception;
            }
            Map<String, Set<TopicPartition>> assigned = new HashMap<>();
            Set<TopicPartition> all = new HashSet<>();
            for (ShareMemberDescription member : found.members()) {
                Set<TopicPartition> some = member.assignment().topicPartitions();
                all.addAll(some);
                if (!some.isEmpty()) {
                    assigned.put(member.clientId(), some);
                }
            }
            if (found.groupState() == GroupState.STABLE && assigned.size() == members && all.equals(partitions)) {
                return assigned;
            }
        }
        throw new IllegalStateException("Not all partitions are assigned, or not to all: " + found);
    }

    /** Produces the records and adds their keys to `unread`. At the end, removes the placeholder from `unread`. */
    private static void produce(
        Map<String, Object> client, String group, Set<TopicPartition> partitions, int records, int bytes,
        Set<ByteBuffer> unread
    ) {
        try (KafkaProducer<byte[], byte[]> producer =
                new KafkaProducer<>(client, new ByteArraySerializer(), new ByteArraySerializer())) {
            for (int record = 0; record < records; record++) {
                for (TopicPartition partition : partitions) {
                    byte[] key = (group + "/" + partition + "/" + record).getBytes();
                    unread.add(ByteBuffer.wrap(key));
                    producer.send(new ProducerRecord<>(partition.topic(), partition.partition(), key, new byte[bytes]));
                }
            }
        }
        unread.remove(ByteBuffer.allocate(0));
    }
}
