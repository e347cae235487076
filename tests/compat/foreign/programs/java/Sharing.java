import java.time.Duration;
import java.util.*;
import org.apache.kafka.clients.consumer.*;
import org.apache.kafka.common.serialization.StringDeserializer;

/**
 * A member of a share group: `BOOTSTRAP GROUP TOPIC MODE`.
 *
 * <p>`implicit` accepts what it has polled with the next poll. `explicit` accepts each record by itself, but releases those
 * whose value begins with `poison` or, at their first delivery, with `retry`, and rejects those with `reject`. `hold`
 * acknowledges nothing. `renew` renews the locks of what it has each half second, and accepts it after three seconds.
 * It prints `{"got": [0, 17, "value", 1]}` for each record, with its delivery count, `{"error": "..."}` for what it goes
 * on after, and is closed when its standard input ends.
 */
public class Sharing {
    static final long RENEW_MS = 500, RENEWS_FOR_MS = 3_000;

    public static void main(String[] words) throws Exception {
        var props = new Properties();
        String mode = words[3];
        props.put("bootstrap.servers", words[0]);
        props.put("group.id", words[1]);
        props.put("share.acknowledgement.mode", mode.equals("implicit") ? "implicit" : "explicit");
        props.put("reconnect.backoff.max.ms", "500");
        props.put("metadata.max.age.ms", "1000");
        var text = new StringDeserializer();
        try (var consumer = new KafkaShareConsumer<>(props, text, text)) {
            consumer.subscribe(List.of(words[2]));
            consumer.setAcknowledgementCommitCallback((offsets, error) -> {
                if (error != null) say("{\"error\": \"" + error.toString().replaceAll("[\\\\\"\n]", "'") + "\"}");
            });
            while (!atEnd) step(consumer, mode);
        }
    }

    static void step(KafkaShareConsumer<String, String> consumer, String mode) throws Exception {
        ConsumerRecords<String, String> found;
        try {
            found = consumer.poll(Duration.ofMillis(200));
        } catch (IllegalStateException held) {  // an explicit consumer must acknowledge before it polls again
            Thread.sleep(100);
            return;
        }
        for (var one : found) {
            int count = one.deliveryCount().orElse((short) 0);
            say("{\"got\": [" + one.partition() + ", " + one.offset() + ", \"" + one.value() + "\", " + count + "]}");
            if (mode.equals("explicit")) consumer.acknowledge(one, verdict(one.value(), count));
        }
        if (mode.equals("explicit") && !found.isEmpty()) consumer.commitSync();
        if (mode.equals("renew") && !found.isEmpty()) renew(consumer, found);
    }

    static AcknowledgeType verdict(String value, int count) {
        if (value.startsWith("poison") || value.startsWith("retry") && count == 1) return AcknowledgeType.RELEASE;
        return value.startsWith("reject") ? AcknowledgeType.REJECT : AcknowledgeType.ACCEPT;
    }

    static void renew(KafkaShareConsumer<String, String> consumer, ConsumerRecords<String, String> found) throws Exception {
        for (long spent = 0; spent < RENEWS_FOR_MS; spent += RENEW_MS) {
            for (var one : found) consumer.acknowledge(one, AcknowledgeType.RENEW);
            consumer.commitSync();
            Thread.sleep(RENEW_MS);
            found = consumer.poll(Duration.ofMillis(200));  // what was renewed comes once more
        }
        for (var one : found) consumer.acknowledge(one, AcknowledgeType.ACCEPT);
        consumer.commitSync();
        say("{\"renewed\": " + found.count() + "}");
    }

    static volatile boolean atEnd;

    static {
        var reader = new Thread(() -> {
            try {
                while (System.in.read() >= 0) { }
            } catch (java.io.IOException gone) {
                // the other side has gone
            }
            atEnd = true;
        });
        reader.setDaemon(true);
        reader.start();
    }

    static synchronized void say(String line) {
        System.out.println(line);
        System.out.flush();
    }
}
