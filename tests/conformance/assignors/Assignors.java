import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.*;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.coordinator.group.api.assignor.*;
import org.apache.kafka.coordinator.group.assignor.RangeAssignor;
import org.apache.kafka.coordinator.group.assignor.UniformAssignor;
import org.apache.kafka.coordinator.group.modern.*;

/**
 * Asks Apache Kafka's own assignors. Without arguments: questions as JSON lines in, answers as JSON lines out, in the
 * form that tests/conformance/assignors/questions.py describes. With "time MEMBERS TOPICS PARTITIONS_EACH": the
 * milliseconds of a first assignment and of one after a single member has joined, the best of eight seconds of rounds.
 */
public class Assignors {
    /** A question in Kafka's types: member specs in a HashMap, sets as HashSets, as TargetAssignmentBuilder makes them. */
    record Question(GroupSpec spec, Map<Uuid, Integer> counts) implements SubscribedTopicDescriber {
        public int numPartitions(Uuid topicId) {
            return counts.getOrDefault(topicId, -1);
        }

        public Set<String> racksForPartition(Uuid topicId, int partition) {
            return Set.of();
        }
    }

    public static void main(String[] arguments) throws Exception {
        if (arguments.length > 0 && arguments[0].equals("time")) {
            time(Integer.parseInt(arguments[1]), Integer.parseInt(arguments[2]), Integer.parseInt(arguments[3]));
            return;
        }
        ObjectMapper json = new ObjectMapper();
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            System.out.println(json.writeValueAsString(answer(json, json.readTree(line))));
        }
    }

    static JsonNode answer(ObjectMapper json, JsonNode asked) {
        List<Uuid> ids = new ArrayList<>();
        Map<Uuid, Integer> counts = new HashMap<>();
        for (JsonNode topic : asked.get("topics")) {
            ids.add(uuid(topic.get(0).asText()));
            counts.put(ids.get(ids.size() - 1), topic.get(1).asInt());
        }
        Map<String, MemberSubscriptionAndAssignmentImpl> members = new HashMap<>();
        Map<Uuid, Map<Integer, String>> owners = new HashMap<>();
        for (JsonNode member : asked.get("members")) {
            String memberId = member.get(0).asText();
            Set<Uuid> subscribed = new LinkedHashSet<>();
            member.get(2).forEach(topic -> subscribed.add(ids.get(topic.asInt())));
            Map<Uuid, Set<Integer>> previous = new HashMap<>();
            for (JsonNode owned : member.get(3)) {
                List<Integer> partitions = new ArrayList<>();
                owned.get(1).forEach(partition -> partitions.add(partition.asInt()));
                Uuid topic = ids.get(owned.get(0).asInt());
                previous.put(topic, new HashSet<>(partitions));
                partitions.forEach(p -> owners.computeIfAbsent(topic, __ -> new HashMap<>()).put(p, memberId));
            }
            Optional<String> instance = Optional.ofNullable(member.get(1).isNull() ? null : member.get(1).asText());
            members.put(memberId, new MemberSubscriptionAndAssignmentImpl(
                Optional.empty(), instance, subscribed, new Assignment(previous)));
        }
        SubscriptionType type =
            asked.get("homogeneous").asBoolean() ? SubscriptionType.HOMOGENEOUS : SubscriptionType.HETEROGENEOUS;
        Question question = new Question(new GroupSpecImpl(Collections.unmodifiableMap(members), type, owners), counts);
        PartitionAssignor assignor = asked.get("assignor").asText().equals("range") ? new RangeAssignor() : new UniformAssignor();
        Map<String, MemberAssignment> answer = assignor.assign(question.spec, question).members();
        ArrayNode out = json.createArrayNode();
        for (JsonNode member : asked.get("members")) {
            ArrayNode owned = out.addArray();
            MemberAssignment target = answer.get(member.get(0).asText());
            if (target == null) continue;
            for (int topic = 0; topic < ids.size(); topic++) {
                Set<Integer> partitions = target.partitions().get(ids.get(topic));
                if (partitions == null || partitions.isEmpty()) continue;
                ArrayNode entry = owned.addArray();
                entry.add(topic);
                ArrayNode list = entry.addArray();
                new TreeSet<>(partitions).forEach(list::add);
            }
        }
        return out;
    }

    static Uuid uuid(String hex) {
        return new Uuid(Long.parseUnsignedLong(hex.substring(0, 16), 16), Long.parseUnsignedLong(hex.substring(16), 16));
    }

    // What follows only measures.

    static void time(int memberCount, int topicCount, int partitionsEach) {
        Random random = new Random(7);
        Map<Uuid, Integer> counts = new HashMap<>();
        for (int i = 0; i < topicCount; i++) {
            counts.put(new Uuid(random.nextLong(), random.nextLong()), partitionsEach);
        }
        List<String> memberIds = new ArrayList<>();
        for (int i = 0; i <= memberCount; i++) {
            memberIds.add(new UUID(random.nextLong(), random.nextLong()).toString());
        }
        List<Uuid> topics = new ArrayList<>(counts.keySet());
        List<Set<Uuid>> same = new ArrayList<>();
        List<Set<Uuid>> mixed = new ArrayList<>();
        for (int i = 0; i <= memberCount; i++) {
            same.add(Set.copyOf(topics));
            // Three kinds of members: all topics, the first two thirds, the last two thirds.
            int from = i % 3 == 2 ? topicCount / 3 : 0;
            int to = i % 3 == 1 ? topicCount - topicCount / 3 : topicCount;
            mixed.add(Set.copyOf(topics.subList(from, to)));
        }
        for (boolean homogeneous : new boolean[] {true, false}) {
            List<Set<Uuid>> subscribed = homogeneous ? same : mixed;
            List<Double> full = new ArrayList<>();
            List<Double> joined = new ArrayList<>();
            long end = System.nanoTime() + 8_000_000_000L;
            while (System.nanoTime() < end || full.size() < 5) {
                Question first = question(memberIds.subList(0, memberCount), subscribed, Map.of(), counts, homogeneous);
                long start = System.nanoTime();
                Map<String, MemberAssignment> answer = new UniformAssignor().assign(first.spec, first).members();
                full.add((System.nanoTime() - start) / 1e6);
                Question second = question(memberIds, subscribed, answer, counts, homogeneous);
                start = System.nanoTime();
                new UniformAssignor().assign(second.spec, second);
                joined.add((System.nanoTime() - start) / 1e6);
            }
            System.out.printf(Locale.ROOT, "{\"homogeneous\": %b, \"full_ms\": %.4f, \"joined_ms\": %.4f}%n",
                homogeneous, best(full), best(joined));
        }
    }

    static Question question(List<String> memberIds, List<Set<Uuid>> subscribed, Map<String, MemberAssignment> previous,
                             Map<Uuid, Integer> counts, boolean homogeneous) {
        Map<String, MemberSubscriptionAndAssignmentImpl> members = new HashMap<>();
        Map<Uuid, Map<Integer, String>> owners = new HashMap<>();
        for (int i = 0; i < memberIds.size(); i++) {
            String memberId = memberIds.get(i);
            Map<Uuid, Set<Integer>> had = new HashMap<>();
            MemberAssignment before = previous.get(memberId);
            if (before != null) {
                before.partitions().forEach((topic, partitions) -> {
                    had.put(topic, new HashSet<>(partitions));
                    partitions.forEach(p -> owners.computeIfAbsent(topic, __ -> new HashMap<>()).put(p, memberId));
                });
            }
            members.put(memberId, new MemberSubscriptionAndAssignmentImpl(
                Optional.empty(), Optional.empty(), subscribed.get(i), new Assignment(had)));
        }
        SubscriptionType type = homogeneous ? SubscriptionType.HOMOGENEOUS : SubscriptionType.HETEROGENEOUS;
        return new Question(new GroupSpecImpl(Collections.unmodifiableMap(members), type, owners), counts);
    }

    static double best(List<Double> values) {
        return Collections.min(values);
    }
}
