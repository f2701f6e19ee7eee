// Runs Apache Kafka's assignors: one input per line on stdin, one output per line on stdout.
//
//   uniform|TOPIC=COUNT,...|MEMBER/INSTANCE/TOPIC,.../TOPIC=INDEX+INDEX,...|MEMBER/...
//   MEMBER/TOPIC=INDEX+INDEX,...|MEMBER/...
//
// A TOPIC is the two halves of its Uuid in hexadecimal, with a dot between; an empty INSTANCE
// means none.

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;

import org.apache.kafka.common.Uuid;
import org.apache.kafka.coordinator.group.api.assignor.ConsumerGroupPartitionAssignor;
import org.apache.kafka.coordinator.group.api.assignor.MemberAssignment;
import org.apache.kafka.coordinator.group.api.assignor.SubscribedTopicDescriber;
import org.apache.kafka.coordinator.group.api.assignor.SubscriptionType;
import org.apache.kafka.coordinator.group.assignor.RangeAssignor;
import org.apache.kafka.coordinator.group.assignor.UniformAssignor;
import org.apache.kafka.coordinator.group.modern.Assignment;
import org.apache.kafka.coordinator.group.modern.GroupSpecImpl;
import org.apache.kafka.coordinator.group.modern.MemberSubscriptionAndAssignmentImpl;

public class RunAssignors {
    public static void main(String[] arguments) throws Exception {
        BufferedReader questions = new BufferedReader(new InputStreamReader(System.in));
        for (String line = questions.readLine(); line != null; line = questions.readLine()) {
            System.out.println(answer(line.split("\\|")));
        }
    }

    static String answer(String[] question) {
        Map<Uuid, Integer> counts = new HashMap<>();
        for (String topic : list(question[1], ",")) {
            String[] pair = topic.split("=");
            counts.put(uuid(pair[0]), Integer.parseInt(pair[1]));
        }
        Map<String, MemberSubscriptionAndAssignmentImpl> members = new HashMap<>();
        Map<Uuid, Map<Integer, String>> owners = new HashMap<>();
        Set<Set<Uuid>> subscriptions = new HashSet<>();
        for (int i = 2; i < question.length; i++) {
            String[] member = question[i].split("/", -1);
            Set<Uuid> topics = new HashSet<>();
            for (String topic : list(member[2], ",")) topics.add(uuid(topic));
            subscriptions.add(topics);
            Map<Uuid, Set<Integer>> current = new HashMap<>();
            for (String topic : list(member[3], ",")) {
                String[] pair = topic.split("=");
                List<Integer> indexes = new ArrayList<>();
                for (String index : list(pair[1], "\\+")) indexes.add(Integer.parseInt(index));
                current.put(uuid(pair[0]), new HashSet<>(indexes));
                for (int index : indexes) {
                    owners.computeIfAbsent(uuid(pair[0]), __ -> new HashMap<>()).put(index, member[0]);
                }
            }
            Optional<String> instance = member[1].isEmpty() ? Optional.empty() : Optional.of(member[1]);
            members.put(member[0], new MemberSubscriptionAndAssignmentImpl(
                Optional.empty(), instance, topics, new Assignment(current)));
        }
        ConsumerGroupPartitionAssignor assignor =
            question[0].equals("range") ? new RangeAssignor() : new UniformAssignor();
        SubscriptionType type = subscriptions.size() > 1
            ? SubscriptionType.HETEROGENEOUS : SubscriptionType.HOMOGENEOUS;
        return print(assignor.assign(new GroupSpecImpl(members, type, owners), new Describer(counts)).members());
    }

    static String print(Map<String, MemberAssignment> members) {
        List<String> lines = new ArrayList<>();
        new TreeMap<>(members).forEach((member, assignment) -> {
            List<String> topics = new ArrayList<>();
            new TreeMap<>(assignment.partitions()).forEach((topic, indexes) -> {
                List<String> sorted = new TreeSet<>(indexes).stream().map(String::valueOf).toList();
                topics.add(Long.toHexString(topic.getMostSignificantBits()) + "." +
                    Long.toHexString(topic.getLeastSignificantBits()) + "=" + String.join("+", sorted));
            });
            lines.add(member + "/" + String.join(",", topics));
        });
        return String.join("|", lines);
    }

    static Uuid uuid(String text) {
        String[] halves = text.split("\\.");
        return new Uuid(Long.parseUnsignedLong(halves[0], 16), Long.parseUnsignedLong(halves[1], 16));
    }

    static List<String> list(String text, String separator) {
        return text.isEmpty() ? List.of() : List.of(text.split(separator));
    }

    record Describer(Map<Uuid, Integer> counts) implements SubscribedTopicDescriber {
        public int numPartitions(Uuid topic) {
            return counts.getOrDefault(topic, -1);
        }

        public Set<String> racksForPartition(Uuid topic, int index) {
            return Set.of();
        }
    }
}
