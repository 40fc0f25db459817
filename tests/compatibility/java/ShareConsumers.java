import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeSet;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.consumer.AcknowledgeType;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaShareConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * Java's share consumer (KIP-932, KIP-1222, KIP-1206). A line of output is what one step delivered, "step: value#delivery count ...".
 *
 * <p>Arguments: bootstrap server, name of the group and its topic. With a third argument it acquires what is there, says so, and
 * dies as a process dies that is killed.
 */
public class ShareConsumers {
    private static final Duration POLL = Duration.ofMillis(100);
    private static final long WITHIN_NS = 30_000_000_000L;
    private static String bootstrap;

    private static final class Member implements AutoCloseable {
        final KafkaShareConsumer<String, String> consumer;

        Member(String group, Map<String, Object> more) {
            Map<String, Object> config = new HashMap<>(more);
            config.put("bootstrap.servers", bootstrap);
            config.put("group.id", group);
            config.put("key.deserializer", StringDeserializer.class);
            config.put("value.deserializer", StringDeserializer.class);
            consumer = new KafkaShareConsumer<>(config);
            consumer.subscribe(List.of(group));
        }

        /** The records of one delivery. */
        List<ConsumerRecord<String, String>> next() {
            List<ConsumerRecord<String, String>> records = new ArrayList<>();
            for (long began = System.nanoTime(); records.isEmpty() && System.nanoTime() - began < WITHIN_NS; ) {
                consumer.poll(POLL).forEach(records::add);
            }
            return records;
        }

        void decide(ConsumerRecord<String, String> record, AcknowledgeType... types) {
            consumer.acknowledge(record, types[(int) (record.offset() % types.length)]);
        }

        /** The outcomes of what was acknowledged. */
        String commit() {
            List<String> outcomes = new ArrayList<>();
            consumer.commitSync().values().forEach(
                    error -> outcomes.add(error.map(failed -> failed.getClass().getSimpleName()).orElse("done")));
            return outcomes.toString();
        }

        @Override
        public void close() {
            consumer.close();
        }
    }

    public static void main(String[] arguments) throws Exception {
        bootstrap = arguments[0];
        String name = arguments[1];
        if (arguments.length > 2) {
            show("crash", new Member(name, Map.of()).next());
            Runtime.getRuntime().halt(0);
        }
        Map<String, Object> producing = Map.of(
                "bootstrap.servers", bootstrap, "linger.ms", 1000,
                "key.serializer", StringSerializer.class, "value.serializer", StringSerializer.class);
        try (Admin admin = Admin.create(Map.of("bootstrap.servers", bootstrap));
                KafkaProducer<String, String> producer = new KafkaProducer<>(producing)) {
            for (String each : List.of("-implicit", "-explicit", "-two")) {
                prepare(admin, producer, name + each);
            }
            implicit(producer, name + "-implicit");
            explicit(name + "-explicit");
            two(producer, name + "-two");
            prepare(admin, producer, name + "-crash");
        }
    }

    /** A topic with four records, and a group of its name that begins at the first of them. */
    private static void prepare(Admin admin, KafkaProducer<String, String> producer, String name) throws Exception {
        admin.createTopics(List.of(new NewTopic(name, 1, (short) 1))).all().get();
        ConfigResource group = new ConfigResource(ConfigResource.Type.GROUP, name);
        ConfigEntry entry = new ConfigEntry("share.auto.offset.reset", "earliest");
        admin.incrementalAlterConfigs(Map.of(group, List.of(new AlterConfigOp(entry, AlterConfigOp.OpType.SET)))).all().get();
        for (String value : List.of("a", "b", "c", "d")) {
            producer.send(new ProducerRecord<>(name, 0, null, value));
        }
        producer.flush();
    }

    /** A poll accepts what the one before has delivered; what was not followed by one is released at the end. */
    private static void implicit(KafkaProducer<String, String> producer, String name) throws Exception {
        try (Member member = new Member(name, Map.of())) {
            show("implicit", member.next());
            producer.send(new ProducerRecord<>(name, 0, null, "e"));
            producer.flush();
            show("implicit, after them", member.next());
        }
        try (Member member = new Member(name, Map.of())) {
            show("implicit, at the end", member.next());
        }
    }

    /** Each record has its own outcome; a released one is delivered again, and a renewed one stays with its member. */
    private static void explicit(String name) {
        try (Member member = new Member(name, Map.of("share.acknowledgement.mode", "explicit"))) {
            List<ConsumerRecord<String, String>> first = member.next();
            show("explicit", first);
            for (ConsumerRecord<String, String> record : first) {
                member.decide(record, AcknowledgeType.ACCEPT, AcknowledgeType.RELEASE, AcknowledgeType.REJECT, AcknowledgeType.RENEW);
            }
            System.out.println("committed: " + member.commit());
            System.out.println("lock: " + member.consumer.acquisitionLockTimeoutMs().orElse(-1));
            TreeSet<String> again = new TreeSet<>();
            while (again.size() < 2) {
                for (ConsumerRecord<String, String> record : member.next()) {
                    again.add(text(record));
                    member.consumer.acknowledge(record);
                }
                member.commit();
            }
            System.out.println("released, renewed: " + String.join(" ", again));
        }
    }

    /** What one member holds, the other does not get. The client may fetch two records ahead, so that two more are needed. */
    private static void two(KafkaProducer<String, String> producer, String name) throws Exception {
        for (String value : List.of("e", "f")) {
            producer.send(new ProducerRecord<>(name, 0, null, value));
        }
        producer.flush();
        Map<String, Object> one = Map.of("share.acquire.mode", "record_limit", "max.poll.records", 2);
        try (Member first = new Member(name, one); Member second = new Member(name, one)) {
            List<String> records = first.next().stream().map(ShareConsumers::text).toList();
            System.out.println("first of two: " + String.join(" ", records));
            List<String> others = second.next().stream().map(ShareConsumers::text).toList();
            boolean areOthers = others.stream().allMatch(each -> each.endsWith("#1") && !records.contains(each));
            System.out.println("second of two: " + others.size() + (areOthers ? " others" : " of the first's: " + others));
        }
    }

    private static String text(ConsumerRecord<String, String> record) {
        return record.value() + "#" + record.deliveryCount().orElse((short) -1);
    }

    private static void show(String step, List<ConsumerRecord<String, String>> records) {
        System.out.println(step + ": " + String.join(" ", records.stream().map(ShareConsumers::text).toList()));
    }
}
