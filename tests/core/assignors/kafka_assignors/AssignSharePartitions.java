import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.NoSuchElementException;
import java.util.Optional;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.coordinator.group.api.assignor.SubscribedTopicDescriber;
import org.apache.kafka.coordinator.group.api.assignor.SubscriptionType;
import org.apache.kafka.coordinator.group.assignor.SimpleAssignor;
import org.apache.kafka.coordinator.group.modern.Assignment;
import org.apache.kafka.coordinator.group.modern.GroupSpecImpl;
import org.apache.kafka.coordinator.group.modern.MemberSubscriptionAndAssignmentImpl;

/** Lines of JSON, a question each, in; the assignments of all members as JSON, sorted, out. Topics go by their places. */
public class AssignSharePartitions {
    private static final ObjectMapper MAPPER = new ObjectMapper();

    public static void main(String[] arguments) throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, "UTF-8"));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            JsonNode question = MAPPER.readTree(line);
            List<Uuid> topics = new ArrayList<>();
            Map<Uuid, Integer> counts = new HashMap<>();
            Map<Uuid, Set<Integer>> assignable = new HashMap<>();
            for (JsonNode topic : question.get("topics")) {
                Uuid id = Uuid.fromString(topic.get(0).asText());
                topics.add(id);
                counts.put(id, topic.get(1).asInt());
                assignable.put(id, new HashSet<>(numbers(topic.get(2))));
            }
            Map<String, MemberSubscriptionAndAssignmentImpl> members = new HashMap<>();
            for (JsonNode member : question.get("members")) {
                Set<Uuid> subscribed = new LinkedHashSet<>();
                numbers(member.get(1)).forEach(place -> subscribed.add(topics.get(place)));
                Map<Uuid, Set<Integer>> previous = new HashMap<>();
                member.get(2).forEach(one ->
                    previous.put(topics.get(one.get(0).asInt()), new HashSet<>(numbers(one.get(1)))));
                members.put(member.get(0).asText(), new MemberSubscriptionAndAssignmentImpl(
                    Optional.empty(), Optional.empty(), subscribed, new Assignment(previous)));
            }
            SubscriptionType type = question.get("homogeneous").asBoolean()
                ? SubscriptionType.HOMOGENEOUS : SubscriptionType.HETEROGENEOUS;
            System.out.println(MAPPER.writeValueAsString(
                answer(new GroupSpecImpl(members, type, Map.of(), Optional.of(assignable)), new Topics(counts), topics)));
        }
    }

    /** Null where Kafka's class fails: it looks for a further member that has too few partitions, and there is none. */
    private static Map<String, Object> answer(GroupSpecImpl spec, Topics described, List<Uuid> topics) {
        Map<String, Object> answer = new TreeMap<>();
        try {
            new SimpleAssignor().assign(spec, described).members().forEach((id, target) -> {
                Map<Integer, Object> places = new TreeMap<>();
                target.partitions().forEach((topic, held) -> places.put(topics.indexOf(topic), new TreeSet<>(held)));
                answer.put(id, places);
            });
        } catch (NoSuchElementException failure) {
            return null;
        }
        return answer;
    }

    private static List<Integer> numbers(JsonNode node) {
        List<Integer> numbers = new ArrayList<>();
        node.forEach(number -> numbers.add(number.asInt()));
        return numbers;
    }

    private record Topics(Map<Uuid, Integer> counts) implements SubscribedTopicDescriber {
        public int numPartitions(Uuid topic) {
            return counts.getOrDefault(topic, -1);
        }

        public Set<String> racksForPartition(Uuid topic, int partition) {
            return Set.of();
        }
    }
}
