// Commits small transactions one after another, each with one record of 100 bytes.
//
//   java CommitTransactions.java BOOTSTRAP TOPIC WARM_UP COUNT
//
// Prints one line of JSON: how many transactions were committed after the warm-up, and in how many
// seconds.

import java.util.Locale;
import java.util.Map;

import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.ByteArraySerializer;

public class CommitTransactions {
    public static void main(String[] arguments) {
        String topic = arguments[1];
        int warmUp = Integer.parseInt(arguments[2]);
        int count = Integer.parseInt(arguments[3]);
        Map<String, Object> settings = Map.of(
            "bootstrap.servers", arguments[0],
            "transactional.id", topic,
            "linger.ms", 0);
        try (KafkaProducer<byte[], byte[]> producer = new KafkaProducer<>(
                settings, new ByteArraySerializer(), new ByteArraySerializer())) {
            producer.initTransactions();
            commit(producer, topic, warmUp);
            long began = System.nanoTime();
            commit(producer, topic, count);
            double elapsed = (System.nanoTime() - began) / 1e9;
            System.out.printf(Locale.ROOT, "{\"commits\": %d, \"elapsed_s\": %f}%n", count, elapsed);
        }
    }

    private static void commit(KafkaProducer<byte[], byte[]> producer, String topic, int count) {
        byte[] value = new byte[100];
        for (int i = 0; i < count; i++) {
            producer.beginTransaction();
            producer.send(new ProducerRecord<>(topic, value));
            producer.commitTransaction();
        }
    }
}
