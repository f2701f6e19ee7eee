// Uses the Java producer with a transactional id: commits, aborts, and is fenced.
//
//   java RunTransactions.java BOOTSTRAP TOPIC COUNT
//
// Writes COUNT transactions of two records to two partitions each; every third is aborted. Then a
// second producer with the same transactional id begins while the first one has a transaction open.
// Prints the values that a consumer reads with read_committed, in order, and what the fenced
// producer got.

import java.time.Duration;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Map;

import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.ProducerFencedException;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

public class RunTransactions {
    public static void main(String[] arguments) throws Exception {
        String bootstrap = arguments[0];
        String topic = arguments[1];
        int count = Integer.parseInt(arguments[2]);
        String fenced = "not fenced";
        try (KafkaProducer<String, String> first = producer(bootstrap, topic)) {
            first.initTransactions();
            for (int i = 0; i < count; i++) {
                first.beginTransaction();
                first.send(new ProducerRecord<>(topic, 0, null, "a" + i));
                first.send(new ProducerRecord<>(topic, 1, null, "b" + i));
                if (i % 3 == 2) {
                    first.flush();
                    first.abortTransaction();
                } else {
                    first.commitTransaction();
                }
            }
            first.beginTransaction();
            first.send(new ProducerRecord<>(topic, 0, null, "open")).get();
            try (KafkaProducer<String, String> second = producer(bootstrap, topic)) {
                second.initTransactions();
                second.beginTransaction();
                second.send(new ProducerRecord<>(topic, 0, null, "last"));
                second.commitTransaction();
            }
            try {
                first.commitTransaction();
            } catch (ProducerFencedException error) {
                fenced = "fenced";
            }
        }
        for (String value : read(bootstrap, topic)) {
            System.out.println(value);
        }
        System.out.println(fenced);
    }

    static KafkaProducer<String, String> producer(String bootstrap, String id) {
        Map<String, Object> settings = Map.of(
            "bootstrap.servers", bootstrap, "transactional.id", id, "linger.ms", "0");
        return new KafkaProducer<>(settings, new StringSerializer(), new StringSerializer());
    }

    static List<String> read(String bootstrap, String topic) {
        Map<String, Object> settings = Map.of(
            "bootstrap.servers", bootstrap, "isolation.level", "read_committed",
            "enable.auto.commit", "false");
        List<TopicPartition> partitions =
            List.of(new TopicPartition(topic, 0), new TopicPartition(topic, 1));
        List<String> values = new ArrayList<>();
        StringDeserializer strings = new StringDeserializer();
        try (KafkaConsumer<String, String> consumer = new KafkaConsumer<>(settings, strings, strings)) {
            consumer.assign(partitions);
            consumer.seekToBeginning(partitions);
            Map<TopicPartition, Long> ends = consumer.endOffsets(partitions);
            while (partitions.stream().anyMatch(each -> consumer.position(each) < ends.get(each))) {
                for (ConsumerRecord<String, String> record : consumer.poll(Duration.ofSeconds(1))) {
                    values.add(record.value());
                }
            }
        }
        Collections.sort(values);
        return values;
    }
}
