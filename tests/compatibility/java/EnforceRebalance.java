import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.Callable;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.CooperativeStickyAssignor;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.RangeAssignor;
import org.apache.kafka.common.Cluster;
import org.apache.kafka.common.Configurable;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/**
 * KIP-568 with Kafka's own client: Consumer.enforceRebalance of the leader and of a follower, dynamic and static, with an eager and
 * a cooperative assignor. Every case is a group of two members, twice enforced. Prints one line per case: how many generations
 * the group went forward, and which callbacks both members got.
 *
 * <p>Arguments: bootstrap server, topic with 4 partitions, suffix of the group ids.
 */
public class EnforceRebalance {
    private static final int PARTITIONS = 4;
    private static final int TIMES = 2;
    private static final long QUIET_NS = 600_000_000L;
    private static final long GIVE_UP_NS = 30_000_000_000L;

    /** Group -> its leader: the member whose assignor was last called. */
    private static final Map<String, String> LEADERS = new ConcurrentHashMap<>();

    public static class Range extends RangeAssignor implements Configurable {
        private String group;
        private String member;

        @Override
        public void configure(Map<String, ?> configs) {
            group = (String) configs.get("test.group");
            member = (String) configs.get("test.member");
        }

        @Override
        public GroupAssignment assign(Cluster metadata, GroupSubscription subscriptions) {
            LEADERS.put(group, member);
            return super.assign(metadata, subscriptions);
        }
    }

    public static class Cooperative extends CooperativeStickyAssignor implements Configurable {
        private String group;
        private String member;

        @Override
        public void configure(Map<String, ?> configs) {
            group = (String) configs.get("test.group");
            member = (String) configs.get("test.member");
        }

        @Override
        public GroupAssignment assign(Cluster metadata, GroupSubscription subscriptions) {
            LEADERS.put(group, member);
            return super.assign(metadata, subscriptions);
        }
    }

    private static final class Member implements ConsumerRebalanceListener, AutoCloseable {
        final String name;
        final KafkaConsumer<byte[], byte[]> consumer;
        final List<String> callbacks = new ArrayList<>();

        Member(String bootstrap, String topic, String group, String name, Class<?> assignor, boolean isStatic) {
            this.name = name;
            Map<String, Object> config = new HashMap<>();
            config.put("bootstrap.servers", bootstrap);
            config.put("group.id", group);
            config.put("client.id", name);
            config.put("partition.assignment.strategy", assignor.getName());
            config.put("heartbeat.interval.ms", 100);
            config.put("retry.backoff.ms", 20);
            config.put("enable.auto.commit", false);
            config.put("auto.offset.reset", "earliest");
            config.put("key.deserializer", ByteArrayDeserializer.class);
            config.put("value.deserializer", ByteArrayDeserializer.class);
            config.put("test.group", group);
            config.put("test.member", name);
            if (isStatic) {
                config.put("group.instance.id", name);
            }
            consumer = new KafkaConsumer<>(config);
            consumer.subscribe(List.of(topic), this);
        }

        int generation() {
            return consumer.groupMetadata().generationId();
        }

        @Override
        public void onPartitionsRevoked(Collection<TopicPartition> partitions) {
            callbacks.add("revoked " + partitions.size());
        }

        @Override
        public void onPartitionsAssigned(Collection<TopicPartition> partitions) {
            callbacks.add("assigned " + partitions.size());
        }

        @Override
        public void onPartitionsLost(Collection<TopicPartition> partitions) {
            callbacks.add("lost " + partitions.size());
        }

        @Override
        public void close() {
            consumer.close();
        }
    }

    /** Polls both members until they share all partitions in one generation above this one, and nothing has changed for a while. */
    private static void settle(List<Member> members, int above) {
        long began = System.nanoTime();
        long unchangedSince = began;
        String last = "";
        while (System.nanoTime() - unchangedSince < QUIET_NS) {
            Set<Integer> generations = new HashSet<>();
            Set<TopicPartition> owned = new HashSet<>();
            int count = 0;
            StringBuilder now = new StringBuilder();
            for (Member member : members) {
                member.consumer.poll(Duration.ofMillis(20));
                generations.add(member.generation());
                owned.addAll(member.consumer.assignment());
                count += member.consumer.assignment().size();
                now.append(member.generation()).append(member.callbacks);
            }
            boolean isSettled = generations.size() == 1 && generations.iterator().next() > above
                    && owned.size() == PARTITIONS && count == PARTITIONS;
            if (!isSettled || !now.toString().equals(last)) {
                unchangedSince = System.nanoTime();
            }
            last = now.toString();
            if (System.nanoTime() - began > GIVE_UP_NS) {
                return;
            }
        }
    }

    private static String run(
            String bootstrap, String topic, String suffix, Class<?> assignor, boolean isStatic, boolean leads) {
        String what = (assignor == Range.class ? "range" : "cooperative-sticky") + (isStatic ? " static" : " dynamic")
                + (leads ? " leader" : " follower");
        String group = what.replace(' ', '-') + suffix;
        try (Member one = new Member(bootstrap, topic, group, "one", assignor, isStatic);
                Member two = new Member(bootstrap, topic, group, "two", assignor, isStatic)) {
            List<Member> members = List.of(one, two);
            settle(members, 0);
            StringBuilder line = new StringBuilder(what).append(":");
            for (int time = 0; time < TIMES; time++) {
                boolean oneLeads = one.name.equals(LEADERS.get(group));
                Member enforcing = oneLeads == leads ? one : two;
                Member other = enforcing == one ? two : one;
                int before = Math.max(one.generation(), two.generation());
                one.callbacks.clear();
                two.callbacks.clear();
                enforcing.consumer.enforceRebalance("a test of " + group);
                settle(members, before);
                line.append(String.format(
                        " +%d enforcing %s other %s", enforcing.generation() - before, enforcing.callbacks, other.callbacks));
            }
            return line.toString();
        }
    }

    public static void main(String[] arguments) throws Exception {
        List<Callable<String>> cases = new ArrayList<>();
        for (Class<?> assignor : List.of(Range.class, Cooperative.class)) {
            for (boolean isStatic : List.of(false, true)) {
                for (boolean leads : List.of(true, false)) {
                    cases.add(() -> run(arguments[0], arguments[1], arguments[2], assignor, isStatic, leads));
                }
            }
        }
        ExecutorService threads = Executors.newFixedThreadPool(cases.size());
        for (Future<String> done : threads.invokeAll(cases)) {
            System.out.println(done.get());
        }
        threads.shutdown();
    }
}
