package example.orders;

import java.time.Duration;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import org.apache.kafka.clients.consumer.CommitFailedException;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.RebalanceInProgressException;
import org.apache.kafka.common.errors.WakeupException;
import org.apache.kafka.common.serialization.StringDeserializer;

/**
 * A service that bills orders: it reads them as a member of a group, and commits an order when it is billed.
 *
 * <p>An order may arrive twice, because a commit can fail, or be refused after a rebalance. So billing is idempotent: the
 * ledger bills an order's id once. An order is never lost, because nothing is committed that is not billed.
 */
public class OrderService implements Runnable, ConsumerRebalanceListener {
    private static final Duration POLL = Duration.ofMillis(100);

    private final KafkaConsumer<String, String> consumer;
    private final String topic;
    private final Ledger ledger;
    /** The next offset of each partition that this instance owns, for orders that are billed and not committed. */
    private final Map<TopicPartition, OffsetAndMetadata> billed = new HashMap<>();

    public OrderService(Properties settings, String topic, Ledger ledger) {
        Properties all = new Properties();
        all.putAll(settings);
        all.put("enable.auto.commit", "false");
        all.put("auto.offset.reset", "earliest");
        this.consumer = new KafkaConsumer<>(all, new StringDeserializer(), new StringDeserializer());
        this.topic = topic;
        this.ledger = ledger;
    }

    /** Bills orders until `stop`. */
    @Override
    public void run() {
        try (consumer) {
            consumer.subscribe(List.of(topic), this);
            while (true) {
                for (ConsumerRecord<String, String> order : consumer.poll(POLL)) {
                    bill(order);
                }
                commit();
            }
        } catch (WakeupException stopped) {
            // the way to end
        }
    }

    /** Makes `run` return. */
    public void stop() {
        consumer.wakeup();
    }

    private void bill(ConsumerRecord<String, String> record) {
        String[] order = record.value().split(" ");
        ledger.bill(order[0], Integer.parseInt(order[1]));
        billed.put(new TopicPartition(record.topic(), record.partition()), new OffsetAndMetadata(record.offset() + 1));
    }

    /** Commits what is billed. If that fails, the next commit covers it, or the orders arrive again. */
    private void commit() {
        if (billed.isEmpty()) {
            return;
        }
        try {
            consumer.commitSync(billed);
            billed.clear();
        } catch (CommitFailedException | RebalanceInProgressException notMineAnyMore) {
            billed.clear();
        } catch (WakeupException stopped) {
            throw stopped;
        } catch (KafkaException failed) {
            System.err.println("cannot commit: " + failed);
        }
    }

    @Override
    public void onPartitionsAssigned(Collection<TopicPartition> partitions) {}

    /** The partitions are still ours: what is billed is committed before another instance reads on. */
    @Override
    public void onPartitionsRevoked(Collection<TopicPartition> partitions) {
        commit();
        billed.keySet().removeAll(partitions);
    }

    /** The partitions may have another owner already: a commit would be refused, or would overwrite the owner's. */
    @Override
    public void onPartitionsLost(Collection<TopicPartition> partitions) {
        billed.keySet().removeAll(partitions);
    }
}
