import com.fasterxml.jackson.databind.ObjectMapper;
import java.lang.reflect.Method;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collection;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutionException;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.ConsumerGroupDescription;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/** The story of story.py, by kafka-clients since 2.4: prints a JSON line for each outcome. */
public final class EarlierClient {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final Duration POLL = Duration.ofMillis(50);
    private static final long WITHIN_MS = 60_000;
    private static final int PARTITIONS = 4;

    private final String bootstrap;
    private final String topic;
    private final String group;

    private EarlierClient(String bootstrap, String name) {
        this.bootstrap = bootstrap;
        this.topic = name + "-topic";
        this.group = name + "-group";
    }

    public static void main(String[] arguments) throws Exception {
        new EarlierClient(arguments[0], arguments[1]).run();
        System.out.flush();
        Runtime.getRuntime().halt(0);
    }

    private void run() throws Exception {
        try (Admin admin = Admin.create(settings())) {
            say("topic", () -> {
                admin.createTopics(Collections.singletonList(new NewTopic(topic, PARTITIONS, (short) 1))).all().get();
                return "made";
            });
            say("produced", () -> produce(settings(), "v", 10));
            Member one = new Member("one", null);
            say("alone", () -> await(() -> one.owned.size() == PARTITIONS ? one.owned : null, one));
            say("read", () -> await(() -> one.values.size() == 40 ? one.values.size() : null, one));
            say("committed", () -> {
                one.consumer.commitSync();
                return committed(one.consumer);
            });
            Member two = new Member("two", "static");
            say("shared", () -> await(() -> shared(one, two), one, two));
            say("described", () -> described(admin));
            say("outsider commits", this::commitOfAnOutsider);
            say("deleted in use", () -> {
                admin.deleteConsumerGroups(Collections.singletonList(group)).all().get();
                return "deleted";
            });
            say("offsets deleted in use", () -> {
                admin.deleteConsumerGroupOffsets(group, Collections.singleton(new TopicPartition(topic, 0))).all().get();
                return "deleted";
            });
            int rebalances = one.rebalances;
            Set<Integer> had = new TreeSet<>(two.owned);
            two.consumer.close();
            Member again = new Member("two", "static");
            say("static member returned", () -> {
                await(() -> again.owned.equals(had) ? true : null, one, again);
                return one.rebalances - rebalances;
            });
            say("compressed", () -> {
                Properties compressed = settings();
                compressed.put("compression.type", "gzip");
                produce(compressed, "z", 5);
                return await(() -> one.values.size() + again.values.size() == 60 ? 60 : null, one, again);
            });
            one.consumer.commitSync();
            again.consumer.commitSync();
            one.consumer.close();
            again.consumer.close();
            transactions();
            consumerProtocol();
            say("offsets", () -> offsets(admin));
            say("listed", () -> admin.listConsumerGroups().all().get().stream().anyMatch(each -> each.groupId().equals(group)));
        }
    }

    private void transactions() throws Exception {
        Properties mine = settings();
        mine.put("transactional.id", group + "-t");
        KafkaProducer<String, String> producer = new KafkaProducer<>(mine);
        producer.initTransactions();
        Properties reading = consumerSettings("reader");
        reading.put("group.id", group + "-reads");
        KafkaConsumer<String, String> reader = new KafkaConsumer<>(reading);
        TopicPartition first = new TopicPartition(topic, 0);
        reader.assign(Collections.singletonList(first));
        say("transaction", () -> {
            for (boolean commits : new boolean[] {true, false, true}) {
                producer.beginTransaction();
                producer.send(new ProducerRecord<>(topic, 0, null, commits ? "committed" : "aborted"));
                sendOffsets(producer, reader, Collections.singletonMap(first, new OffsetAndMetadata(commits ? 7 : 8)));
                if (commits) {
                    producer.commitTransaction();
                } else {
                    producer.abortTransaction();
                }
            }
            return reader.committed(Collections.singleton(first)).get(first).offset();
        });
        say("read committed", () -> {
            List<String> values = new ArrayList<>();
            reader.seekToBeginning(Collections.singletonList(first));
            long deadline = System.currentTimeMillis() + WITHIN_MS;
            while (System.currentTimeMillis() < deadline && Collections.frequency(values, "committed") < 2) {
                for (ConsumerRecord<String, String> each : reader.poll(POLL)) {
                    values.add(each.value());
                }
            }
            return Arrays.asList(Collections.frequency(values, "committed"), Collections.frequency(values, "aborted"));
        });
        say("fenced", () -> {
            producer.beginTransaction();
            producer.send(new ProducerRecord<>(topic, 0, null, "zombie"));
            producer.flush();
            KafkaProducer<String, String> next = new KafkaProducer<>(mine);
            next.initTransactions();
            try {
                producer.commitTransaction();
                return "committed";
            } finally {
                next.close(Duration.ZERO);
                producer.close(Duration.ZERO);
            }
        });
        reader.close();
    }

    /** Clients since 3.7 speak the consumer protocol if they are asked to (KIP-848). */
    private void consumerProtocol() throws Exception {
        if (Arrays.stream(ConsumerConfig.class.getFields()).noneMatch(each -> each.getName().equals("GROUP_PROTOCOL_CONFIG"))) {
            return;
        }
        Properties settings = consumerSettings("new");
        settings.put("group.id", group + "-new");
        settings.put("group.protocol", "consumer");
        for (String classic : Arrays.asList("session.timeout.ms", "heartbeat.interval.ms", "partition.assignment.strategy")) {
            settings.remove(classic);
        }
        try (KafkaConsumer<String, String> member = new KafkaConsumer<>(settings)) {
            member.subscribe(Collections.singletonList(topic));
            say("consumer protocol", () -> {
                long deadline = System.currentTimeMillis() + WITHIN_MS;
                while (member.assignment().size() < PARTITIONS && System.currentTimeMillis() < deadline) {
                    member.poll(POLL);
                }
                return member.assignment().size();
            });
        }
    }

    /** With what the release of the client has: a group's name before 2.5, its member since. */
    private void sendOffsets(
        KafkaProducer<String, String> producer, KafkaConsumer<String, String> reader,
        Map<TopicPartition, OffsetAndMetadata> offsets
    ) throws Exception {
        for (Method method : KafkaProducer.class.getMethods()) {
            if (method.getName().equals("sendOffsetsToTransaction") && method.getParameterTypes()[1] != String.class) {
                Object member = KafkaConsumer.class.getMethod("groupMetadata").invoke(reader);
                method.invoke(producer, offsets, member);
                return;
            }
        }
        KafkaProducer.class.getMethod("sendOffsetsToTransaction", Map.class, String.class)
            .invoke(producer, offsets, group + "-reads");
    }

    private Object commitOfAnOutsider() {
        try (KafkaConsumer<String, String> outsider = new KafkaConsumer<>(consumerSettings("outsider"))) {
            TopicPartition first = new TopicPartition(topic, 0);
            outsider.assign(Collections.singletonList(first));
            outsider.commitSync(Collections.singletonMap(first, new OffsetAndMetadata(1)));
            return "committed";
        }
    }

    private Object described(Admin admin) throws Exception {
        ConsumerGroupDescription found =
            admin.describeConsumerGroups(Collections.singletonList(group)).all().get().get(group);
        List<String> members = new ArrayList<>();
        found.members().forEach(each -> members.add(each.clientId() + " " + each.groupInstanceId().orElse("-")
            + " " + each.assignment().topicPartitions().size()));
        Collections.sort(members);
        return Arrays.asList(found.state().toString(), found.partitionAssignor(), members);
    }

    private Object committed(KafkaConsumer<String, String> consumer) {
        TreeMap<Integer, Long> found = new TreeMap<>();
        consumer.committed(partitions()).forEach((where, offset) -> found.put(where.partition(), offset.offset()));
        return found;
    }

    private Object offsets(Admin admin) throws Exception {
        TreeMap<Integer, Long> found = new TreeMap<>();
        admin.listConsumerGroupOffsets(group).partitionsToOffsetAndMetadata().get()
            .forEach((where, offset) -> found.put(where.partition(), offset.offset()));
        return found;
    }

    private Set<TopicPartition> partitions() {
        Set<TopicPartition> all = new java.util.HashSet<>();
        for (int each = 0; each < PARTITIONS; each++) {
            all.add(new TopicPartition(topic, each));
        }
        return all;
    }

    private static Object shared(Member one, Member two) {
        Set<Integer> both = new TreeSet<>(one.owned);
        both.addAll(two.owned);
        return both.size() == PARTITIONS && one.owned.size() == 2 && two.owned.size() == 2 ? Arrays.asList(2, 2) : null;
    }

    private Object produce(Properties settings, String prefix, int each) throws Exception {
        try (KafkaProducer<String, String> producer = new KafkaProducer<>(settings)) {
            List<java.util.concurrent.Future<?>> sent = new ArrayList<>();
            for (int number = 0; number < PARTITIONS * each; number++) {
                sent.add(producer.send(new ProducerRecord<>(topic, number % PARTITIONS, null, prefix + number)));
            }
            for (java.util.concurrent.Future<?> one : sent) {
                one.get();
            }
            return sent.size();
        }
    }

    private Properties settings() {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", bootstrap);
        settings.put("acks", "all");
        settings.put("key.serializer", StringSerializer.class.getName());
        settings.put("value.serializer", StringSerializer.class.getName());
        return settings;
    }

    private Properties consumerSettings(String name) {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", bootstrap);
        settings.put("client.id", name);
        settings.put("group.id", group);
        settings.put("enable.auto.commit", "false");
        settings.put("auto.offset.reset", "earliest");
        settings.put("isolation.level", "read_committed");
        settings.put("session.timeout.ms", "20000");
        settings.put("heartbeat.interval.ms", "300");
        settings.put("partition.assignment.strategy", "org.apache.kafka.clients.consumer.RangeAssignor");
        settings.put("key.deserializer", StringDeserializer.class.getName());
        settings.put("value.deserializer", StringDeserializer.class.getName());
        return settings;
    }

    private static <T> T await(Callable<T> condition, Member... members) throws Exception {
        long deadline = System.currentTimeMillis() + WITHIN_MS;
        while (System.currentTimeMillis() < deadline) {
            for (Member member : members) {
                member.poll();
            }
            T found = condition.call();
            if (found != null) {
                return found;
            }
        }
        throw new IllegalStateException("in vain");
    }

    private static void say(String what, Callable<?> outcome) throws Exception {
        Object said;
        try {
            said = outcome.call();
        } catch (ExecutionException error) {
            said = error.getCause().getClass().getSimpleName();
        } catch (Exception error) {
            said = error.getClass().getSimpleName();
        }
        System.out.println(JSON.writeValueAsString(Arrays.asList(what, said)));
    }

    /** A member of the group, which keeps what it owns and reads. */
    private final class Member implements ConsumerRebalanceListener {
        private final KafkaConsumer<String, String> consumer;
        private final Set<Integer> owned = new TreeSet<>();
        private final Set<String> values = new TreeSet<>();
        private int rebalances;

        private Member(String name, String instance) {
            Properties settings = consumerSettings(name);
            if (instance != null) {
                settings.put("group.instance.id", instance);
            }
            consumer = new KafkaConsumer<>(settings);
            consumer.subscribe(Collections.singletonList(topic), this);
        }

        private void poll() {
            consumer.poll(POLL).forEach(each -> values.add(each.value()));
        }

        @Override
        public void onPartitionsAssigned(Collection<TopicPartition> partitions) {
            rebalances++;
            partitions.forEach(each -> owned.add(each.partition()));
        }

        @Override
        public void onPartitionsRevoked(Collection<TopicPartition> partitions) {
            partitions.forEach(each -> owned.remove(each.partition()));
        }
    }
}
