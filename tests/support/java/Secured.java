import java.io.BufferedReader;
import java.io.FileReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.List;
import java.util.Properties;
import java.util.concurrent.ExecutionException;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.acl.AclBindingFilter;

/**
 * Deeds at a secured broker, one per line of standard input: a deed, a topic or group, a file of client properties.
 * Answers "OK", or "ERR", the class of the exception and its text.
 */
public final class Secured {
    private static final String BYTES = "org.apache.kafka.common.serialization.ByteArray";

    public static void main(String[] args) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        String line;
        while ((line = in.readLine()) != null) {
            String[] words = line.split(" ");
            Properties given = new Properties();
            try (FileReader file = new FileReader(words[2])) {
                given.load(file);
            }
            try {
                obey(words[0], words[1], given);
                System.out.println("OK");
            } catch (ExecutionException failed) {
                System.out.println("ERR " + oneLine(failed.getCause()));
            } catch (Exception failed) {
                System.out.println("ERR " + oneLine(failed));
            }
            System.out.flush();
        }
    }

    private static void obey(String deed, String name, Properties given) throws Exception {
        switch (deed) {
            case "round-trip" -> roundTrip(name, given);
            case "join" -> join(name, given);
            case "stay" -> stay(name, given);
            case "acls" -> {
                try (Admin admin = Admin.create(given)) {
                    admin.describeAcls(AclBindingFilter.ANY).values().get();
                }
            }
            default -> throw new IllegalArgumentException(deed);
        }
    }

    /** Writes for five seconds, a record at a time. */
    private static void stay(String topic, Properties given) throws Exception {
        given.put("key.serializer", BYTES + "Serializer");
        given.put("value.serializer", BYTES + "Serializer");
        try (KafkaProducer<byte[], byte[]> producer = new KafkaProducer<>(given)) {
            for (int number = 0; number < 20; number++) {
                producer.send(new ProducerRecord<>(topic, 0, null, "stay".getBytes(StandardCharsets.UTF_8))).get();
                Thread.sleep(250);
            }
        }
    }

    private static void join(String group, Properties given) {
        given.put("key.deserializer", BYTES + "Deserializer");
        given.put("value.deserializer", BYTES + "Deserializer");
        given.put("auto.offset.reset", "earliest");
        given.put("group.id", group);
        try (KafkaConsumer<byte[], byte[]> consumer = new KafkaConsumer<>(given)) {
            consumer.subscribe(List.of("secured"));
            readOne(consumer);
        }
    }

    private static void roundTrip(String topic, Properties given) throws Exception {
        given.put("key.serializer", BYTES + "Serializer");
        given.put("value.serializer", BYTES + "Serializer");
        given.put("key.deserializer", BYTES + "Deserializer");
        given.put("value.deserializer", BYTES + "Deserializer");
        given.put("auto.offset.reset", "earliest");
        try (KafkaProducer<byte[], byte[]> producer = new KafkaProducer<>(given)) {
            producer.send(new ProducerRecord<>(topic, 0, null, "hello".getBytes(StandardCharsets.UTF_8))).get();
        }
        try (KafkaConsumer<byte[], byte[]> consumer = new KafkaConsumer<>(given)) {
            consumer.assign(List.of(new TopicPartition(topic, 0)));
            readOne(consumer);
        }
    }

    private static void readOne(KafkaConsumer<byte[], byte[]> consumer) {
        long end = System.nanoTime() + Duration.ofSeconds(30).toNanos();
        while (System.nanoTime() < end) {
            ConsumerRecords<byte[], byte[]> records = consumer.poll(Duration.ofMillis(500));
            if (!records.isEmpty()) {
                return;
            }
        }
        throw new IllegalStateException("nothing to read");
    }

    private static String oneLine(Throwable failed) {
        StringBuilder words = new StringBuilder();
        for (Throwable one = failed; one != null; one = one.getCause()) {
            words.append(one.getClass().getSimpleName()).append(": ").append(one.getMessage()).append(" ");
        }
        return words.toString().replace('\n', ' ');
    }
}
