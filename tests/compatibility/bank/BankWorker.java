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
import org.apache.kafka.common.errors.RetriableException;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/** The bank's worker on Kafka's own Java client: the same arguments and events as work.py says. */
public final class BankWorker {
    public static void main(String[] arguments) {
        String bootstrap = arguments[0], group = arguments[1], id = arguments[2], protocol = arguments[3];
        Properties common = new Properties();
        common.put("bootstrap.servers", bootstrap);
        common.put("client.id", id);
        common.put("metadata.recovery.strategy", "none");
        common.put("reconnect.backoff.max.ms", "200");
        Properties reading = new Properties();
        reading.putAll(common);
        reading.put("group.id", group);
        reading.put("group.protocol", protocol);
        if (protocol.equals("classic")) {
            reading.put("session.timeout.ms", "1500");
            reading.put("heartbeat.interval.ms", "300");
        }
        reading.put("auto.offset.reset", "earliest");
        reading.put("enable.auto.commit", "false");
        reading.put("isolation.level", "read_committed");
        reading.put("max.poll.records", "10");
        Properties writing = new Properties();
        writing.putAll(common);
        writing.put("transactional.id", id);
        // Of a zombie that was stopped between its offsets and its commit: so long all others wait for its partitions.
        writing.put("transaction.timeout.ms", "15000");
        writing.put("linger.ms", "0");
        try (KafkaConsumer<String, String> consumer =
                 new KafkaConsumer<>(reading, new StringDeserializer(), new StringDeserializer());
             KafkaProducer<String, String> producer =
                 new KafkaProducer<>(writing, new StringSerializer(), new StringSerializer())) {
            producer.initTransactions();
            consumer.subscribe(List.of("transfers"));
            say("began", "");
            while (true) {
                ConsumerRecords<String, String> records = consumer.poll(Duration.ofMillis(200));
                // Now and not when the offsets are sent: meanwhile this member may be fenced and be back in a later epoch,
                // and Kafka takes a commit at the current epoch of a partition that the member no longer owns.
                ConsumerGroupMetadata reader = consumer.groupMetadata();
                if (records.isEmpty()) {
                    continue;
                }
                try {
                    transact(reader, producer, records);
                } catch (KafkaException failure) {
                    say("aborted", failure.getClass().getSimpleName());
                    producer.abortTransaction();
                    consumer.committed(consumer.assignment()).forEach((place, committed) ->
                        consumer.seek(place, committed == null ? 0 : committed.offset()));
                }
            }
        } catch (KafkaException failure) {
            say("ended", failure.getClass().getSimpleName());
            Runtime.getRuntime().halt(3);
        }
    }

    private static void transact(
        ConsumerGroupMetadata reader, KafkaProducer<String, String> producer, ConsumerRecords<String, String> records
    ) {
        Map<TopicPartition, OffsetAndMetadata> ends = new HashMap<>();
        producer.beginTransaction();
        for (ConsumerRecord<String, String> record : records) {
            String[] transfer = record.value().split(":");
            write(producer, transfer[0], transfer[1], "-" + transfer[3]);
            write(producer, transfer[0], transfer[2], transfer[3]);
            ends.put(new TopicPartition(record.topic(), record.partition()), new OffsetAndMetadata(record.offset() + 1));
        }
        producer.flush();
        producer.sendOffsetsToTransaction(ends, reader);
        while (true) {
            try {
                producer.commitTransaction();
                return;
            } catch (RetriableException again) {
                // Its outcome is not known: the call may be repeated until it is.
            }
        }
    }

    private static void write(KafkaProducer<String, String> producer, String number, String account, String amount) {
        producer.send(new ProducerRecord<>("ledger", Integer.valueOf(account), null, number + ":" + account + ":" + amount));
    }

    private static void say(String event, String why) {
        System.out.println("{\"event\": \"" + event + "\", \"why\": \"" + why + "\"}");
    }
}
