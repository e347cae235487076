import java.time.Duration;
import java.util.*;
import java.util.stream.*;
import org.apache.kafka.clients.admin.*;
import org.apache.kafka.clients.consumer.*;
import org.apache.kafka.clients.producer.*;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.*;

/** What the checks ask of a client, by kafka-clients. See README.md for the words and for what is printed. */
public class Foreign {
    static final int PARTITIONS = 4;
    static volatile boolean stopping = false;

    public static void main(String[] words) throws Exception {
        switch (words[0]) {
            case "produce" -> produce(words[1], words[2], words[3], Integer.parseInt(words[4]));
            case "member" -> member(words[1], words[2], words[3], words[4], words[5], words[6]);
            case "admin" -> admin(words[1], words[2], words[3]);
            case "copy" -> copy(words[1], words[2], words[3], words[4], Integer.parseInt(words[5]), words[6]);
            case "work" -> work(words[1], words[2], words[3], words[4], words[5]);
            case "topics" -> topics(words[1], Arrays.copyOfRange(words, 2, words.length));
            default -> throw new IllegalArgumentException(words[0]);
        }
    }

    /** Lists topics with further settings, NAME=VALUE; system:NAME=VALUE is a property of the process. */
    static void topics(String bootstrap, String[] settings) throws Exception {
        var props = of(bootstrap, "default.api.timeout.ms", "20000", "request.timeout.ms", "10000", "retries", "3");
        for (var setting : settings) {
            var parts = setting.split("=", 2);
            if (parts[0].startsWith("system:")) System.setProperty(parts[0].substring(7), parts[1]);
            else props.put(parts[0], parts[1]);
        }
        try (var admin = Admin.create(props)) {
            say("{\"topics\": [" + admin.listTopics().names().get().stream().map(name -> '"' + name + '"')
                .collect(Collectors.joining(", ")) + "]}");
        } catch (java.util.concurrent.ExecutionException error) {
            say("{\"error\": \"" + error.getCause().toString().replaceAll("[\\\\\"\n]", "'") + "\"}");
        }
    }

    static void say(String json) {
        System.out.println(json);
        System.out.flush();
    }

    static Properties of(String bootstrap, String... more) {
        var props = new Properties();
        props.put("bootstrap.servers", bootstrap);
        for (int at = 0; at < more.length; at += 2) props.put(more[at], more[at + 1]);
        for (var side : List.of("key", "value")) {
            props.put(side + ".serializer", "org.apache.kafka.common.serialization.StringSerializer");
            props.put(side + ".deserializer", "org.apache.kafka.common.serialization.StringDeserializer");
        }
        return props;
    }

    static void produce(String bootstrap, String topic, String codec, int count) throws Exception {
        try (var producer = new KafkaProducer<String, String>(of(bootstrap, "compression.type", codec, "linger.ms", "50"))) {
            var sent = new ArrayList<java.util.concurrent.Future<RecordMetadata>>();
            for (int n = 0; n < count; n++)
                sent.add(producer.send(new ProducerRecord<>(topic, n % PARTITIONS, "key", codec + "-" + n)));
            for (var one : sent) one.get();
        }
    }

    static KafkaConsumer<String, String> consumer(String bootstrap, String group, String protocol, String instance, String sessionMs) {
        var props = of(bootstrap, "group.id", group, "group.protocol", protocol, "auto.offset.reset", "earliest",
            "enable.auto.commit", "false", "reconnect.backoff.max.ms", "500", "metadata.max.age.ms", "2000");
        if (!instance.isEmpty()) props.put("group.instance.id", instance);
        if (protocol.equals("classic")) {
            props.put("session.timeout.ms", sessionMs);
            props.put("heartbeat.interval.ms", "500");
        }
        return new KafkaConsumer<>(props);
    }

    static void member(String bootstrap, String group, String topic, String protocol, String instance, String sessionMs) throws Exception {
        stopAtTheEndOfInput();
        try (var consumer = consumer(bootstrap, group, protocol, instance, sessionMs)) {
            consumer.subscribe(List.of(topic));
            Set<Integer> told = null;
            while (!stopping) {
                try {
                    var records = consumer.poll(Duration.ofMillis(100));
                    var owned = consumer.assignment().stream().map(TopicPartition::partition).collect(Collectors.toCollection(TreeSet::new));
                    if (!owned.equals(told)) say("{\"assigned\":" + owned + "}");
                    told = owned;
                    if (records.isEmpty()) continue;
                    var got = new ArrayList<String>();
                    var ends = new TreeMap<Integer, Long>();
                    for (var one : records) {
                        got.add("[" + one.partition() + "," + one.offset() + ",\"" + one.value() + "\"]");
                        ends.put(one.partition(), one.offset() + 1);
                    }
                    say("{\"got\":" + got + "}");
                    consumer.commitSync();
                    say("{\"committed\":{" + ends.entrySet().stream().map(e -> "\"" + e.getKey() + "\":" + e.getValue()).collect(Collectors.joining(",")) + "}}");
                } catch (RetriableException | CommitFailedException | RebalanceInProgressException error) {
                    say("{\"error\":\"" + error.getClass().getSimpleName() + "\"}");
                }
            }
        }
    }

    static void stopAtTheEndOfInput() {
        var end = new Thread(() -> {
            try { System.in.readAllBytes(); } catch (java.io.IOException gone) { }
            stopping = true;
        });
        end.setDaemon(true);
        end.start();
    }

    static void admin(String bootstrap, String group, String topic) throws Exception {
        try (var admin = Admin.create(of(bootstrap))) {
            var listed = admin.listGroups(ListGroupsOptions.forConsumerGroups()).all().get().stream().anyMatch(one -> one.groupId().equals(group));
            var described = admin.describeConsumerGroups(List.of(group)).all().get().get(group);
            var zero = new TopicPartition(topic, 0);
            admin.alterConsumerGroupOffsets(group, Map.of(zero, new OffsetAndMetadata(1))).all().get();
            var reset = admin.listConsumerGroupOffsets(group).partitionsToOffsetAndMetadata().get().get(zero).offset();
            admin.deleteConsumerGroupOffsets(group, Set.of(zero)).all().get();
            var forgotten = admin.listConsumerGroupOffsets(group).partitionsToOffsetAndMetadata().get().get(zero) == null;
            admin.deleteConsumerGroups(List.of(group)).all().get();
            var left = admin.listGroups(ListGroupsOptions.forConsumerGroups()).all().get().stream().anyMatch(one -> one.groupId().equals(group));
            say("{\"listed\":" + listed + ",\"state\":\"" + described.groupState() + "\",\"reset\":" + reset
                + ",\"forgotten\":" + forgotten + ",\"deleted\":" + !left + "}");
        }
    }

    static KafkaConsumer<String, String> copying(String bootstrap, String group, String protocol) {
        var props = of(bootstrap, "group.id", group, "group.protocol", protocol, "auto.offset.reset", "earliest",
            "enable.auto.commit", "false", "isolation.level", "read_committed", "max.poll.records", "20");
        if (protocol.equals("classic")) props.put("session.timeout.ms", "6000");
        return new KafkaConsumer<>(props);
    }

    /** Copy until standard input ends. What fails is aborted and read again; who is fenced dies. */
    static void work(String bootstrap, String group, String from, String to, String protocol) throws Exception {
        stopAtTheEndOfInput();
        try (var consumer = copying(bootstrap, group, protocol);
             var producer = new KafkaProducer<String, String>(of(bootstrap, "transactional.id", group))) {
            producer.initTransactions();
            consumer.subscribe(List.of(from));
            while (!stopping) {
                var records = consumer.poll(Duration.ofMillis(200));
                if (records.isEmpty()) continue;
                try {
                    producer.beginTransaction();
                    for (var one : records) producer.send(new ProducerRecord<>(to, one.partition(), one.key(), one.value()));
                    producer.sendOffsetsToTransaction(records.nextOffsets(), consumer.groupMetadata());
                    producer.commitTransaction();
                } catch (ProducerFencedException | InvalidProducerEpochException fenced) {
                    throw fenced;
                } catch (org.apache.kafka.common.KafkaException failed) {
                    say("{\"error\":\"" + failed.getClass().getSimpleName() + "\"}");
                    producer.abortTransaction();
                    consumer.committed(consumer.assignment()).forEach(
                        (where, offset) -> consumer.seek(where, offset == null ? 0 : offset.offset()));
                }
            }
        }
    }

    /** Copy `count` records, each batch in a transaction with its offsets; after each, one more that is aborted. */
    static void copy(String bootstrap, String group, String from, String to, int count, String protocol) throws Exception {
        try (var consumer = copying(bootstrap, group, protocol);
             var producer = new KafkaProducer<String, String>(of(bootstrap, "transactional.id", group))) {
            producer.initTransactions();
            consumer.subscribe(List.of(from));
            for (int done = 0; done < count; ) {
                var records = consumer.poll(Duration.ofMillis(200));
                if (records.isEmpty()) continue;
                producer.beginTransaction();
                for (var one : records) producer.send(new ProducerRecord<>(to, one.partition(), one.key(), one.value()));
                producer.sendOffsetsToTransaction(records.nextOffsets(), consumer.groupMetadata());
                producer.commitTransaction();
                done += records.count();
                producer.beginTransaction();
                producer.send(new ProducerRecord<>(to, 0, "key", "aborted"));
                producer.flush();
                producer.abortTransaction();
            }
        }
    }
}
