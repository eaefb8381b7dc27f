import java.net.InetAddress;
import java.util.LinkedHashSet;
import java.util.Map;
import java.util.Set;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.replica.ClientMetadata;
import org.apache.kafka.common.replica.PartitionView.DefaultPartitionView;
import org.apache.kafka.common.replica.ReplicaSelector;
import org.apache.kafka.common.replica.ReplicaView;
import org.apache.kafka.common.replica.ReplicaView.DefaultReplicaView;
import org.apache.kafka.common.security.auth.KafkaPrincipal;

/** Calls the selector of the given class for each case. The input has the cases as JSON, the output the broker ids. */
public class ReplicaSelections {
    public static void main(String[] arguments) throws Exception {
        ReplicaSelector selector =
            (ReplicaSelector) Class.forName(arguments[0]).getDeclaredConstructor().newInstance();
        ObjectMapper json = new ObjectMapper();
        ArrayNode answers = json.createArrayNode();
        for (JsonNode one : json.readTree(System.in)) {
            Set<ReplicaView> replicas = new LinkedHashSet<>();
            ReplicaView leader = null;
            for (Map.Entry<String, JsonNode> entry : one.get("replicas").properties()) {
                int broker = Integer.parseInt(entry.getKey());
                // Brokers only offer in-sync replicas.
                if (contains(one.path("not_in_sync"), broker)) {
                    continue;
                }
                Node node = new Node(broker, "host", 9092, entry.getValue().textValue());
                long end = one.path("log_end").path(entry.getKey()).asLong(0);
                ReplicaView replica = new DefaultReplicaView(node, end, 0);
                replicas.add(replica);
                leader = broker == one.get("leader").intValue() ? replica : leader;
            }
            ClientMetadata client = new ClientMetadata.DefaultClientMetadata(
                one.get("client").textValue(), "client", InetAddress.getLoopbackAddress(), KafkaPrincipal.ANONYMOUS, "INTERNAL");
            answers.add(selector
                .select(new TopicPartition("topic", 0), client, new DefaultPartitionView(replicas, leader))
                .map(chosen -> chosen.endpoint().id())
                .orElse(-1));
        }
        System.out.print(json.writeValueAsString(answers));
    }

    private static boolean contains(JsonNode list, int number) {
        for (JsonNode one : list) {
            if (one.intValue() == number) {
                return true;
            }
        }
        return false;
    }
}
