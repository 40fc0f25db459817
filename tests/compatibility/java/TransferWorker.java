import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.TimeoutException;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/** One worker of the transfers by Kafka's own client: as ../clients/transfers_confluent.py, in both protocols of transactions. */
public final class TransferWorker {
    private static final long WITHIN_MS = 30_000;

    public static void main(String[] arguments) throws InterruptedException {
        String bootstrap = arguments[0];
        String name = arguments[1];
        String protocol = arguments[3];
        Properties reading = new Properties();
        reading.put("bootstrap.servers", bootstrap);
        reading.put("client.id", name);
        reading.put("group.id", arguments[2]);
        reading.put("group.protocol", protocol);
        reading.put("enable.auto.commit", "false");
        reading.put("auto.offset.reset", "earliest");
        reading.put("isolation.level", "read_committed");
        reading.put("max.poll.records", "5");
        reading.put("reconnect.backoff.max.ms", "200");
        if (protocol.equals("classic")) {
            reading.put("session.timeout.ms", "1500");
            reading.put("heartbeat.interval.ms", "300");
        }
        Properties writing = new Properties();
        writing.put("bootstrap.servers", bootstrap);
        writing.put("client.id", name);
        writing.put("transactional.id", name);
        writing.put("transaction.timeout.ms", "10000");
        writing.put("max.block.ms", "10000");
        writing.put("reconnect.backoff.max.ms", "200");
        KafkaConsumer<String, String> consumer =
            new KafkaConsumer<>(reading, new StringDeserializer(), new StringDeserializer());
        KafkaProducer<String, String> producer =
            new KafkaProducer<>(writing, new StringSerializer(), new StringSerializer());
        try {
            insist(producer::initTransactions);
            consumer.subscribe(List.of("transfers"));
            while (true) {
                transfer(consumer, producer);
            }
        } catch (KafkaException error) {
            System.err.println("gone: " + error);
            Runtime.getRuntime().halt(3);
        }
    }

    private static void transfer(KafkaConsumer<String, String> consumer, KafkaProducer<String, String> producer)
        throws InterruptedException {
        ConsumerRecords<String, String> records = consumer.poll(Duration.ofMillis(200));
        if (records.isEmpty()) {
            return;
        }
        // Not later: a member that was thrown out joins again by itself, and its new epoch would vouch for old records.
        ConsumerGroupMetadata reader = consumer.groupMetadata();
        producer.beginTransaction();
        try {
            Map<TopicPartition, OffsetAndMetadata> following = new HashMap<>();
            for (ConsumerRecord<String, String> record : records) {
                String[] said = record.value().split(" ");
                producer.send(new ProducerRecord<>("ledger", said[1], said[0] + " " + said[1] + " -" + said[3]));
                producer.send(new ProducerRecord<>("ledger", said[2], said[0] + " " + said[2] + " " + said[3]));
                following.put(
                    new TopicPartition(record.topic(), record.partition()), new OffsetAndMetadata(record.offset() + 1));
            }
            Thread.sleep(50);
            insist(() -> producer.sendOffsetsToTransaction(following, reader));
            insist(producer::commitTransaction);
        } catch (KafkaException error) {
            try {
                insist(producer::abortTransaction);
            } catch (KafkaException ignored) {
                System.err.println("not aborted: " + ignored);
            }
            throw error;
        }
    }

    /** Repeats what the client calls safe to repeat: a call that timed out. */
    private static void insist(Runnable ask) {
        long deadline = System.currentTimeMillis() + WITHIN_MS;
        while (true) {
            try {
                ask.run();
                return;
            } catch (TimeoutException error) {
                if (System.currentTimeMillis() > deadline) {
                    throw error;
                }
            }
        }
    }
}
