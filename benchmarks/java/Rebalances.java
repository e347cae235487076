import java.nio.file.Files;
import java.time.Duration;
import java.util.*;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.function.BooleanSupplier;
import org.apache.kafka.clients.consumer.KafkaShareConsumer;
import org.apache.kafka.clients.producer.*;
import org.apache.kafka.common.serialization.*;
import org.apache.kafka.streams.*;
import org.apache.kafka.streams.kstream.Consumed;

/**
 * How long a second member waits: `BOOTSTRAP share|streams TOPIC ROUNDS`.
 *
 * <p>In each round a member of a new group works; then another one starts. It prints `joined SECONDS`, from the call that
 * makes the second member to its first record (share) or its first running task (streams), and for streams `left SECONDS`,
 * from its close to the time when the first one has all tasks again.
 */
public class Rebalances {
    static final int TASKS = 4;
    static final long LIMIT_MS = 60_000;

    public static void main(String[] words) throws Exception {
        try (var producer = new KafkaProducer<>(Map.<String, Object>of("bootstrap.servers", words[0]),
                new StringSerializer(), new StringSerializer())) {
            var atEnd = new AtomicBoolean();
            var feeding = new Thread(() -> feed(producer, words[2], atEnd));
            feeding.start();
            for (int round = 0; round < Integer.parseInt(words[3]); round++) {
                if (words[1].equals("share")) share(words[0], words[2], "share-" + round);
                else streams(words[0], words[2], "streams-" + round);
            }
            atEnd.set(true);
            feeding.join();
        }
    }

    /** Write a record to each partition every few milliseconds. */
    static void feed(Producer<String, String> producer, String topic, AtomicBoolean atEnd) {
        while (!atEnd.get()) {
            for (int partition = 0; partition < TASKS; partition++) producer.send(new ProducerRecord<>(topic, partition, null, "x"));
            pause();
        }
    }

    static void share(String bootstrap, String topic, String group) throws Exception {
        var atEnd = new AtomicBoolean();
        var works = new AtomicBoolean();
        var first = new Thread(() -> consume(bootstrap, topic, group, atEnd, works));
        first.start();
        waitUntil(works::get);
        long began = System.nanoTime();
        consume(bootstrap, topic, group, new AtomicBoolean(true), new AtomicBoolean());
        say("joined", began);
        atEnd.set(true);
        first.join();
    }

    /** Be a member until there is a record, and longer until the end. */
    static void consume(String bootstrap, String topic, String group, AtomicBoolean atEnd, AtomicBoolean works) {
        var settings = Map.<String, Object>of("bootstrap.servers", bootstrap, "group.id", group);
        try (var consumer = new KafkaShareConsumer<>(settings, new StringDeserializer(), new StringDeserializer())) {
            consumer.subscribe(List.of(topic));
            while (!atEnd.get() || !works.get()) {
                if (!consumer.poll(Duration.ofMillis(20)).isEmpty()) works.set(true);
            }
        }
    }

    static void streams(String bootstrap, String topic, String id) throws Exception {
        try (var first = start(bootstrap, topic, id)) {
            waitUntil(() -> tasks(first) == TASKS);
            long began = System.nanoTime();
            var second = start(bootstrap, topic, id);
            waitUntil(() -> tasks(second) > 0);
            say("joined", began);
            waitUntil(() -> tasks(first) == TASKS / 2);
            began = System.nanoTime();
            second.close();
            waitUntil(() -> tasks(first) == TASKS);
            say("left", began);
        }
    }

    static KafkaStreams start(String bootstrap, String topic, String id) throws Exception {
        var settings = new Properties();
        settings.put("bootstrap.servers", bootstrap);
        settings.put("application.id", id);
        settings.put("group.protocol", "streams");
        settings.put("commit.interval.ms", 100);
        settings.put("state.dir", Files.createTempDirectory("streams").toString());
        var builder = new StreamsBuilder();
        builder.stream(topic, Consumed.with(Serdes.String(), Serdes.String())).foreach((key, value) -> {});
        var streams = new KafkaStreams(builder.build(), settings);
        streams.start();
        return streams;
    }

    static int tasks(KafkaStreams streams) {
        if (streams.state() != KafkaStreams.State.RUNNING) return 0;
        return streams.metadataForLocalThreads().stream().mapToInt(thread -> thread.activeTasks().size()).sum();
    }

    static void waitUntil(BooleanSupplier isSo) {
        long end = System.currentTimeMillis() + LIMIT_MS;
        while (!isSo.getAsBoolean()) {
            if (System.currentTimeMillis() > end) throw new IllegalStateException("it did not happen");
            pause();
        }
    }

    static void pause() {
        try {
            Thread.sleep(5);
        } catch (InterruptedException error) {
            throw new IllegalStateException(error);
        }
    }

    static void say(String what, long began) {
        System.out.printf("%s %.3f%n", what, (System.nanoTime() - began) / 1e9);
    }
}
