import java.nio.file.Files;
import java.util.Properties;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.kstream.KStream;

/** The obvious program of Kafka Streams, after the pipe of its tutorial: each record goes from one topic to another. */
public final class ObviousStreams {
    public static void main(String[] arguments) throws Exception {
        String outputTopic = System.getenv().getOrDefault("OUTPUT_TOPIC", "");
        Properties settings = new Properties();
        settings.put("bootstrap.servers", System.getenv("BOOTSTRAP"));
        settings.put("application.id", System.getenv("GROUP"));
        settings.put("group.protocol", System.getenv("GROUP_PROTOCOL"));
        settings.put("state.dir", Files.createTempDirectory("streams").toString());
        settings.put("replication.factor", "1");
        settings.put("consumer.auto.offset.reset", "earliest");
        settings.put("commit.interval.ms", "500");
        if (!System.getenv().getOrDefault("TRANSACTIONAL_ID", "").isEmpty()) {
            settings.put("processing.guarantee", "exactly_once_v2");
        }
        settings.put("default.key.serde", Serdes.ByteArraySerde.class.getName());
        settings.put("default.value.serde", Serdes.ByteArraySerde.class.getName());
        StreamsBuilder builder = new StreamsBuilder();
        KStream<byte[], byte[]> records = builder.stream(System.getenv("TOPIC"));
        if (outputTopic.isEmpty()) {
            records.foreach((key, value) -> { });
        } else {
            records.to(outputTopic);
        }
        KafkaStreams streams = new KafkaStreams(builder.build(), settings);
        Runtime.getRuntime().addShutdownHook(new Thread(streams::close));
        streams.setStateListener((now, before) -> {
            if (now == KafkaStreams.State.ERROR) {
                System.err.println("streams: ERROR");
                Runtime.getRuntime().halt(1);
            }
        });
        streams.start();
    }
}
