import java.util.List;
import java.util.Properties;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.errors.StreamsUncaughtExceptionHandler.StreamThreadExceptionResponse;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.KStream;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.state.Stores;

/** One worker of the transfers by Kafka Streams with exactly_once_v2: the ledger, and from it the balance of each account. */
public final class TransferStreams {
    public static void main(String[] arguments) throws InterruptedException {
        Properties settings = new Properties();
        settings.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, arguments[0]);
        settings.put(StreamsConfig.CLIENT_ID_CONFIG, arguments[1]);
        settings.put(StreamsConfig.APPLICATION_ID_CONFIG, arguments[2]);
        settings.put(StreamsConfig.STATE_DIR_CONFIG, arguments[4] + "/" + arguments[1]);
        settings.put(StreamsConfig.PROCESSING_GUARANTEE_CONFIG, StreamsConfig.EXACTLY_ONCE_V2);
        settings.put(StreamsConfig.COMMIT_INTERVAL_MS_CONFIG, "200");
        settings.put(StreamsConfig.REPLICATION_FACTOR_CONFIG, "1");
        settings.put(StreamsConfig.NUM_STREAM_THREADS_CONFIG, "1");
        settings.put(StreamsConfig.consumerPrefix("session.timeout.ms"), "1500");
        settings.put(StreamsConfig.consumerPrefix("heartbeat.interval.ms"), "300");
        settings.put(StreamsConfig.consumerPrefix("max.poll.records"), "10");
        settings.put(StreamsConfig.consumerPrefix("auto.offset.reset"), "earliest");
        settings.put("reconnect.backoff.max.ms", "200");
        settings.put(StreamsConfig.producerPrefix("transaction.timeout.ms"), "10000");
        settings.put(StreamsConfig.DEFAULT_KEY_SERDE_CLASS_CONFIG, Serdes.StringSerde.class);
        settings.put(StreamsConfig.DEFAULT_VALUE_SERDE_CLASS_CONFIG, Serdes.StringSerde.class);

        StreamsBuilder builder = new StreamsBuilder();
        KStream<String, String> entries = builder.<String, String>stream("transfers").flatMap((key, value) -> {
            String[] said = value.split(" ");
            try {
                Thread.sleep(10);
            } catch (InterruptedException stopped) {
                Thread.currentThread().interrupt();
            }
            return List.of(
                KeyValue.pair(said[1], said[0] + " " + said[1] + " -" + said[3]),
                KeyValue.pair(said[2], said[0] + " " + said[2] + " " + said[3]));
        });
        entries.to("ledger");
        entries.mapValues(entry -> Long.valueOf(entry.split(" ")[2]))
            .groupByKey(Grouped.with(Serdes.String(), Serdes.Long()))
            .aggregate(
                () -> 0L,
                (account, amount, balance) -> balance + amount,
                Materialized.<String, Long>as(Stores.inMemoryKeyValueStore("balances"))
                    .withKeySerde(Serdes.String()).withValueSerde(Serdes.Long()))
            .toStream()
            .map((account, balance) -> KeyValue.pair(account, account + " " + balance))
            .to("balances");
        KafkaStreams streams = new KafkaStreams(builder.build(), settings);
        streams.setUncaughtExceptionHandler(error -> {
            System.err.println("gone: " + error);
            Runtime.getRuntime().halt(3);
            return StreamThreadExceptionResponse.SHUTDOWN_CLIENT;
        });
        streams.start();
        Thread.currentThread().join();
    }
}
