import java.io.Reader;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Properties;

import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;

/** The application of examples/clients/streams.yaml: it reads the topic of its argument and has no state. */
public class Totals {
    public static void main(String[] arguments) throws Exception {
        Properties properties = new Properties();
        properties.put(StreamsConfig.APPLICATION_ID_CONFIG, "totals");
        properties.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, System.getenv("BOOTSTRAP_SERVERS"));
        properties.put(StreamsConfig.DEFAULT_KEY_SERDE_CLASS_CONFIG, Serdes.ByteArraySerde.class);
        properties.put(StreamsConfig.DEFAULT_VALUE_SERDE_CLASS_CONFIG, Serdes.ByteArraySerde.class);
        try (Reader file = Files.newBufferedReader(Path.of(System.getenv("STREAMS_PROPERTIES")))) {
            properties.load(file);
        }
        StreamsBuilder builder = new StreamsBuilder();
        builder.stream(arguments[0]).foreach((key, value) -> { });
        new KafkaStreams(builder.build(), properties).start();
    }
}
