import java.io.FileReader;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import java.util.TreeSet;
import java.util.concurrent.ExecutionException;
import java.util.stream.Collectors;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.DescribeClusterOptions;
import org.apache.kafka.clients.admin.DescribeConsumerGroupsOptions;
import org.apache.kafka.clients.admin.DescribeTopicsOptions;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.ScramCredentialInfo;
import org.apache.kafka.clients.admin.ScramMechanism;
import org.apache.kafka.clients.admin.UserScramCredentialDeletion;
import org.apache.kafka.clients.admin.UserScramCredentialUpsertion;
import org.apache.kafka.common.KafkaFuture;
import org.apache.kafka.common.acl.AccessControlEntry;
import org.apache.kafka.common.acl.AccessControlEntryFilter;
import org.apache.kafka.common.acl.AclBinding;
import org.apache.kafka.common.acl.AclBindingFilter;
import org.apache.kafka.common.acl.AclOperation;
import org.apache.kafka.common.acl.AclPermissionType;
import org.apache.kafka.common.resource.PatternType;
import org.apache.kafka.common.resource.ResourcePattern;
import org.apache.kafka.common.resource.ResourcePatternFilter;
import org.apache.kafka.common.resource.ResourceType;

/** Calls of Java's Admin about ACLs and users. A line of output is one outcome, "name: outcome". */
public class AccessCalls {
    private static final AclBindingFilter OF_ALICE = new AclBindingFilter(
            ResourcePatternFilter.ANY, new AccessControlEntryFilter("User:alice", null, AclOperation.ANY, AclPermissionType.ANY));

    /** Arguments: files with the client properties of root, of alice, and of carol, who has no credentials yet. */
    public static void main(String[] arguments) throws Exception {
        try (Admin root = client(arguments[0]); Admin alice = client(arguments[1])) {
            show("topics", outcome(root.createTopics(List.of(new NewTopic("java-orders", 1, (short) 1), new NewTopic("java-bills", 1, (short) 1))).all()));
            asAlice("without ACLs", alice);
            List<AclBinding> bindings = List.of(
                    acl(ResourceType.TOPIC, "java-o", PatternType.PREFIXED, AclOperation.READ),
                    acl(ResourceType.TOPIC, "java-bills", PatternType.LITERAL, AclOperation.ALTER_CONFIGS),
                    acl(ResourceType.GROUP, "*", PatternType.LITERAL, AclOperation.DELETE),
                    acl(ResourceType.CLUSTER, "kafka-cluster", PatternType.LITERAL, AclOperation.ALTER));
            show("create", outcome(root.createAcls(bindings).all()));
            show("create again", outcome(root.createAcls(bindings).all()));
            show("create for an odd cluster", outcome(root.createAcls(
                    List.of(acl(ResourceType.CLUSTER, "other", PatternType.LITERAL, AclOperation.ALTER))).all()));
            show("create an odd operation", outcome(root.createAcls(
                    List.of(acl(ResourceType.GROUP, "g", PatternType.LITERAL, AclOperation.CREATE))).all()));
            show("described", sorted(root.describeAcls(OF_ALICE).values().get()));
            show("that match", sorted(root.describeAcls(new AclBindingFilter(
                    new ResourcePatternFilter(ResourceType.TOPIC, "java-orders", PatternType.MATCH), AccessControlEntryFilter.ANY)).values().get()));
            asAlice("with ACLs", alice);
            asCarol(root, arguments[2]);
            show("deleted", sorted(root.deleteAcls(Set.of(OF_ALICE)).all().get()));
            show("deleted again", sorted(root.deleteAcls(Set.of(OF_ALICE)).all().get()));
            asAlice("without ACLs again", alice);
        }
    }

    static void asAlice(String when, Admin alice) throws Exception {
        DescribeClusterOptions cluster = new DescribeClusterOptions().includeAuthorizedOperations(true);
        show(when + ", operations of the cluster", outcome(alice.describeCluster(cluster).authorizedOperations().thenApply(TreeSet::new)));
        DescribeTopicsOptions topics = new DescribeTopicsOptions().includeAuthorizedOperations(true);
        for (String topic : List.of("java-orders", "java-bills")) {
            show(when + ", operations of " + topic, outcome(alice.describeTopics(List.of(topic), topics).topicNameValues().get(topic)
                    .thenApply(found -> new TreeSet<>(found.authorizedOperations()))));
        }
        show(when + ", topics", outcome(alice.listTopics().names()));
        DescribeConsumerGroupsOptions groups = new DescribeConsumerGroupsOptions().includeAuthorizedOperations(true);
        show(when + ", group", outcome(alice.describeConsumerGroups(List.of("g"), groups).describedGroups().get("g")));
        show(when + ", ACLs", outcome(alice.describeAcls(AclBindingFilter.ANY).values().thenApply(Collection::size)));
        show(when + ", new ACL", outcome(alice.createAcls(
                List.of(acl(ResourceType.TOPIC, "java-bills", PatternType.LITERAL, AclOperation.DESCRIBE))).all()));
        show(when + ", users", outcome(alice.describeUserScramCredentials(List.of("nobody")).all()));
        show(when + ", new user", outcome(alice.alterUserScramCredentials(List.of(
                new UserScramCredentialDeletion("nobody", ScramMechanism.SCRAM_SHA_256))).all()));
        show(when + ", configs", outcome(alice.describeClientQuotas(
                org.apache.kafka.common.quota.ClientQuotaFilter.all()).entities().thenApply(Map::size)));
    }

    static void asCarol(Admin root, String properties) throws Exception {
        show("carol's credentials", outcome(root.alterUserScramCredentials(List.of(new UserScramCredentialUpsertion(
                "carol", new ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 4096), "right"))).all()));
        show("few iterations", outcome(root.alterUserScramCredentials(List.of(new UserScramCredentialUpsertion(
                "carol", new ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 4095), "right"))).all()));
        show("users", outcome(root.describeUserScramCredentials().all()));
        try (Admin carol = client(properties)) {
            show("carol's topics", outcome(carol.listTopics().names()));
        }
        show("carol is deleted", outcome(root.alterUserScramCredentials(List.of(
                new UserScramCredentialDeletion("carol", ScramMechanism.SCRAM_SHA_256))).all()));
        show("users then", outcome(root.describeUserScramCredentials().all()));
    }

    static AclBinding acl(ResourceType type, String name, PatternType pattern, AclOperation operation) {
        return new AclBinding(new ResourcePattern(type, name, pattern),
                new AccessControlEntry("User:alice", "*", operation, AclPermissionType.ALLOW));
    }

    static Admin client(String path) throws Exception {
        Properties properties = new Properties();
        try (FileReader file = new FileReader(path)) {
            properties.load(file);
        }
        return Admin.create(properties);
    }

    static String sorted(Collection<AclBinding> bindings) {
        return bindings.stream().map(AclBinding::toString).sorted().collect(Collectors.joining(" "));
    }

    static String outcome(KafkaFuture<?> future) throws InterruptedException {
        try {
            return String.valueOf(future.get());
        } catch (ExecutionException error) {
            return error.getCause().getClass().getSimpleName();
        }
    }

    static void show(String name, Object outcome) {
        System.out.println(name + ": " + outcome);
    }
}
