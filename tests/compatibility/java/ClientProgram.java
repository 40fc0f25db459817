import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Future;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.NewPartitions;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.admin.RecordsToDelete;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.consumer.SubscriptionPattern;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.errors.UnknownTopicOrPartitionException;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/** Kafka's own Java client as a client program: the same commands and events as the programs in ../clients. */
public final class ClientProgram {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final Duration POLL = Duration.ofMillis(50);
    private static final Duration WITHIN = Duration.ofSeconds(60);
    private static final Map<String, String> ASSIGNORS = Map.of(
        "range", "org.apache.kafka.clients.consumer.RangeAssignor",
        "roundrobin", "org.apache.kafka.clients.consumer.RoundRobinAssignor",
        "cooperative-sticky", "org.apache.kafka.clients.consumer.CooperativeStickyAssignor");

    private final String bootstrap;
    private KafkaConsumer<String, String> consumer;
    private ConsumerRebalanceListener listener;
    private boolean reportsErrors;

    private ClientProgram(String bootstrap) {
        this.bootstrap = bootstrap;
    }

    public static void main(String[] arguments) throws Exception {
        LinkedBlockingQueue<String> commands = new LinkedBlockingQueue<>();
        Thread reader = new Thread(() -> {
            try (BufferedReader in = new BufferedReader(new InputStreamReader(System.in))) {
                for (String line = in.readLine(); line != null; line = in.readLine()) {
                    commands.add(line);
                }
            } catch (java.io.IOException ended) {
                System.err.println(ended);
            }
            Runtime.getRuntime().halt(0);
        });
        reader.setDaemon(true);
        reader.start();
        new ClientProgram(arguments[0]).run(commands);
    }

    private void run(LinkedBlockingQueue<String> commands) throws Exception {
        say(Map.of("event", "ready"));
        while (true) {
            if (consumer != null) {
                poll();
            }
            String line = consumer != null ? commands.poll() : commands.poll(50, TimeUnit.MILLISECONDS);
            if (line != null) {
                obey(JSON.readTree(line));
            }
        }
    }

    private void poll() throws Exception {
        List<List<Object>> found = new ArrayList<>();
        try {
            read(found);
        } catch (org.apache.kafka.common.KafkaException error) {
            if (!reportsErrors) {
                throw error;
            }
            say(Map.of("event", "error", "partitions", List.of(), "error", error.toString()));
        }
        if (!found.isEmpty()) {
            say(Map.of("event", "records", "records", found));
        }
    }

    private void read(List<List<Object>> found) {
        consumer.poll(POLL).forEach(record ->
            found.add(List.of(record.topic(), record.partition(), record.offset(), record.value())));
    }

    private void obey(JsonNode command) throws Exception {
        Map<String, Object> answer = new HashMap<>();
        answer.put("id", command.get("id").asInt());
        try {
            answer.put("result", result(command));
        } catch (Exception error) {
            error.printStackTrace();
            answer.put("error", error.toString());
        }
        say(answer);
    }

    private Object result(JsonNode command) throws Exception {
        switch (command.get("do").asText()) {
            case "join": return join(command);
            case "member_id": return consumer.groupMetadata().memberId();
            case "commit": consumer.commitSync(WITHIN); return null;
            case "commit_at": consumer.commitSync(offsets(command), WITHIN); return null;
            case "committed": return committed(command);
            case "seek":
                consumer.seek(new TopicPartition(command.get("topic").asText(), command.get("partition").asInt()),
                    command.get("offset").asLong());
                return null;
            case "resubscribe": resubscribe(); return null;
            case "leave": consumer.close(); consumer = null; return null;
            case "produce": return produce(command);
            case "read_since": return readSince(command);
            default: return administrate(command);
        }
    }

    private Object join(JsonNode how) {
        reportsErrors = how.path("report_errors").asBoolean();
        Properties settings = secured();
        settings.put("client.id", how.get("client_id").asText());
        settings.put("group.id", how.get("group").asText());
        settings.put("enable.auto.commit", "false");
        settings.put("auto.offset.reset", "earliest");
        settings.put("reconnect.backoff.max.ms", "300");
        // The default, rebootstrap, forgets all topics while its only broker is down and rejoins when it knows them
        // again: with a cluster of one node any restart is a rebalance then, of Kafka's own broker too.
        settings.put("metadata.recovery.strategy", how.path("recovery").asText("none"));
        settings.put("key.deserializer", StringDeserializer.class.getName());
        settings.put("value.deserializer", StringDeserializer.class.getName());
        if (how.path("protocol").asText().equals("consumer")) {
            settings.put("group.protocol", "consumer");
            settings.put("metadata.max.age.ms", "1000");
        } else {
            settings.put("session.timeout.ms", how.get("session_timeout_ms").asText());
            settings.put("heartbeat.interval.ms", how.get("heartbeat_ms").asText());
            List<String> assignors = new ArrayList<>();
            for (String name : how.get("assignors").asText().split(",")) {
                assignors.add(ASSIGNORS.get(name));
            }
            settings.put("partition.assignment.strategy", String.join(",", assignors));
        }
        if (how.hasNonNull("instance")) {
            settings.put("group.instance.id", how.get("instance").asText());
        }
        List<String> topics = new ArrayList<>();
        how.get("topics").forEach(topic -> topics.add(topic.asText()));
        consumer = new KafkaConsumer<>(settings);
        listener = new ConsumerRebalanceListener() {
            @Override
            public void onPartitionsAssigned(Collection<TopicPartition> partitions) {
                tell("assigned", partitions);
            }

            @Override
            public void onPartitionsRevoked(Collection<TopicPartition> partitions) {
                tell("revoked", partitions);
            }

            @Override
            public void onPartitionsLost(Collection<TopicPartition> partitions) {
                tell("lost", partitions);
            }
        };
        if (topics.get(0).startsWith("^")) {
            consumer.subscribe(new SubscriptionPattern(topics.get(0)), listener);
        } else {
            consumer.subscribe(topics, listener);
        }
        return null;
    }

    /** A static member leaves temporarily and joins again, under the same member id. */
    private void resubscribe() {
        Set<String> topics = consumer.subscription();
        consumer.unsubscribe();
        consumer.subscribe(topics, listener);
    }

    private Object committed(JsonNode command) {
        List<TopicPartition> asked = partitions(command);
        Map<TopicPartition, OffsetAndMetadata> found = consumer.committed(Set.copyOf(asked), WITHIN);
        return numbers(asked, found);
    }

    private Object produce(JsonNode command) throws Exception {
        Properties settings = secured();
        settings.put("acks", "all");
        settings.put("enable.idempotence", command.path("idempotent").asText("false"));
        settings.put("compression.type", command.path("codec").asText("none"));
        settings.put("linger.ms", "20");
        settings.put("key.serializer", StringSerializer.class.getName());
        settings.put("value.serializer", StringSerializer.class.getName());
        Integer partition = command.hasNonNull("partition") ? command.get("partition").asInt() : null;
        try (KafkaProducer<String, String> producer = new KafkaProducer<>(settings)) {
            List<Future<?>> sent = new ArrayList<>();
            JsonNode values = command.get("values");
            for (int at = 0; at < values.size(); at++) {
                Long time = command.hasNonNull("times") ? command.get("times").get(at).asLong() : null;
                sent.add(producer.send(new ProducerRecord<>(
                    command.get("topic").asText(), partition, time, null, values.get(at).asText())));
            }
            for (Future<?> one : sent) {
                one.get(60, TimeUnit.SECONDS);
            }
        }
        return null;
    }

    /** Reads so many records of a partition, the first being the first of that time or later. */
    private Object readSince(JsonNode command) {
        Properties settings = secured();
        settings.put("key.deserializer", StringDeserializer.class.getName());
        settings.put("value.deserializer", StringDeserializer.class.getName());
        TopicPartition where = new TopicPartition(command.get("topic").asText(), command.get("partition").asInt());
        List<String> values = new ArrayList<>();
        try (KafkaConsumer<String, String> reader = new KafkaConsumer<>(settings)) {
            reader.assign(List.of(where));
            reader.seek(where, reader.offsetsForTimes(Map.of(where, command.get("time_ms").asLong())).get(where).offset());
            long deadline = System.nanoTime() + WITHIN.toNanos();
            while (values.size() < command.get("count").asInt() && System.nanoTime() < deadline) {
                reader.poll(POLL).forEach(record -> values.add(record.value()));
            }
        }
        return values;
    }

    /** The bootstrap address and the settings of SECURITY (see ../clients/commands.py). */
    private Properties secured() {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", bootstrap);
        JsonNode security;
        try {
            security = new ObjectMapper().readTree(System.getenv().getOrDefault("SECURITY", "{}"));
        } catch (java.io.IOException error) {
            throw new java.io.UncheckedIOException(error);
        }
        if (security.has("protocol")) {
            settings.put("security.protocol", security.get("protocol").asText());
        }
        if (security.has("ca")) {
            settings.put("ssl.truststore.type", "PEM");
            settings.put("ssl.truststore.location", security.get("ca").asText());
        }
        if (security.has("identity")) {
            settings.put("ssl.keystore.type", "PEM");
            settings.put("ssl.keystore.location", security.get("identity").asText());
        }
        if (security.has("mechanism")) {
            String mechanism = security.get("mechanism").asText();
            String modules = "org.apache.kafka.common.security.";
            String user = security.path("user").asText(), password = security.path("password").asText();
            settings.put("sasl.mechanism", mechanism);
            settings.put("sasl.jaas.config", switch (mechanism) {
                case "OAUTHBEARER" -> modules + "oauthbearer.OAuthBearerLoginModule required "
                    + "unsecuredLoginStringClaim_sub=\"alice\" unsecuredLoginListClaim_scope=\"," + security.path("scope").asText() + "\";";
                default -> modules + (mechanism.equals("PLAIN") ? "plain.PlainLoginModule" : "scram.ScramLoginModule")
                    + " required username=\"" + user + "\" password=\"" + password + "\";";
            });
        }
        return settings;
    }

    private Object administrate(JsonNode command) throws Exception {
        String group = command.path("group").asText();
        try (Admin admin = Admin.create(secured())) {
            switch (command.get("do").asText()) {
                case "list_groups": {
                    List<String> names = new ArrayList<>();
                    admin.listGroups().all().get().forEach(one -> names.add(one.groupId()));
                    return names;
                }
                case "describe_group": {
                    var described = admin.describeClassicGroups(List.of(group)).all().get().get(group);
                    List<String> members = new ArrayList<>();
                    described.members().forEach(member -> members.add(member.clientId()));
                    return Map.of("state", described.state().toString(), "members", members);
                }
                case "end_offsets": {
                    List<TopicPartition> asked = partitions(command);
                    Map<TopicPartition, OffsetSpec> latest = new HashMap<>();
                    asked.forEach(partition -> latest.put(partition, OffsetSpec.latest()));
                    var found = admin.listOffsets(latest).all().get();
                    List<Long> ends = new ArrayList<>();
                    asked.forEach(partition -> ends.add(found.get(partition).offset()));
                    return ends;
                }
                case "group_offsets":
                    return numbers(partitions(command),
                        admin.listConsumerGroupOffsets(group).partitionsToOffsetAndMetadata().get());
                case "alter_offsets": admin.alterConsumerGroupOffsets(group, offsets(command)).all().get(); return null;
                case "delete_group": admin.deleteConsumerGroups(List.of(group)).all().get(); return null;
                default: return administrateTopics(admin, command);
            }
        }
    }

    private static Object administrateTopics(Admin admin, JsonNode command) throws Exception {
        String topic = command.path("topic").asText();
        ConfigResource resource = new ConfigResource(ConfigResource.Type.TOPIC, topic);
        Map<String, String> configs = new HashMap<>();
        command.path("configs").fields().forEachRemaining(one -> configs.put(one.getKey(), one.getValue().asText()));
        switch (command.get("do").asText()) {
            case "create_topic":
                admin.createTopics(List.of(new NewTopic(topic, command.get("count").asInt(), (short) 1).configs(configs)))
                    .all().get();
                return null;
            case "delete_topic": admin.deleteTopics(List.of(topic)).all().get(); return null;
            case "topic":
                try {
                    return admin.describeTopics(List.of(topic)).allTopicNames().get().get(topic).partitions().size();
                } catch (ExecutionException error) {
                    if (error.getCause() instanceof UnknownTopicOrPartitionException) {
                        return 0;
                    }
                    throw error;
                }
            case "add_partitions":
                admin.createPartitions(Map.of(topic, NewPartitions.increaseTo(command.get("count").asInt()))).all().get();
                return null;
            case "delete_records":
                admin.deleteRecords(Map.of(new TopicPartition(topic, command.get("partition").asInt()),
                    RecordsToDelete.beforeOffset(command.get("offset").asLong()))).all().get();
                return null;
            case "set_config": {
                List<AlterConfigOp> changes = new ArrayList<>();
                configs.forEach((key, value) ->
                    changes.add(new AlterConfigOp(new ConfigEntry(key, value), AlterConfigOp.OpType.SET)));
                admin.incrementalAlterConfigs(Map.of(resource, changes)).all().get();
                return null;
            }
            case "configs": {
                Map<String, String> values = new HashMap<>();
                admin.describeConfigs(List.of(resource)).all().get().get(resource).entries()
                    .forEach(entry -> values.put(entry.name(), entry.value()));
                return values;
            }
            case "brokers": return admin.describeCluster().nodes().get().size();
            default: throw new IllegalArgumentException(command.toString());
        }
    }

    private static List<TopicPartition> partitions(JsonNode command) {
        List<TopicPartition> found = new ArrayList<>();
        command.get("partitions").forEach(one -> found.add(new TopicPartition(one.get(0).asText(), one.get(1).asInt())));
        return found;
    }

    private static Map<TopicPartition, OffsetAndMetadata> offsets(JsonNode command) {
        Map<TopicPartition, OffsetAndMetadata> found = new HashMap<>();
        command.get("offsets").forEach(one -> found.put(
            new TopicPartition(one.get(0).asText(), one.get(1).asInt()), new OffsetAndMetadata(one.get(2).asLong())));
        return found;
    }

    private static List<Long> numbers(List<TopicPartition> asked, Map<TopicPartition, OffsetAndMetadata> found) {
        List<Long> numbers = new ArrayList<>();
        asked.forEach(partition -> {
            OffsetAndMetadata offset = found.get(partition);
            numbers.add(offset == null ? null : (Long) offset.offset());
        });
        return numbers;
    }

    private static void tell(String event, Collection<TopicPartition> partitions) {
        List<List<Object>> pairs = new ArrayList<>();
        partitions.forEach(partition -> pairs.add(List.of(partition.topic(), partition.partition())));
        say(Map.of("event", event, "partitions", pairs, "at_ns", System.nanoTime()));
    }

    private static synchronized void say(Map<String, Object> message) {
        try {
            System.out.println(JSON.writeValueAsString(message));
            System.out.flush();
        } catch (java.io.IOException impossible) {
            throw new IllegalStateException(impossible);
        }
    }
}
