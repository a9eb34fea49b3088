// Kafka Streams: counts words of `lines` into `counts`, until standard input ends.
// Arguments: bootstrap servers, folder for state, and `exactly-once` if every count is told once.

import java.util.Arrays;
import java.util.Locale;
import java.util.Properties;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.kstream.Produced;

public class StreamsCount {
    public static void main(String[] arguments) throws Exception {
        Properties settings = new Properties();
        settings.put(StreamsConfig.APPLICATION_ID_CONFIG, "word-count");
        settings.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, arguments[0]);
        settings.put(StreamsConfig.STATE_DIR_CONFIG, arguments[1]);
        settings.put(StreamsConfig.DEFAULT_KEY_SERDE_CLASS_CONFIG, Serdes.StringSerde.class);
        settings.put(StreamsConfig.DEFAULT_VALUE_SERDE_CLASS_CONFIG, Serdes.StringSerde.class);
        if (arguments.length > 2 && arguments[2].equals("exactly-once")) {
            settings.put(StreamsConfig.PROCESSING_GUARANTEE_CONFIG, StreamsConfig.EXACTLY_ONCE_V2);
            settings.put(StreamsConfig.COMMIT_INTERVAL_MS_CONFIG, 100);
            settings.put(StreamsConfig.STATESTORE_CACHE_MAX_BYTES_CONFIG, 0);
            settings.put(StreamsConfig.consumerPrefix("session.timeout.ms"), 6000);
            settings.put(StreamsConfig.consumerPrefix("heartbeat.interval.ms"), 1000);
        }

        StreamsBuilder builder = new StreamsBuilder();
        builder.<String, String>stream("lines")
            .flatMapValues(line -> Arrays.asList(line.toLowerCase(Locale.ROOT).split(" ")))
            .groupBy((key, word) -> word)
            .count()
            .toStream()
            .mapValues(count -> Long.toString(count))
            .to("counts", Produced.with(Serdes.String(), Serdes.String()));

        KafkaStreams streams = new KafkaStreams(builder.build(), settings);
        streams.setStateListener((now, before) -> System.out.println(now));
        streams.setUncaughtExceptionHandler(error -> {
            error.printStackTrace(System.out);
            return org.apache.kafka.streams.errors.StreamsUncaughtExceptionHandler
                .StreamThreadExceptionResponse.SHUTDOWN_CLIENT;
        });
        streams.start();
        while (System.in.read() >= 0) {}
        streams.close();
        System.out.println("CLOSED");
    }
}
