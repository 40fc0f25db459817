import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.concurrent.ExecutionException;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AdminClientConfig;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.DescribeConfigsOptions;
import org.apache.kafka.clients.admin.NewPartitionReassignment;
import org.apache.kafka.clients.admin.QuorumInfo;
import org.apache.kafka.common.KafkaFuture;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.TopicPartitionReplica;
import org.apache.kafka.common.config.ConfigResource;

/**
 * Calls of Java's Admin about the one node: quorum, replicas, folders, configs. A line of output is one outcome, "name:
 * outcome", where an outcome is a value or the class of an exception.
 */
public class AdminCalls {
    /** Arguments: --bootstrap-server, the address, a topic, the id of the node, its folder. */
    public static void main(String[] arguments) throws Exception {
        TopicPartition partition = new TopicPartition(arguments[2], 0);
        int node = Integer.parseInt(arguments[3]);
        ConfigResource broker = new ConfigResource(ConfigResource.Type.BROKER, arguments[3]);
        try (Admin admin = Admin.create(Map.of(AdminClientConfig.BOOTSTRAP_SERVERS_CONFIG, arguments[1]))) {
            QuorumInfo quorum = admin.describeMetadataQuorum().quorumInfo().get();
            show("quorum", quorum.leaderId() + " " + quorum.voters().size() + " " + quorum.observers().size());
            show("quorum is durable", quorum.highWatermark() == quorum.voters().get(0).logEndOffset());
            show("move here", move(admin, partition, List.of(node)));
            show("move elsewhere", move(admin, partition, List.of(node + 1)));
            show("move and add", move(admin, partition, List.of(node, node + 1)));
            show("cancel", move(admin, partition, null));
            show("move of an unknown partition", move(admin, new TopicPartition(arguments[2], 9), List.of(node)));
            show("moves", outcome(admin.listPartitionReassignments().reassignments()));
            show("moves of one", outcome(admin.listPartitionReassignments(Set.of(partition)).reassignments()));
            TopicPartitionReplica replica = new TopicPartitionReplica(partition.topic(), partition.partition(), node);
            show("own folder", outcome(admin.alterReplicaLogDirs(Map.of(replica, arguments[4])).all()));
            show("other folder", outcome(admin.alterReplicaLogDirs(Map.of(replica, "/nowhere")).all()));
            show("folder", admin.describeReplicaLogDirs(Set.of(replica)).all().get().get(replica).getCurrentReplicaLogDir());
            DescribeConfigsOptions all = new DescribeConfigsOptions().includeSynonyms(true).includeDocumentation(true);
            var configs = admin.describeConfigs(Set.of(broker), all).all().get().get(broker);
            show("address", configs.get("advertised.listeners").value());
            show("type", configs.get("log.cleanup.policy").type());
            show("source", configs.get("advertised.listeners").source());
            show("may be altered", configs.entries().stream().filter(each -> !each.isReadOnly()).map(ConfigEntry::name).toList());
            show("all are documented", configs.entries().stream().noneMatch(each -> each.documentation().isEmpty()));
            ConfigEntry entry = new ConfigEntry("node.id", "2");
            Collection<AlterConfigOp> change = List.of(new AlterConfigOp(entry, AlterConfigOp.OpType.SET));
            show("altered", outcome(admin.incrementalAlterConfigs(Map.of(broker, change)).all()));
        }
    }

    static String move(Admin admin, TopicPartition partition, List<Integer> replicas) throws InterruptedException {
        Optional<NewPartitionReassignment> wanted = Optional.ofNullable(replicas).map(NewPartitionReassignment::new);
        return outcome(admin.alterPartitionReassignments(Map.of(partition, wanted)).all());
    }

    static String outcome(KafkaFuture<?> future) throws InterruptedException {
        try {
            return String.valueOf(future.get());
        } catch (ExecutionException failed) {
            return failed.getCause().getClass().getSimpleName();
        }
    }

    static void show(String name, Object outcome) {
        System.out.println(name + ": " + outcome);
    }
}
