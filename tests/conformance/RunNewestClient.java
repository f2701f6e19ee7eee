// Uses the Java client: creates a topic, writes and reads it in a group, and deletes the group.
//
//   java RunNewestClient.java BOOTSTRAP TOPIC COUNT
//
// Prints the values that it read, in order, then the errors of deleting the group while it has a
// member and once it is gone. The log on stderr has the ApiVersions requests.

import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ExecutionException;

import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

public class RunNewestClient {
    public static void main(String[] arguments) throws Exception {
        String bootstrap = arguments[0];
        String topic = arguments[1];
        int count = Integer.parseInt(arguments[2]);
        try (Admin admin = Admin.create(Map.of("bootstrap.servers", bootstrap))) {
            admin.createTopics(List.of(new NewTopic(topic, 1, (short) 1))).all().get();
            write(bootstrap, topic, count);
            try (KafkaConsumer<String, String> consumer = consumer(bootstrap, topic)) {
                consumer.subscribe(List.of(topic));
                for (int seen = 0; seen < count;) {
                    for (ConsumerRecord<String, String> record : consumer.poll(Duration.ofSeconds(1))) {
                        System.out.println(record.value());
                        seen++;
                    }
                }
                consumer.commitSync();
                System.out.println(deleted(admin, topic));
            }
            System.out.println(deleted(admin, topic));
            System.out.println(deleted(admin, topic));
        }
    }

    static void write(String bootstrap, String topic, int count) {
        Map<String, Object> settings =
            Map.of("bootstrap.servers", bootstrap, "acks", "all", "compression.type", "zstd");
        StringSerializer strings = new StringSerializer();
        try (KafkaProducer<String, String> producer = new KafkaProducer<>(settings, strings, strings)) {
            for (int i = 0; i < count; i++) {
                producer.send(new ProducerRecord<>(topic, "value " + i));
            }
        }
    }

    static KafkaConsumer<String, String> consumer(String bootstrap, String group) {
        Map<String, Object> settings = Map.of(
            "bootstrap.servers", bootstrap, "group.id", group, "group.protocol", "consumer",
            "auto.offset.reset", "earliest", "enable.auto.commit", "false");
        return new KafkaConsumer<>(settings, new StringDeserializer(), new StringDeserializer());
    }

    static String deleted(Admin admin, String group) throws InterruptedException {
        try {
            admin.deleteConsumerGroups(List.of(group)).all().get();
            return "deleted";
        } catch (ExecutionException failure) {
            return failure.getCause().getClass().getSimpleName();
        }
    }
}
