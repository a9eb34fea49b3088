// Spring for Apache Kafka: a listener container answers every record of `asked` in `answered`,
// until standard input ends. Arguments: bootstrap servers.

import java.util.Map;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;
import org.springframework.kafka.core.DefaultKafkaConsumerFactory;
import org.springframework.kafka.core.DefaultKafkaProducerFactory;
import org.springframework.kafka.core.KafkaTemplate;
import org.springframework.kafka.listener.ConcurrentMessageListenerContainer;
import org.springframework.kafka.listener.ContainerProperties;
import org.springframework.kafka.listener.MessageListener;

public class SpringEcho {
    public static void main(String[] arguments) throws Exception {
        var producers = new DefaultKafkaProducerFactory<String, String>(
            Map.of("bootstrap.servers", arguments[0]), new StringSerializer(), new StringSerializer());
        var template = new KafkaTemplate<>(producers);
        var consumers = new DefaultKafkaConsumerFactory<String, String>(
            Map.of("bootstrap.servers", arguments[0], "auto.offset.reset", "earliest"),
            new StringDeserializer(), new StringDeserializer());
        var properties = new ContainerProperties("asked");
        properties.setGroupId("spring");
        properties.setMessageListener((MessageListener<String, String>) record ->
            template.send("answered", record.key(), "re: " + record.value()).join());
        var container = new ConcurrentMessageListenerContainer<>(consumers, properties);
        container.setConcurrency(2);
        container.start();
        while (System.in.read() >= 0) {}
        container.stop();
        producers.destroy();
    }
}
