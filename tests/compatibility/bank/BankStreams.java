import java.util.List;
import java.util.Optional;
import java.util.Properties;
import java.util.Set;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.errors.StreamsUncaughtExceptionHandler.StreamThreadExceptionResponse;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.KStream;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.state.Stores;

/**
 * The bank's worker on Kafka Streams with processing.guarantee=exactly_once_v2. It keeps the balance of each account, too, for
 * which it needs a repartition topic and a changelog.
 */
public final class BankStreams {
    public static void main(String[] arguments) {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", arguments[0]);
        settings.put("application.id", arguments[1]);
        settings.put("client.id", arguments[2]);
        settings.put("group.protocol", arguments[3]);
        settings.put("state.dir", arguments[4]);
        settings.put("processing.guarantee", "exactly_once_v2");
        settings.put("commit.interval.ms", "100");
        settings.put("replication.factor", "1");
        settings.put("producer.transaction.timeout.ms", "10000");
        settings.put("default.key.serde", Serdes.StringSerde.class.getName());
        settings.put("default.value.serde", Serdes.StringSerde.class.getName());
        settings.put("consumer.auto.offset.reset", "earliest");
        if (arguments[3].equals("classic")) {
            settings.put("num.stream.threads", "1");
            settings.put("consumer.session.timeout.ms", "1500");
            settings.put("consumer.heartbeat.interval.ms", "300");
        } else { // each thread is a member; these times are the server's, which tells members where others are
            settings.put("num.stream.threads", "2");
            settings.put("application.server", arguments[2] + ":1");
        }
        settings.put("metadata.recovery.strategy", "none");
        settings.put("reconnect.backoff.max.ms", "200");
        StreamsBuilder builder = new StreamsBuilder();
        KStream<String, String> entries = builder.stream("transfers", Consumed.with(Serdes.String(), Serdes.String()))
            .flatMap((key, transfer) -> {
                String[] parts = transfer.split(":");
                return List.of(
                    KeyValue.pair(parts[1], parts[0] + ":" + parts[1] + ":-" + parts[3]),
                    KeyValue.pair(parts[2], parts[0] + ":" + parts[2] + ":" + parts[3]));
            });
        entries.to("ledger", Produced.with(Serdes.String(), Serdes.String(), BankStreams::ofAccount));
        entries.mapValues(entry -> Long.valueOf(entry.split(":")[2]))
            .groupByKey(Grouped.with(Serdes.String(), Serdes.Long()))
            .aggregate(
                () -> 0L,
                (account, amount, balance) -> balance + amount,
                Materialized.<String, Long>as(Stores.inMemoryKeyValueStore("kept"))
                    .withKeySerde(Serdes.String()).withValueSerde(Serdes.Long()))
            .toStream()
            .mapValues((account, balance) -> account + ":" + balance)
            .to("balances", Produced.with(Serdes.String(), Serdes.String(), BankStreams::ofAccount));
        KafkaStreams streams = new KafkaStreams(builder.build(), settings);
        streams.setUncaughtExceptionHandler(failure -> StreamThreadExceptionResponse.REPLACE_THREAD);
        streams.setStateListener((now, before) -> {
            if (now == KafkaStreams.State.RUNNING) {
                System.out.println("{\"event\": \"began\"}");
            }
        });
        streams.start();
    }

    private static Optional<Set<Integer>> ofAccount(String topic, String account, String value, int partitions) {
        return Optional.of(Set.of(Integer.valueOf(account)));
    }
}
