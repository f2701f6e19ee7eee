// A Kafka Streams application that sums the values of each key; "clear" deletes the key.
//
//   RunTotals BOOTSTRAP APPLICATION INPUT OUTPUT STATE-DIRECTORY PROCESSING-GUARANTEE
//
// When it runs it prints how many records it restored from the changelog and the totals that it has
// then, and `running`. SIGTERM closes it: it leaves its group and prints `closed`.

import java.time.Duration;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.atomic.AtomicLong;

import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.CloseOptions;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.StoreQueryParameters;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.Topology;
import org.apache.kafka.streams.errors.StreamsUncaughtExceptionHandler.StreamThreadExceptionResponse;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.processor.StateRestoreListener;
import org.apache.kafka.streams.state.KeyValueIterator;
import org.apache.kafka.streams.state.KeyValueStore;
import org.apache.kafka.streams.state.QueryableStoreTypes;

public class RunTotals {
    static final String STORE = "totals";
    static final Duration CLOSE_LIMIT = Duration.ofSeconds(20);

    public static void main(String[] arguments) throws Exception {
        Restored restored = new Restored();
        CountDownLatch running = new CountDownLatch(1);
        KafkaStreams streams =
            new KafkaStreams(topology(arguments[2], arguments[3]), settings(arguments));
        streams.setGlobalStateRestoreListener(restored);
        streams.setStateListener((now, before) -> {
            if (now == KafkaStreams.State.RUNNING) running.countDown();
        });
        streams.setUncaughtExceptionHandler(failure -> {
            failure.printStackTrace();
            return StreamThreadExceptionResponse.SHUTDOWN_CLIENT;
        });
        Runtime.getRuntime().addShutdownHook(new Thread(() -> {
            boolean closed = streams.close(CloseOptions.timeout(CLOSE_LIMIT)
                .withGroupMembershipOperation(CloseOptions.GroupMembershipOperation.LEAVE_GROUP));
            System.out.println(closed ? "closed" : "not closed in time");
        }));
        streams.start();
        running.await();
        printTotals(streams);
        System.out.println("restored " + restored.records.get());
        System.out.println("running");
        new CountDownLatch(1).await();
    }

    static Topology topology(String input, String output) {
        StreamsBuilder builder = new StreamsBuilder();
        builder.<String, String>stream(input)
            .groupByKey()
            .aggregate(
                () -> "0",
                (key, value, total) -> value.equals("clear") ? null : add(total, value),
                Materialized.<String, String, KeyValueStore<Bytes, byte[]>>as(STORE)
                    .withLoggingEnabled(Map.of(
                        "internal.segment.bytes", "16384",
                        "min.cleanable.dirty.ratio", "0.01")))
            .toStream()
            .to(output);
        return builder.build();
    }

    static String add(String total, String value) {
        return Long.toString(Long.parseLong(total) + Long.parseLong(value));
    }

    static Properties settings(String[] arguments) {
        Properties settings = new Properties();
        settings.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, arguments[0]);
        settings.put(StreamsConfig.APPLICATION_ID_CONFIG, arguments[1]);
        settings.put(StreamsConfig.STATE_DIR_CONFIG, arguments[4]);
        settings.put(StreamsConfig.DEFAULT_KEY_SERDE_CLASS_CONFIG, Serdes.StringSerde.class);
        settings.put(StreamsConfig.DEFAULT_VALUE_SERDE_CLASS_CONFIG, Serdes.StringSerde.class);
        settings.put(StreamsConfig.PROCESSING_GUARANTEE_CONFIG, arguments[5]);
        settings.put(StreamsConfig.COMMIT_INTERVAL_MS_CONFIG, 100);
        // Without a cache, every input record gives one record of the changelog and of the output.
        settings.put(StreamsConfig.STATESTORE_CACHE_MAX_BYTES_CONFIG, 0);
        settings.put(StreamsConfig.consumerPrefix("auto.offset.reset"), "earliest");
        return settings;
    }

    static void printTotals(KafkaStreams streams) {
        try (KeyValueIterator<String, String> totals = streams.store(StoreQueryParameters.fromNameAndType(
                STORE, QueryableStoreTypes.<String, String>keyValueStore())).all()) {
            while (totals.hasNext()) {
                KeyValue<String, String> total = totals.next();
                System.out.println("total " + total.key + " " + total.value);
            }
        }
    }

    static class Restored implements StateRestoreListener {
        final AtomicLong records = new AtomicLong();

        public void onRestoreStart(TopicPartition changelog, String store, long first, long end) {
        }

        public void onBatchRestored(TopicPartition changelog, String store, long end, long count) {
        }

        public void onRestoreEnd(TopicPartition changelog, String store, long total) {
            records.addAndGet(total);
        }
    }
}
