import java.nio.charset.StandardCharsets;
import java.util.Collections;
import java.util.Properties;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.TopicPartition;

/** Reads records with nothing newer than the API of 0.9; prints offset, key and value of each. */
public class OldConsumer {
  public static void main(String[] arguments) {
    Properties settings = new Properties();
    settings.put("bootstrap.servers", arguments[0]);
    settings.put("group.id", "old-java");
    settings.put("enable.auto.commit", "false");
    String bytes = "org.apache.kafka.common.serialization.ByteArrayDeserializer";
    settings.put("key.deserializer", bytes);
    settings.put("value.deserializer", bytes);
    KafkaConsumer<byte[], byte[]> consumer = new KafkaConsumer<>(settings);
    TopicPartition place = new TopicPartition(arguments[1], 0);
    consumer.assign(Collections.singletonList(place));
    consumer.seek(place, Long.parseLong(arguments[2]));
    int left = Integer.parseInt(arguments[3]);
    StringBuilder out = new StringBuilder();
    long deadline = System.currentTimeMillis() + 20000;
    while (left > 0 && System.currentTimeMillis() < deadline) {
      for (ConsumerRecord<byte[], byte[]> found : consumer.poll(1000)) {
        out.append(found.offset()).append('\t').append(text(found.key())).append('\t');
        out.append(text(found.value())).append('\n');
        left--;
      }
    }
    consumer.close();
    System.out.print(out);
  }

  private static String text(byte[] raw) {
    return raw == null ? "null" : new String(raw, StandardCharsets.UTF_8);
  }
}
