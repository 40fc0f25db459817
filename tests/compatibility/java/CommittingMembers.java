import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.kafka.clients.consumer.CommitFailedException;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.RebalanceInProgressException;
import org.apache.kafka.common.errors.RetriableException;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/**
 * Members of consumer groups that commit rising offsets of what they are assigned, until a line of input or its end. Prints
 * what was acknowledged: "GROUP PARTITION OFFSET".
 *
 * <p>Arguments: bootstrap servers, topic, members of each group, and "GROUP=PROTOCOL" for each group.
 */
public class CommittingMembers {
    private static final Duration POLL = Duration.ofMillis(50);
    private static final AtomicLong LAST = new AtomicLong();
    private static volatile boolean over;

    private static KafkaConsumer<byte[], byte[]> consumer(String bootstrap, String group, String protocol) {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", bootstrap);
        settings.put("group.id", group);
        settings.put("group.protocol", protocol);
        settings.put("enable.auto.commit", false);
        if (protocol.equals("classic")) {
            settings.put("session.timeout.ms", 10_000);
        }
        return new KafkaConsumer<>(settings, new ByteArrayDeserializer(), new ByteArrayDeserializer());
    }

    private static void work(String bootstrap, String topic, String group, String protocol) {
        try (KafkaConsumer<byte[], byte[]> consumer = consumer(bootstrap, group, protocol)) {
            consumer.subscribe(List.of(topic));
            while (!over) {
                consumer.poll(POLL);
                for (TopicPartition partition : consumer.assignment()) {
                    commit(consumer, group, partition);
                }
            }
        } catch (RuntimeException error) {
            System.err.println(group + " " + error);
            System.err.flush();
            Runtime.getRuntime().halt(1);
        }
    }

    private static void commit(KafkaConsumer<byte[], byte[]> consumer, String group, TopicPartition partition) {
        long offset = LAST.incrementAndGet();
        try {
            consumer.commitSync(Map.of(partition, new OffsetAndMetadata(offset)));
        } catch (CommitFailedException | RebalanceInProgressException | RetriableException error) {
            return; // not acknowledged
        }
        synchronized (LAST) {
            System.out.println(group + " " + partition.partition() + " " + offset);
            System.out.flush();
        }
    }

    public static void main(String[] arguments) throws Exception {
        for (int at = 3; at < arguments.length; at++) {
            String[] group = arguments[at].split("=");
            for (int member = 0; member < Integer.parseInt(arguments[2]); member++) {
                new Thread(() -> work(arguments[0], arguments[1], group[0], group[1])).start();
            }
        }
        System.in.read();
        over = true;
    }
}
