import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.AuthorizationException;
import org.apache.kafka.common.errors.FencedInstanceIdException;
import org.apache.kafka.common.errors.OutOfOrderSequenceException;
import org.apache.kafka.common.errors.ProducerFencedException;
import org.apache.kafka.common.errors.UnsupportedVersionException;
import org.apache.kafka.common.errors.WakeupException;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * The obvious read-process-write program of Kafka's Java client, after ExactlyOnceMessageProcessor of Kafka's examples: the
 * exceptions that it lists end the program; any other aborts the transaction, and reading goes on from the committed offsets.
 */
public final class ObviousTransactions {
    public static void main(String[] arguments) {
        Properties reading = new Properties();
        reading.put("bootstrap.servers", System.getenv("BOOTSTRAP"));
        reading.put("group.id", System.getenv("GROUP"));
        reading.put("group.protocol", System.getenv("GROUP_PROTOCOL"));
        reading.put("enable.auto.commit", "false");
        reading.put("auto.offset.reset", "earliest");
        reading.put("isolation.level", "read_committed");
        reading.put("max.poll.records", "20");
        Properties writing = new Properties();
        writing.put("bootstrap.servers", System.getenv("BOOTSTRAP"));
        writing.put("transactional.id", System.getenv("TRANSACTIONAL_ID"));
        KafkaConsumer<byte[], byte[]> consumer =
            new KafkaConsumer<>(reading, new ByteArrayDeserializer(), new ByteArrayDeserializer());
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
            producer.initTransactions();
            consumer.subscribe(List.of(System.getenv("TOPIC")));
            while (true) {
                ConsumerRecords<byte[], byte[]> records = consumer.poll(Duration.ofMillis(200));
                if (records.isEmpty()) {
                    continue;
                }
                try {
                    transact(consumer, producer, records);
                } catch (ProducerFencedException | FencedInstanceIdException | OutOfOrderSequenceException
                         | AuthorizationException | UnsupportedVersionException fatal) {
                    throw fatal;
                } catch (WakeupException stopped) {
                    throw stopped;
                } catch (KafkaException failure) {
                    System.err.println("abort: " + failure);
                    producer.abortTransaction();
                    consumer.committed(consumer.assignment()).forEach((place, committed) ->
                        consumer.seek(place, committed == null ? 0 : committed.offset()));
                }
            }
        } catch (WakeupException stopped) {
            return;
        }
    }

    private static void transact(
        KafkaConsumer<byte[], byte[]> consumer, KafkaProducer<byte[], byte[]> producer, ConsumerRecords<byte[], byte[]> records
    ) {
        producer.beginTransaction();
        for (ConsumerRecord<byte[], byte[]> record : records) {
            producer.send(new ProducerRecord<>(System.getenv("OUTPUT_TOPIC"), record.key(), record.value()));
        }
        Map<TopicPartition, OffsetAndMetadata> positions = new HashMap<>();
        for (TopicPartition place : consumer.assignment()) {
            positions.put(place, new OffsetAndMetadata(consumer.position(place)));
        }
        producer.sendOffsetsToTransaction(positions, consumer.groupMetadata());
        producer.commitTransaction();
    }
}
