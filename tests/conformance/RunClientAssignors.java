// Runs the assignors of Kafka's Java consumer: one input per line on stdin, one output on stdout.
//
//   range|TOPIC=COUNT,...|MEMBER/INSTANCE/TOPIC,...|MEMBER/...
//   MEMBER/TOPIC-INDEX,...|MEMBER/...
//
// An empty INSTANCE means none.

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeMap;

import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.GroupSubscription;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.Subscription;
import org.apache.kafka.clients.consumer.RangeAssignor;
import org.apache.kafka.clients.consumer.RoundRobinAssignor;
import org.apache.kafka.common.Cluster;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.PartitionInfo;

public class RunClientAssignors {
    public static void main(String[] arguments) throws Exception {
        BufferedReader questions = new BufferedReader(new InputStreamReader(System.in));
        for (String line = questions.readLine(); line != null; line = questions.readLine()) {
            System.out.println(answer(line.split("\\|")));
        }
    }

    static String answer(String[] question) {
        Node node = new Node(1, "localhost", 9092);
        Node[] nodes = {node};
        List<PartitionInfo> partitions = new ArrayList<>();
        for (String topic : list(question[1])) {
            String[] pair = topic.split("=");
            for (int i = 0; i < Integer.parseInt(pair[1]); i++) {
                partitions.add(new PartitionInfo(pair[0], i, node, nodes, nodes));
            }
        }
        Cluster cluster = new Cluster("c", List.of(node), partitions, Set.of(), Set.of());
        Map<String, Subscription> subscriptions = new HashMap<>();
        for (int i = 2; i < question.length; i++) {
            String[] member = question[i].split("/", -1);
            Subscription subscription = new Subscription(list(member[2]));
            if (!member[1].isEmpty()) subscription.setGroupInstanceId(Optional.of(member[1]));
            subscriptions.put(member[0], subscription);
        }
        ConsumerPartitionAssignor assignor =
            question[0].equals("range") ? new RangeAssignor() : new RoundRobinAssignor();
        var assigned = assignor.assign(cluster, new GroupSubscription(subscriptions)).groupAssignment();
        List<String> lines = new ArrayList<>();
        new TreeMap<>(assigned).forEach((member, assignment) -> lines.add(member + "/" + String.join(",",
            assignment.partitions().stream().map(String::valueOf).sorted().toList())));
        return String.join("|", lines);
    }

    static List<String> list(String text) {
        return text.isEmpty() ? List.of() : List.of(text.split(","));
    }
}
