import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import org.apache.kafka.coordinator.group.api.streams.assignor.GroupAssignment;
import org.apache.kafka.coordinator.group.api.streams.assignor.TopologyDescriber;
import org.apache.kafka.coordinator.group.streams.assignor.AssignmentConfigsImpl;
import org.apache.kafka.coordinator.group.streams.assignor.GroupSpecImpl;
import org.apache.kafka.coordinator.group.streams.assignor.MemberMetadataAndStateImpl;
import org.apache.kafka.coordinator.group.streams.assignor.StickyTaskAssignor;

/**
 * Kafka's own assignor: a group on each line of input, its assignment on a line of output.
 *
 * In:  replicas|subtopology:tasks:stateful,...|member:process:active:standby:offsets|...
 * Out: member:active:standby|... in the order of the members
 * Tasks are "subtopology.number" with ";" between them; an offset is one more number behind its task.
 */
public class StickyAssignor {
    record Topology(TreeMap<String, String[]> parts) implements TopologyDescriber {
        @Override
        public List<String> subtopologies() {
            return List.copyOf(parts.keySet());
        }

        @Override
        public int maxNumInputPartitions(String subtopology) {
            return Integer.parseInt(parts.get(subtopology)[1]);
        }

        @Override
        public boolean isStateful(String subtopology) {
            return parts.get(subtopology)[2].equals("1");
        }
    }

    public static void main(String[] unused) throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String[] fields = line.split("\\|", -1);
            Topology topology = new Topology(new TreeMap<>());
            for (String part : fields[1].split(",")) {
                topology.parts().put(part.split(":")[0], part.split(":"));
            }
            Map<String, MemberMetadataAndStateImpl> members = new HashMap<>();
            for (int i = 2; i < fields.length; i++) {
                String[] member = fields[i].split(":", -1);
                members.put(member[0], new MemberMetadataAndStateImpl(
                    Optional.empty(), Optional.empty(), member[1], Map.of(),
                    tasks(member[2]), tasks(member[3]), Map.of(), offsets(member[4]), Map.of()));
            }
            AssignmentConfigsImpl configs = new AssignmentConfigsImpl(Integer.parseInt(fields[0]), List.of());
            GroupAssignment made = new StickyTaskAssignor().assign(new GroupSpecImpl(members, configs), topology);
            List<String> said = new ArrayList<>();
            new TreeMap<>(made.members()).forEach((member, assigned) ->
                said.add(member + ":" + text(assigned.activeTasks()) + ":" + text(assigned.standbyTasks())));
            System.out.println(String.join("|", said));
        }
    }

    static Map<String, Set<Integer>> tasks(String text) {
        Map<String, Set<Integer>> tasks = new HashMap<>();
        for (String task : text.isEmpty() ? new String[0] : text.split(";")) {
            String[] parts = task.split("\\.");
            tasks.computeIfAbsent(parts[0], each -> new HashSet<>()).add(Integer.parseInt(parts[1]));
        }
        return tasks;
    }

    static Map<String, Map<Integer, Long>> offsets(String text) {
        Map<String, Map<Integer, Long>> offsets = new HashMap<>();
        for (String task : text.isEmpty() ? new String[0] : text.split(";")) {
            String[] parts = task.split("\\.");
            offsets.computeIfAbsent(parts[0], each -> new HashMap<>())
                .put(Integer.parseInt(parts[1]), Long.parseLong(parts[2]));
        }
        return offsets;
    }

    static String text(Map<String, Set<Integer>> tasks) {
        List<String> said = new ArrayList<>();
        new TreeMap<>(tasks).forEach((subtopology, numbers) ->
            new TreeSet<>(numbers).forEach(number -> said.add(subtopology + "." + number)));
        return String.join(";", said);
    }
}
