import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.net.URI;
import java.net.URLEncoder;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpRequest.BodyPublishers;
import java.net.http.HttpResponse;
import java.net.http.HttpResponse.BodyHandlers;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.regex.Pattern;

/**
 * Start a Muster server from a test, and steer it. Java 17 or newer, no dependencies: copy this file into your project.
 *
 * <pre>
 * try (var muster = Muster.start("--topic", "orders:4")) {   // the command `muster` on the PATH
 *     // bootstrap.servers = muster.bootstrap
 *     muster.await("{\"group\": \"billing\", \"state\": \"Stable\", \"members\": 1}");
 *     muster.expire("billing", "a");                          // what a session timeout would do, now
 *     muster.verify("{\"event\": \"session_expired\", \"group\": \"billing\", \"times\": 1}");
 * }
 * </pre>
 *
 * Objects are JSON, in and out, so that any library may read them. A call that the server refuses throws an
 * AssertionError with its sentence. Where it is the state that is not as expected, as for await and verify, the timelines
 * of the groups follow: what happened to them since the last reset, and why.
 */
public final class Muster implements AutoCloseable {
    private static final Pattern READY = Pattern.compile("^muster ready kafka=(\\S+) .*?admin=(\\S+) .*");
    private static final HttpClient HTTP = HttpClient.newHttpClient();

    /** The address for Kafka clients. */
    public final String bootstrap;
    /** The address of the control API. */
    public final String admin;
    private final Process process;

    /** A running server; the process is null unless {@link #start} has started it. */
    public Muster(String bootstrap, String admin, Process process) {
        this.bootstrap = bootstrap;
        this.admin = admin;
        this.process = process;
    }

    /** Start a server that keeps nothing, on free ports. It ends with this process, however that dies. */
    public static Muster start(String... options) throws IOException {
        var words = new ArrayList<>(List.of("muster", "serve", "--ephemeral", "--exit-with-stdin", "--listen",
            "127.0.0.1:0", "--admin", "127.0.0.1:0", "--log-level", "warning", "--set", "journal.max.bytes=16777216"));
        words.addAll(List.of(options));
        var process = new ProcessBuilder(words).redirectError(ProcessBuilder.Redirect.INHERIT).start();
        var lines = new BufferedReader(new InputStreamReader(process.getInputStream(), StandardCharsets.UTF_8));
        for (String line; (line = lines.readLine()) != null; ) {
            var found = READY.matcher(line);
            if (found.matches()) return new Muster(found.group(1), found.group(2), process);
        }
        throw new IOException("muster has ended before it was ready");
    }

    /** Call the control API: any operation of docs/steering.md. Returns its JSON. */
    public String call(String method, String path, String json) {
        var answer = send(method, path, json);
        if (answer.statusCode() < 400) return answer.body();
        var asks = answer.statusCode() == 408 || answer.statusCode() == 409;
        var timelines = asks ? send("GET", "/timelines", null).body() : "";
        throw new AssertionError(method + " " + path + ": " + answer.body() + timelines);
    }

    private HttpResponse<String> send(String method, String path, String json) {
        var request = HttpRequest.newBuilder(URI.create(admin + "/v1" + path)).method(method,
            json == null ? BodyPublishers.noBody() : BodyPublishers.ofString(json));
        if (System.getenv("MUSTER_TOKEN") != null) request.header("Authorization", "Bearer " + System.getenv("MUSTER_TOKEN"));
        try {
            return HTTP.send(request.build(), BodyHandlers.ofString());
        } catch (IOException | InterruptedException error) {
            throw new IllegalStateException("no answer from " + admin, error);
        }
    }

    /** Create a topic. */
    public void topic(String name, int partitions) {
        call("POST", "/state", "{\"topics\": {" + quote(name) + ": " + partitions + "}}");
    }

    /** Commit an offset for a group without members. */
    public void commit(String group, String topic, int partition, long offset) {
        call("POST", "/state", "{\"offsets\": {" + quote(group) + ": {" + quote(topic) + ": {\"" + partition + "\": " + offset + "}}}}");
    }

    /** Wait: group, state, members, generation, assigned, offsets, exists, timeout_ms. Returns the group. */
    public String await(String json) {
        return call("POST", "/wait", json);
    }

    public String group(String id) {
        return call("GET", "/groups/" + path(id), null);
    }

    /** Return why the group rebalanced, a line for each event. */
    public String timeline(String id) {
        return call("GET", "/groups/" + path(id) + "/timeline?format=text", null);
    }

    /** Let a member's session expire now; by its client id, instance id or member id. */
    public void expire(String group, String member) {
        call("POST", "/groups/" + path(group) + "/members/" + path(member) + "/expire", "{}");
    }

    /** Remove a member, as if it had left. */
    public void kick(String group, String member) {
        call("POST", "/groups/" + path(group) + "/members/" + path(member) + "/kick", "{}");
    }

    /** Move the coordinator's clock; sessions of keepAlive ("none", "connected", "all") are renewed on the way. */
    public String advance(long ms, String keepAlive) {
        return call("POST", "/clock/advance", "{\"ms\": " + ms + ", \"keep_alive\": " + quote(keepAlive) + "}");
    }

    /** Move the clock to the next deadline. */
    public String step() {
        return call("POST", "/clock/step", "{}");
    }

    public void freeze() {
        call("PUT", "/clock", "{\"mode\": \"frozen\"}");
    }

    public void run() {
        call("PUT", "/clock", "{\"mode\": \"real\"}");
    }

    /** Break requests: fault("{\"api\": \"OffsetCommit\"}", "{\"error\": \"NOT_COORDINATOR\"}", 1). */
    public String fault(String on, String action, int count) {
        return call("POST", "/faults", "{\"on\": " + on + ", \"do\": " + action + ", \"count\": " + count + "}");
    }

    /** Throw unless requests and events have happened as expected since the last reset; each is an object. */
    public void verify(String... expect) {
        call("POST", "/verify", "{\"expect\": [" + String.join(", ", expect) + "]}");
    }

    /** Remove every group, topic and fault, and keep out the members of before. */
    public void reset() {
        call("POST", "/reset", "{}");
    }

    /** Stop the server that start has started. */
    @Override
    public void close() {
        if (process == null) return;
        process.destroy();
        try {
            process.waitFor();
        } catch (InterruptedException error) {
            Thread.currentThread().interrupt();
        }
    }

    private static String path(String segment) {
        return URLEncoder.encode(segment, StandardCharsets.UTF_8).replace("+", "%20");
    }

    private static String quote(String text) {
        return "\"" + text.replace("\\", "\\\\").replace("\"", "\\\"") + "\"";
    }
}
