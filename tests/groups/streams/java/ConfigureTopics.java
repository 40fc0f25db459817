import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.lang.reflect.InvocationHandler;
import java.lang.reflect.Proxy;
import java.nio.ByteBuffer;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.Map;
import java.util.Optional;
import java.util.TreeMap;
import org.apache.kafka.common.errors.ApiException;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.coordinator.common.runtime.CoordinatorMetadataImage;
import org.apache.kafka.coordinator.common.runtime.CoordinatorMetadataImage.TopicMetadata;
import org.apache.kafka.coordinator.group.generated.StreamsGroupTopologyValue;
import org.apache.kafka.coordinator.group.streams.StreamsTopology;
import org.apache.kafka.coordinator.group.streams.topics.ConfiguredInternalTopic;
import org.apache.kafka.coordinator.group.streams.topics.ConfiguredTopology;
import org.apache.kafka.coordinator.group.streams.topics.InternalTopicManager;
import org.slf4j.LoggerFactory;

/**
 * Kafka's own look at a topology and at topics: a topology on each line of input, what became of it on a line of output.
 *
 * In:  the bytes of the topology's record in hex, a space, topic=partitions,...
 * Out: status#subtopology=tasks[repartition topics|changelogs]...#topics to create, or an error's message
 */
public class ConfigureTopics {
    public static void main(String[] unused) throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String[] fields = line.split(" ", -1);
            ByteBuffer bytes = ByteBuffer.wrap(HexFormat.of().parseHex(fields[0]));
            Map<String, Integer> topics = new HashMap<>();
            for (String topic : fields[1].isEmpty() ? new String[0] : fields[1].split(",")) {
                topics.put(topic.split("=")[0], Integer.parseInt(topic.split("=")[1]));
            }
            StreamsGroupTopologyValue value = new StreamsGroupTopologyValue(new ByteBufferAccessor(bytes), (short) 0);
            System.out.println(said(StreamsTopology.fromRecord(value), topics));
        }
    }

    static String said(StreamsTopology topology, Map<String, Integer> topics) {
        CoordinatorMetadataImage image = only(CoordinatorMetadataImage.class, (proxy, method, arguments) ->
            Optional.ofNullable(topics.get((String) arguments[0])).map(partitions ->
                only(TopicMetadata.class, (topic, asked, none) -> partitions)));
        try {
            ConfiguredTopology made = InternalTopicManager.configureTopics(
                LoggerFactory.getLogger("quiet"), "group", "member", 0, topology, image, Time.SYSTEM);
            StringBuilder text = new StringBuilder(made.topicConfigurationException()
                .map(problem -> problem.status().code() + " " + problem.getMessage()).orElse("ready")).append("#");
            made.subtopologies().ifPresent(parts -> parts.forEach((id, part) ->
                text.append(id).append("=").append(part.numberOfTasks())
                    .append("[").append(sizes(part.repartitionSourceTopics()))
                    .append("|").append(sizes(part.stateChangelogTopics())).append("]")));
            text.append("#");
            new TreeMap<>(made.internalTopicsToBeCreated()).forEach((name, topic) ->
                text.append(name).append(":").append(topic.numPartitions()).append(":")
                    .append(topic.replicationFactor()).append(","));
            return text.toString();
        } catch (ApiException refused) {
            return refused.getMessage();
        }
    }

    static String sizes(Map<String, ConfiguredInternalTopic> topics) {
        StringBuilder text = new StringBuilder();
        new TreeMap<>(topics).forEach((name, topic) ->
            text.append(name).append(":").append(topic.numberOfPartitions()).append(","));
        return text.toString();
    }

    /** An object of which one method is asked. */
    static <T> T only(Class<T> type, InvocationHandler answers) {
        return type.cast(Proxy.newProxyInstance(type.getClassLoader(), new Class<?>[] {type}, answers));
    }
}
