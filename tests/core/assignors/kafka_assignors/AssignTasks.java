import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
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
import org.apache.kafka.coordinator.group.streams.assignor.AssignmentMemberSpec;
import org.apache.kafka.coordinator.group.streams.assignor.GroupSpecImpl;
import org.apache.kafka.coordinator.group.streams.assignor.MemberAssignment;
import org.apache.kafka.coordinator.group.streams.assignor.StickyTaskAssignor;
import org.apache.kafka.coordinator.group.streams.assignor.TopologyDescriber;

/** Lines of JSON, a question each, in; the targets of all members as JSON, sorted, out. */
public class AssignTasks {
    private static final ObjectMapper MAPPER = new ObjectMapper();

    public static void main(String[] arguments) throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, "UTF-8"));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            JsonNode question = MAPPER.readTree(line);
            Map<String, AssignmentMemberSpec> members = new HashMap<>();
            for (JsonNode member : question.get("members")) {
                members.put(member.get("id").asText(), new AssignmentMemberSpec(
                    Optional.empty(), Optional.empty(), tasks(member.get("active")), tasks(member.get("standby")), Map.of(),
                    member.get("process").asText(), Map.of(), Map.of(), Map.of()));
            }
            Map<String, String> configs = Map.of("num.standby.replicas", question.get("replicas").asText());
            Map<String, MemberAssignment> targets = new StickyTaskAssignor()
                .assign(new GroupSpecImpl(members, configs), new Topology(question.get("subtopologies"))).members();
            Map<String, Object> answer = new TreeMap<>();
            targets.forEach((id, target) -> answer.put(id, List.of(sorted(target.activeTasks()), sorted(target.standbyTasks()))));
            System.out.println(MAPPER.writeValueAsString(answer));
        }
    }

    private static Map<String, Set<Integer>> tasks(JsonNode node) {
        Map<String, Set<Integer>> tasks = new HashMap<>();
        node.properties().forEach(entry -> {
            Set<Integer> partitions = new HashSet<>();
            entry.getValue().forEach(partition -> partitions.add(partition.asInt()));
            tasks.put(entry.getKey(), partitions);
        });
        return tasks;
    }

    private static Map<String, Set<Integer>> sorted(Map<String, Set<Integer>> tasks) {
        Map<String, Set<Integer>> sorted = new TreeMap<>();
        tasks.forEach((name, partitions) -> sorted.put(name, new TreeSet<>(partitions)));
        return sorted;
    }

    /** Subtopologies by id, each a number of tasks and whether it has state. */
    private record Topology(JsonNode described) implements TopologyDescriber {
        public List<String> subtopologies() {
            Set<String> names = new TreeSet<>();
            described.fieldNames().forEachRemaining(names::add);
            return new ArrayList<>(names);
        }

        public int maxNumInputPartitions(String name) {
            return described.get(name).get(0).asInt();
        }

        public boolean isStateful(String name) {
            return described.get(name).get(1).asBoolean();
        }
    }
}
