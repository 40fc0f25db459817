import java.util.HashMap;
import java.util.Map;
import java.util.Properties;
import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.TimeoutException;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * Commits rising offsets of two partitions in transactions, every fifth of which it aborts, until a line of input or
 * its end. Prints what became of each: "committed N", "aborted N" or "unknown N".
 *
 * <p>Arguments: bootstrap servers, group, topic. The group is also the transactional id.
 */
public class OffsetTransactions {
    private static final int ABORTED = 5;
    private static volatile boolean over;

    private static KafkaProducer<byte[], byte[]> producer(String bootstrap, String id) {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", bootstrap);
        settings.put("transactional.id", id);
        settings.put("max.block.ms", 60_000);
        KafkaProducer<byte[], byte[]> made =
                new KafkaProducer<>(settings, new ByteArraySerializer(), new ByteArraySerializer());
        made.initTransactions();
        return made;
    }

    private static ConsumerGroupMetadata group(String bootstrap, String group) {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", bootstrap);
        settings.put("group.id", group);
        try (KafkaConsumer<byte[], byte[]> consumer =
                new KafkaConsumer<>(settings, new ByteArrayDeserializer(), new ByteArrayDeserializer())) {
            return consumer.groupMetadata();
        }
    }

    private static String transaction(
            KafkaProducer<byte[], byte[]> producer, ConsumerGroupMetadata group, String topic, long offset) {
        Map<TopicPartition, OffsetAndMetadata> offsets = new HashMap<>();
        for (int partition = 0; partition < 2; partition++) {
            offsets.put(new TopicPartition(topic, partition), new OffsetAndMetadata(offset));
        }
        try {
            producer.beginTransaction();
            producer.sendOffsetsToTransaction(offsets, group);
        } catch (KafkaException error) {
            producer.abortTransaction();
            return "aborted";
        }
        if (offset % ABORTED == 0) {
            producer.abortTransaction();
            return "aborted";
        }
        while (true) {
            try {
                producer.commitTransaction();
                return "committed";
            } catch (TimeoutException error) {
                continue; // its outcome is asked for again
            }
        }
    }

    private static void waitForInput() {
        try {
            System.in.read();
        } catch (java.io.IOException ended) {
            System.err.println(ended);
        }
        over = true;
    }

    public static void main(String[] arguments) {
        Thread input = new Thread(OffsetTransactions::waitForInput);
        input.setDaemon(true);
        input.start();
        ConsumerGroupMetadata group = group(arguments[0], arguments[1]);
        KafkaProducer<byte[], byte[]> producer = producer(arguments[0], arguments[1]);
        for (long offset = 1; !over; offset++) {
            try {
                System.out.println(transaction(producer, group, arguments[2], offset) + " " + offset);
            } catch (KafkaException error) {
                System.out.println("unknown " + offset);
                producer.close();
                producer = producer(arguments[0], arguments[1]);
            }
            System.out.flush();
        }
        producer.close();
    }
}
