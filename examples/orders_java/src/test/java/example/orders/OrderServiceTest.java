package example.orders;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.UUID;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.StringSerializer;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;

/**
 * The service survives what a real cluster does to it once a month: every order is billed, and none is billed twice.
 *
 * <pre>coordinator exec -- mvn test</pre>
 *
 * <p>There is no sleep in these tests. They wait for what they are about: a fault that acted, a state of the group, a bill.
 */
class OrderServiceTest {
    static final String BOOTSTRAP = System.getenv("BOOTSTRAP");
    static final String ADMIN_URL = System.getenv("ADMIN_URL");
    static final int PARTITIONS = 4;
    static final int SESSION_MS = 45_000;

    static Admin admin;
    static KafkaProducer<String, String> producer;

    final String unique = UUID.randomUUID().toString().substring(0, 8);
    final String topic = "orders-" + unique;
    final String group = "billing-" + unique;
    final Control control = new Control(ADMIN_URL, "test-" + unique);
    final Ledger ledger = new Ledger();
    final List<OrderService> services = new ArrayList<>();
    final List<Thread> threads = new ArrayList<>();
    int placed = 0;

    @BeforeAll
    static void connect() {
        admin = Admin.create(Map.of("bootstrap.servers", BOOTSTRAP));
        producer = new KafkaProducer<>(
                Map.of("bootstrap.servers", BOOTSTRAP), new StringSerializer(), new StringSerializer());
    }

    @AfterAll
    static void disconnect() {
        producer.close();
        admin.close();
    }

    /** One instance runs, and has billed some orders. */
    @BeforeEach
    void begin() throws Exception {
        admin.createTopics(List.of(new NewTopic(topic, PARTITIONS, (short) 1))).all().get();
        start();
        control.waitForGroup(group, "state:Stable,members:1");
        assertTrue(ledger.waitFor(order()));
    }

    @AfterEach
    void end() throws Exception {
        control.end();
        services.forEach(OrderService::stop);
        for (Thread thread : threads) {
            thread.join();
        }
    }

    @Test
    void aRebalanceLosesNothingAndBillsNothingTwice() throws Exception {
        int generation = control.generation(group);
        control.rebalance(group);
        control.waitForGroup(group, "state:Stable,epoch:" + (generation + 1));
        assertTrue(ledger.waitFor(order()));
        assertEquals(List.of(), ledger.repeated());
    }

    /** The first instance loses its session with a commit on the way. The second one reads those orders again. */
    @Test
    void aZombieCannotCommitWhatAnotherInstanceHasTakenOver() throws Exception {
        String recording = control.record(of("OffsetCommit"));
        String commits = control.fault(of("OffsetCommit"), "\"hold\": \"request\"", "");
        List<String> orders = order();
        control.waitFor(commits, "held:1");
        control.expireSession(group, control.onlyMember(group));
        start();
        control.waitForGroup(group, "state:Stable,members:1");
        control.clear(commits);
        control.waitForGroup(group, "state:Stable,members:2");
        assertTrue(control.entries(recording).contains("UNKNOWN_MEMBER_ID"));
        assertTrue(ledger.waitFor(orders));
        assertTrue(ledger.waitFor(order()));
        assertTrue(orders.containsAll(ledger.repeated()));
    }

    /** The process stands still for longer than its session: the group goes on without it, and it comes back. */
    @Test
    void aPauseLongerThanTheSessionLosesNothing() throws Exception {
        String heartbeats = control.fault(of("Heartbeat"), "\"hold\": \"request\"", "\"until\": \"cleared\"");
        control.waitFor(heartbeats, "held:1");
        control.stopClock();
        assertTrue(control.advance(SESSION_MS).contains(group));
        control.waitForGroup(group, "members:0");
        control.clear(heartbeats);
        control.waitForGroup(group, "state:Stable,members:1");
        assertTrue(ledger.waitFor(order()));
    }

    @Test
    void theLostAnswerToACommitBillsNothingTwice() throws Exception {
        String lost = control.fault(of("OffsetCommit"), "\"lose\": \"answer\"", "");
        List<String> orders = order();
        control.waitFor(lost, "acted:1");
        assertTrue(ledger.waitFor(orders));
        assertTrue(ledger.waitFor(order()));
        assertEquals(List.of(), ledger.repeated());
    }

    @Test
    void aFencedCommitDoesNotStopTheService() throws Exception {
        String fenced = control.fault(of("OffsetCommit"), "\"error\": \"ILLEGAL_GENERATION\"", "");
        List<String> orders = order();
        control.waitFor(fenced, "acted:1");
        assertTrue(ledger.waitFor(orders));
        assertTrue(ledger.waitFor(order()));
    }

    /** The broker says for a while that another one coordinates the group, as after a failover. */
    @Test
    void theServiceFollowsItsCoordinator() throws Exception {
        String moved = control.fault("\"group\": \"" + group + "\"", "\"coordinator\": \"moved\"", "\"times\": 3");
        List<String> orders = order();
        control.waitFor(moved, "acted:3");
        assertTrue(ledger.waitFor(orders));
        assertTrue(ledger.waitFor(order()));
        control.waitForGroup(group, "state:Stable,members:1");
    }

    @Test
    void aCoordinatorThatLoadsItsLogKeepsTheCommits() throws Exception {
        control.reload(group, 200);
        assertTrue(ledger.waitFor(order()));
        control.waitForGroup(group, "state:Stable,members:1");
    }

    private String of(String api) {
        return "\"api\": \"" + api + "\", \"group\": \"" + group + "\"";
    }

    /** The session is that of production; the rest keeps the client from waiting. */
    private void start() {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", BOOTSTRAP);
        settings.put("group.id", group);
        settings.put("session.timeout.ms", SESSION_MS);
        settings.put("heartbeat.interval.ms", 100);
        settings.put("fetch.max.wait.ms", 50);
        settings.put("retry.backoff.ms", 20);
        settings.put("reconnect.backoff.ms", 20);
        settings.put("reconnect.backoff.max.ms", 100);
        OrderService service = new OrderService(settings, topic, ledger);
        services.add(service);
        Thread thread = new Thread(service, "billing-" + services.size());
        thread.start();
        threads.add(thread);
    }

    /** Places orders over all partitions; returns their ids. */
    private List<String> order() {
        List<String> orders = new ArrayList<>();
        for (int number = 0; number < 20; number++) {
            String order = "order-" + placed++;
            orders.add(order);
            producer.send(new ProducerRecord<>(topic, number % PARTITIONS, null, order + " 995"));
        }
        producer.flush();
        return orders;
    }
}
