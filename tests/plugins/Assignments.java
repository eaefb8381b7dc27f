import java.util.AbstractSet;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashMap;
import java.util.HashSet;
import java.util.Iterator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeSet;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.coordinator.group.api.assignor.GroupAssignment;
import org.apache.kafka.coordinator.group.api.assignor.PartitionAssignor;
import org.apache.kafka.coordinator.group.api.assignor.ShareGroupPartitionAssignor;
import org.apache.kafka.coordinator.group.api.assignor.SubscribedTopicDescriber;
import org.apache.kafka.coordinator.group.api.assignor.SubscriptionType;
import org.apache.kafka.coordinator.group.modern.Assignment;
import org.apache.kafka.coordinator.group.modern.GroupSpecImpl;
import org.apache.kafka.coordinator.group.modern.MemberSubscriptionAndAssignmentImpl;

/**
 * Calls a server-side assignor for groups, and prints the reader of each partition.
 *
 * A group is {"members": {"id": {"rack": "/a", "instance": "i", "topics": [0, 1]}}, "topics": [[["/a", "/b"]]],
 * "owners": [["id"]]}. "topics" has the racks of the partitions of each topic, or null if the assignor must not read
 * them. "owners" has the current members, and the output has the same format. In share groups, each partition has a
 * list of members, and "assignable": [[true]] is optional.
 */
public class Assignments {
    /** Rejects hashCode, because the hash of a broker's set always includes the metadata of the whole cluster. */
    private static final class NotToHash extends AbstractSet<Uuid> {
        private final Set<Uuid> topics;

        NotToHash(Set<Uuid> topics) {
            this.topics = topics;
        }

        @Override
        public Iterator<Uuid> iterator() {
            return topics.iterator();
        }

        @Override
        public int size() {
            return topics.size();
        }

        @Override
        public int hashCode() {
            throw new UnsupportedOperationException("this takes time proportional to the size of the cluster");
        }
    }

    public static void main(String[] arguments) throws Exception {
        PartitionAssignor assignor =
            (PartitionAssignor) Class.forName(arguments[0]).getDeclaredConstructor().newInstance();
        ObjectMapper json = new ObjectMapper();
        List<Object> answers = new ArrayList<>();
        for (JsonNode group : json.readTree(System.in)) {
            List<List<Set<String>>> owners = owners(assignor, group);
            answers.add(assignor instanceof ShareGroupPartitionAssignor ? owners : alone(owners));
        }
        System.out.print(json.writeValueAsString(answers));
    }

    private static List<List<Set<String>>> owners(PartitionAssignor assignor, JsonNode group) {
        List<List<Set<String>>> racks = racks(group.get("topics"));
        Map<String, Map<Uuid, Set<Integer>>> current = new HashMap<>();
        Map<Uuid, Map<Integer, String>> inverted = new HashMap<>();
        for (int topic = 0; topic < group.path("owners").size(); topic++) {
            ArrayNode owners = (ArrayNode) group.get("owners").get(topic);
            for (int number = 0; number < owners.size(); number++) {
                for (String owner : names(owners.get(number))) {
                    current.computeIfAbsent(owner, added -> new HashMap<>())
                        .computeIfAbsent(id(topic), added -> new HashSet<>())
                        .add(number);
                    inverted.computeIfAbsent(id(topic), added -> new HashMap<>()).put(number, owner);
                }
            }
        }
        Map<String, MemberSubscriptionAndAssignmentImpl> members = new LinkedHashMap<>();
        Set<Set<Uuid>> subscriptions = new HashSet<>();
        for (Map.Entry<String, JsonNode> member : group.get("members").properties()) {
            Set<Uuid> subscribed = new HashSet<>();
            member.getValue().get("topics").forEach(topic -> subscribed.add(id(topic.intValue())));
            subscriptions.add(subscribed);
            members.put(
                member.getKey(),
                new MemberSubscriptionAndAssignmentImpl(
                    Optional.ofNullable(member.getValue().path("rack").textValue()),
                    Optional.ofNullable(member.getValue().path("instance").textValue()),
                    new NotToHash(subscribed),
                    new Assignment(current.getOrDefault(member.getKey(), Collections.emptyMap()))));
        }
        SubscriptionType type =
            subscriptions.size() == 1 ? SubscriptionType.HOMOGENEOUS : SubscriptionType.HETEROGENEOUS;
        GroupSpecImpl spec = group.has("assignable")
            ? new GroupSpecImpl(members, type, inverted, Optional.of(assignable(group.get("assignable"))))
            : new GroupSpecImpl(members, type, inverted);
        return told(assignor.assign(spec, describer(racks)), racks);
    }

    private static List<String> names(JsonNode owners) {
        List<String> names = new ArrayList<>();
        if (owners.isTextual()) {
            names.add(owners.textValue());
        }
        owners.forEach(name -> names.add(name.textValue()));
        return names;
    }

    private static Map<Uuid, Set<Integer>> assignable(JsonNode topics) {
        Map<Uuid, Set<Integer>> assignable = new HashMap<>();
        for (int topic = 0; topic < topics.size(); topic++) {
            Set<Integer> some = new HashSet<>();
            for (int number = 0; number < topics.get(topic).size(); number++) {
                if (topics.get(topic).get(number).booleanValue()) {
                    some.add(number);
                }
            }
            assignable.put(id(topic), some);
        }
        return assignable;
    }

    private static List<List<Set<String>>> told(GroupAssignment assigned, List<List<Set<String>>> racks) {
        List<List<Set<String>>> owners = new ArrayList<>();
        for (List<Set<String>> topic : racks) {
            List<Set<String>> partitions = new ArrayList<>();
            topic.forEach(partition -> partitions.add(new TreeSet<>()));
            owners.add(partitions);
        }
        assigned.members().forEach((member, has) -> has.partitions().forEach((topic, numbers) -> {
            compare(numbers);
            numbers.forEach(number -> owners.get((int) topic.getLeastSignificantBits()).get(number).add(member));
        }));
        return owners;
    }

    /** Checks the equality with a HashSet, which a broker uses to compare assignments. */
    private static void compare(Set<Integer> numbers) {
        Set<Integer> same = new HashSet<>(numbers);
        Set<Integer> next = new HashSet<>();
        numbers.forEach(number -> next.add(number + 1));
        boolean alike = numbers.equals(same) && same.equals(numbers);
        if (!alike || numbers.equals(next) != numbers.isEmpty() || next.equals(numbers) != numbers.isEmpty()) {
            throw new IllegalStateException(numbers + " is not equal to a set with the same elements");
        }
    }

    /** Returns the only owner of each partition of a group that does not share partitions. */
    private static List<List<String>> alone(List<List<Set<String>>> owners) {
        List<List<String>> alone = new ArrayList<>();
        for (List<Set<String>> topic : owners) {
            List<String> partitions = new ArrayList<>();
            for (Set<String> members : topic) {
                if (members.size() > 1) {
                    throw new IllegalStateException("A partition is assigned to several members: " + members);
                }
                partitions.add(members.isEmpty() ? null : members.iterator().next());
            }
            alone.add(partitions);
        }
        return alone;
    }

    private static List<List<Set<String>>> racks(JsonNode topics) {
        List<List<Set<String>>> racks = new ArrayList<>();
        for (JsonNode topic : topics) {
            List<Set<String>> partitions = new ArrayList<>();
            for (JsonNode partition : topic) {
                Set<String> found = new HashSet<>();
                partition.forEach(rack -> found.add(rack.textValue()));
                partitions.add(partition.isNull() ? null : found);
            }
            racks.add(partitions);
        }
        return racks;
    }

    static SubscribedTopicDescriber describer(List<List<Set<String>>> racks) {
        return new SubscribedTopicDescriber() {
            @Override
            public int numPartitions(Uuid topic) {
                return racks.get((int) topic.getLeastSignificantBits()).size();
            }

            @Override
            public Set<String> racksForPartition(Uuid topic, int partition) {
                return racks.get((int) topic.getLeastSignificantBits()).get(partition);
            }
        };
    }

    static Uuid id(int topic) {
        return new Uuid(1, topic);
    }
}
