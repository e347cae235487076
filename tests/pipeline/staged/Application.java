import java.nio.file.Files;
import java.time.Duration;
import java.util.Properties;
import java.util.concurrent.CountDownLatch;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.kstream.Consumed;

/** An instance of an application whose group has the streams protocol: `BOOTSTRAP GROUP TOPIC`. On SIGTERM it closes. */
public class Application {
    public static void main(String[] words) throws Exception {
        var settings = new Properties();
        settings.put("bootstrap.servers", words[0]);
        settings.put("application.id", words[1]);
        settings.put("group.protocol", "streams");
        settings.put("commit.interval.ms", 500);
        settings.put("state.dir", Files.createTempDirectory("streams").toString());
        var builder = new StreamsBuilder();
        builder.stream(words[2], Consumed.with(Serdes.String(), Serdes.String())).foreach((key, value) -> {});
        var streams = new KafkaStreams(builder.build(), settings);
        var isOver = new CountDownLatch(1);
        Runtime.getRuntime().addShutdownHook(new Thread(() -> {
            streams.close(Duration.ofSeconds(20));
            isOver.countDown();
        }));
        streams.start();
        isOver.await();
    }
}
