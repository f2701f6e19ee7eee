// Copies a topic in transactions with the Java client.
//
//   java RunCopies.java BOOTSTRAP SOURCE SIZE LIFE...
//
// A life is a list such as commit,abort,stop: one transaction of SIZE records each, and how it ends.
// Each life has a producer and a consumer of its own, with the transactional id of the copy; after
// "stop" the transaction is left open. The offsets are committed in the transactions.

import java.time.Duration;
import java.util.ArrayDeque;
import java.util.Map;
import java.util.Queue;
import java.util.Set;

import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

public class RunCopies {
    public static void main(String[] arguments) throws Exception {
        for (int i = 3; i < arguments.length; i++) {
            copy(arguments[0], arguments[1], Integer.parseInt(arguments[2]), arguments[i].split(","));
        }
    }

    static void copy(String bootstrap, String source, int size, String[] ends) throws Exception {
        String target = source + "-copy";
        TopicPartition partition = new TopicPartition(source, 0);
        Map<String, Object> reading = Map.of(
            "bootstrap.servers", bootstrap, "group.id", target, "enable.auto.commit", "false",
            "isolation.level", "read_committed", "auto.offset.reset", "earliest");
        Map<String, Object> writing = Map.of(
            "bootstrap.servers", bootstrap, "transactional.id", target, "linger.ms", "0");
        StringDeserializer strings = new StringDeserializer();
        StringSerializer texts = new StringSerializer();
        KafkaProducer<String, String> producer = new KafkaProducer<>(writing, texts, texts);
        try (KafkaConsumer<String, String> consumer = new KafkaConsumer<>(reading, strings, strings)) {
            producer.initTransactions();
            consumer.assign(Set.of(partition));
            Queue<ConsumerRecord<String, String>> records = rewind(consumer, partition);
            for (String end : ends) {
                producer.beginTransaction();
                long next = 0;
                for (int copied = 0; copied < size; copied++) {
                    while (records.isEmpty()) {
                        consumer.poll(Duration.ofSeconds(1)).forEach(records::add);
                    }
                    ConsumerRecord<String, String> record = records.remove();
                    producer.send(new ProducerRecord<>(target, 0, null, "copy of " + record.value()));
                    next = record.offset() + 1;
                }
                producer.sendOffsetsToTransaction(
                    Map.of(partition, new OffsetAndMetadata(next)), consumer.groupMetadata());
                if (end.equals("commit")) {
                    producer.commitTransaction();
                } else {
                    producer.flush();
                }
                if (end.equals("abort")) {
                    producer.abortTransaction();
                    records = rewind(consumer, partition);
                }
            }
        } finally {
            producer.close(Duration.ZERO);
        }
    }

    static Queue<ConsumerRecord<String, String>> rewind(
            KafkaConsumer<String, String> consumer, TopicPartition partition) {
        OffsetAndMetadata committed = consumer.committed(Set.of(partition)).get(partition);
        consumer.seek(partition, committed == null ? 0 : committed.offset());
        return new ArrayDeque<>();
    }
}
