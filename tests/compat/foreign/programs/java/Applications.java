import java.time.Duration;
import java.util.*;
import java.util.stream.*;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.*;
import org.apache.kafka.streams.kstream.*;
import org.apache.kafka.streams.state.KeyValueStore;

/**
 * An instance of a Kafka Streams application: `TOPOLOGY BOOTSTRAP APPLICATION PROTOCOL STANDBYS DIRECTORY`.
 *
 * <p>`count` counts the values of the topic `words` in a store, behind a repartition topic of four partitions, and writes
 * the counts to `counts`. `join` joins `left` and `right` by key, and writes one record a pair to `pairs`. It processes
 * exactly once. It prints `{"tasks": {"active": ["0_0"], "standby": []}}` when its tasks have changed,
 * `{"state": "RUNNING"}` when its state has, and is closed when its standard input ends.
 */
public class Applications {
    public static void main(String[] words) throws Exception {
        var props = new Properties();
        props.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, words[1]);
        props.put(StreamsConfig.APPLICATION_ID_CONFIG, words[2]);
        props.put(StreamsConfig.GROUP_PROTOCOL_CONFIG, words[3]);
        props.put(StreamsConfig.STATE_DIR_CONFIG, words[5]);
        props.put(StreamsConfig.PROCESSING_GUARANTEE_CONFIG, StreamsConfig.EXACTLY_ONCE_V2);
        props.put(StreamsConfig.COMMIT_INTERVAL_MS_CONFIG, "100");
        props.put(StreamsConfig.STATESTORE_CACHE_MAX_BYTES_CONFIG, "0");
        props.put(StreamsConfig.DEFAULT_KEY_SERDE_CLASS_CONFIG, Serdes.StringSerde.class);
        props.put(StreamsConfig.DEFAULT_VALUE_SERDE_CLASS_CONFIG, Serdes.StringSerde.class);
        props.put("metadata.max.age.ms", "1000");
        props.put("metrics.recording.level", "DEBUG");
        props.put("producer.transaction.timeout.ms", "5000");
        props.put("reconnect.backoff.max.ms", "500");
        props.put("auto.offset.reset", "earliest");
        if (words[3].equals("classic")) {  // a broker's settings say the same to the other protocol
            props.put(StreamsConfig.NUM_STANDBY_REPLICAS_CONFIG, words[4]);
            props.put("session.timeout.ms", "6000");
            props.put("heartbeat.interval.ms", "500");
            props.put("probing.rebalance.interval.ms", "60000");
            props.put("acceptable.recovery.lag", "1000000");
        }
        var builder = new StreamsBuilder();
        if (words[0].equals("count")) count(builder);
        else join(builder);
        var streams = new KafkaStreams(builder.build(), props);
        streams.setUncaughtExceptionHandler(error -> {
            say("{\"error\": \"" + error.toString().replaceAll("[\\\\\"\n]", "'") + "\"}");
            return org.apache.kafka.streams.errors.StreamsUncaughtExceptionHandler.StreamThreadExceptionResponse.REPLACE_THREAD;
        });
        streams.setStateListener((after, before) -> say("{\"state\": \"" + after + "\"}"));
        streams.start();
        String told = "";
        while (!ended()) {
            String tasks = tasks(streams);
            if (!tasks.equals(told)) say(told = tasks);
            Thread.sleep(100);
        }
        streams.close(Duration.ofSeconds(20));
    }

    static void count(StreamsBuilder builder) {
        builder.<String, String>stream("words")
            .selectKey((key, word) -> word)
            .repartition(Repartitioned.<String, String>as("again").withNumberOfPartitions(4))
            .groupByKey()
            .count(Materialized.<String, Long, KeyValueStore<Bytes, byte[]>>as("store"))
            .toStream()
            .mapValues(Object::toString)
            .to("counts");
    }

    static void join(StreamsBuilder builder) {
        var left = builder.<String, String>stream("left");
        var right = builder.<String, String>stream("right");
        left.join(right, (a, b) -> a + "+" + b, JoinWindows.ofTimeDifferenceWithNoGrace(Duration.ofDays(1))).to("pairs");
    }

    /** By the metrics of its tasks: what the threads say of their tasks is of when they last began to run. */
    static String tasks(KafkaStreams streams) {
        return "{\"tasks\": {\"active\": " + list(named(streams, "active-process-ratio"))
            + ", \"standby\": " + list(named(streams, "update-total")) + "}}";
    }

    static Set<String> named(KafkaStreams streams, String metric) {
        return streams.metrics().keySet().stream()
            .filter(one -> one.group().equals("stream-task-metrics") && one.name().equals(metric))
            .map(one -> one.tags().get("task-id"))
            .collect(Collectors.toCollection(TreeSet::new));
    }

    static String list(Set<String> names) {
        return names.stream().map(name -> '"' + name + '"').collect(Collectors.joining(", ", "[", "]"));
    }

    static Thread reader;
    static volatile boolean atEnd = false;

    static boolean ended() {
        if (reader == null) {
            reader = new Thread(() -> {
                try {
                    while (System.in.read() >= 0) { }
                } catch (java.io.IOException gone) {
                    // the driver is gone too
                }
                atEnd = true;
            });
            reader.setDaemon(true);
            reader.start();
        }
        return atEnd;
    }

    static synchronized void say(String json) {
        System.out.println(json);
        System.out.flush();
    }
}
