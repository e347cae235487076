import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.ByteBuffer;
import java.util.HexFormat;
import org.apache.kafka.common.message.RequestHeaderData;
import org.apache.kafka.common.message.ResponseHeaderData;
import org.apache.kafka.common.protocol.ApiKeys;
import org.apache.kafka.common.protocol.ApiMessage;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.ObjectSerializationCache;

/** Lines of `message TAB key TAB version TAB values as Kafka's JSON` in; the frame without its size, in hex, out. */
public class Serialize {
    public static void main(String[] arguments) throws Exception {
        ObjectMapper mapper = new ObjectMapper();
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, "UTF-8"));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String[] parts = line.split("\t", 4);
            short key = Short.parseShort(parts[1]);
            short version = Short.parseShort(parts[2]);
            Class<?> converter = Class.forName("org.apache.kafka.common.message." + parts[0] + "DataJsonConverter");
            ApiMessage body = (ApiMessage) converter
                .getMethod("read", JsonNode.class, short.class)
                .invoke(null, mapper.readTree(parts[3]), version);
            String header = parts[0].endsWith("Request") ? requestHeader(key, version) : responseHeader(key, version);
            System.out.println(header + hex(body, version));
        }
    }

    static String requestHeader(short key, short version) {
        RequestHeaderData header = new RequestHeaderData()
            .setRequestApiKey(key)
            .setRequestApiVersion(version)
            .setCorrelationId(7)
            .setClientId("java");
        return hex(header, ApiKeys.forId(key).requestHeaderVersion(version));
    }

    static String responseHeader(short key, short version) {
        return hex(new ResponseHeaderData().setCorrelationId(7), ApiKeys.forId(key).responseHeaderVersion(version));
    }

    static String hex(ApiMessage message, short version) {
        ObjectSerializationCache cache = new ObjectSerializationCache();
        ByteBuffer buffer = ByteBuffer.allocate(message.size(cache, version));
        message.write(new ByteBufferAccessor(buffer), cache, version);
        return HexFormat.of().formatHex(buffer.array());
    }
}
