import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Properties;
import java.util.concurrent.Future;
import org.apache.kafka.clients.consumer.CommitFailedException;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.SubscriptionPattern;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.errors.RebalanceInProgressException;
import org.apache.kafka.common.errors.TimeoutException;
import org.apache.kafka.common.errors.WakeupException;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * The obvious consumer of Kafka's Java client, as "Manual Offset Control" of KafkaConsumer's documentation has it: poll, process,
 * commitSync. What commitSync documents as a reason to poll on is reported, and the loop goes on; other errors end the program.
 */
public final class ObviousConsumer {
    public static void main(String[] arguments) throws Exception {
        String outputTopic = System.getenv().getOrDefault("OUTPUT_TOPIC", "");
        Properties settings = connected();
        settings.put("group.id", System.getenv("GROUP"));
        settings.put("group.protocol", System.getenv("GROUP_PROTOCOL"));
        settings.put("enable.auto.commit", "false");
        settings.put("auto.offset.reset", "earliest");
        put(settings, "group.instance.id", "GROUP_INSTANCE_ID");
        put(settings, "client.rack", "CLIENT_RACK");
        put(settings, "max.poll.interval.ms", "MAX_POLL_INTERVAL_MS");
        Properties writing = connected();
        writing.put("linger.ms", "0");
        KafkaConsumer<byte[], byte[]> consumer =
            new KafkaConsumer<>(settings, new ByteArrayDeserializer(), new ByteArrayDeserializer());
        Thread main = Thread.currentThread();
        Runtime.getRuntime().addShutdownHook(new Thread(() -> {
            consumer.wakeup();
            try {
                main.join(10_000);
            } catch (InterruptedException ended) {
                Thread.currentThread().interrupt();
            }
        }));
        try (consumer; KafkaProducer<byte[], byte[]> producer =
                 new KafkaProducer<>(writing, new ByteArraySerializer(), new ByteArraySerializer())) {
            String topic = System.getenv("TOPIC");
            if (topic.startsWith("^")) {
                consumer.subscribe(new SubscriptionPattern(topic));
            } else {
                consumer.subscribe(List.of(topic));
            }
            while (true) {
                ConsumerRecords<byte[], byte[]> records = consumer.poll(Duration.ofSeconds(1));
                if (records.isEmpty()) {
                    continue;
                }
                List<Future<?>> sent = new ArrayList<>();
                for (ConsumerRecord<byte[], byte[]> record : records) {
                    if (!outputTopic.isEmpty()) {
                        sent.add(producer.send(new ProducerRecord<>(outputTopic, record.key(), record.value())));
                    }
                }
                for (Future<?> one : sent) {
                    one.get();
                }
                try {
                    consumer.commitSync();
                } catch (CommitFailedException | RebalanceInProgressException | TimeoutException failure) {
                    System.err.println("commit: " + failure);
                }
            }
        } catch (WakeupException stopped) {
            return;
        }
    }

    /** How its clients connect. */
    private static Properties connected() {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", System.getenv("BOOTSTRAP"));
        if (!System.getenv().getOrDefault("SASL_MECHANISM", "").isEmpty()) {
            settings.put("security.protocol", "SASL_PLAINTEXT");
            settings.put("sasl.mechanism", System.getenv("SASL_MECHANISM"));
            settings.put("sasl.jaas.config", String.format(
                "org.apache.kafka.common.security.plain.PlainLoginModule required username=\"%s\" password=\"%s\";",
                System.getenv("SASL_USERNAME"), System.getenv("SASL_PASSWORD")));
        }
        return settings;
    }

    /** Sets what the environment has, if it has it. */
    private static void put(Properties settings, String name, String variable) {
        if (!System.getenv().getOrDefault(variable, "").isEmpty()) {
            settings.put(name, System.getenv(variable));
        }
    }
}
