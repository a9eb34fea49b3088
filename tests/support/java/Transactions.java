import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.ProducerFencedException;

/**
 * Transactions by the Java client with its default settings.
 *
 * copy bootstrap id from to count   copies records; every third transaction is aborted and done again
 * fence bootstrap id topic          a second instance fences the first
 */
public final class Transactions {
    private static final String BYTES = "org.apache.kafka.common.serialization.String";
    private static final int AT_ONCE = 10;

    private Transactions() {}

    public static void main(String[] words) throws Exception {
        if (words[0].equals("copy")) {
            copy(words[1], words[2], words[3], words[4], Integer.parseInt(words[5]));
        } else {
            fence(words[1], words[2], words[3]);
        }
    }

    private static void copy(String bootstrap, String id, String from, String to, int count) {
        int done = 0;
        int turn = 0;
        try (KafkaProducer<String, String> producer = producer(bootstrap, id);
                KafkaConsumer<String, String> consumer = consumer(bootstrap, id)) {
            producer.initTransactions();
            consumer.subscribe(List.of(from));
            while (done < count) {
                ConsumerRecords<String, String> some = consumer.poll(Duration.ofSeconds(1));
                if (some.isEmpty()) {
                    continue;
                }
                Map<TopicPartition, OffsetAndMetadata> offsets = new HashMap<>();
                producer.beginTransaction();
                List<String> values = new ArrayList<>();
                for (ConsumerRecord<String, String> one : some) {
                    producer.send(new ProducerRecord<>(to, one.partition(), null, "re: " + one.value()));
                    values.add(one.value());
                    offsets.put(new TopicPartition(from, one.partition()), new OffsetAndMetadata(one.offset() + 1));
                }
                producer.sendOffsetsToTransaction(offsets, consumer.groupMetadata());
                if (++turn % 3 == 1) {
                    producer.abortTransaction();
                    rewind(consumer, some);
                } else {
                    producer.commitTransaction();
                    done += values.size();
                }
            }
        }
        System.out.println("copied " + done + " in " + turn);
    }

    private static void rewind(KafkaConsumer<String, String> consumer, ConsumerRecords<String, String> some) {
        for (TopicPartition place : some.partitions()) {
            consumer.seek(place, some.records(place).get(0).offset());
        }
    }

    private static void fence(String bootstrap, String id, String topic) throws Exception {
        try (KafkaProducer<String, String> one = producer(bootstrap, id);
                KafkaProducer<String, String> two = producer(bootstrap, id)) {
            one.initTransactions();
            one.beginTransaction();
            one.send(new ProducerRecord<>(topic, 0, null, "of a zombie")).get();
            two.initTransactions();
            try {
                one.commitTransaction();
                System.out.println("not fenced");
            } catch (ProducerFencedException fenced) {
                System.out.println("fenced");
            } catch (KafkaException other) {
                System.out.println(other);
            }
            two.beginTransaction();
            two.send(new ProducerRecord<>(topic, 0, null, "of the second")).get();
            two.commitTransaction();
        }
    }

    private static KafkaProducer<String, String> producer(String bootstrap, String id) {
        Properties properties = new Properties();
        properties.put("bootstrap.servers", bootstrap);
        properties.put("transactional.id", id);
        properties.put("key.serializer", BYTES + "Serializer");
        properties.put("value.serializer", BYTES + "Serializer");
        return new KafkaProducer<>(properties);
    }

    private static KafkaConsumer<String, String> consumer(String bootstrap, String group) {
        Properties properties = new Properties();
        properties.put("bootstrap.servers", bootstrap);
        properties.put("group.id", group);
        properties.put("auto.offset.reset", "earliest");
        properties.put("enable.auto.commit", "false");
        properties.put("isolation.level", "read_committed");
        properties.put("max.poll.records", Integer.toString(AT_ONCE));
        properties.put("key.deserializer", BYTES + "Deserializer");
        properties.put("value.deserializer", BYTES + "Deserializer");
        return new KafkaConsumer<>(properties);
    }
}
