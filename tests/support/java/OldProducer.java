import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.Properties;
import java.util.concurrent.Future;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;

/** Writes numbered records with nothing newer than the API of 0.8.2; prints the offset of each. */
public class OldProducer {
  public static void main(String[] arguments) throws Exception {
    Properties settings = new Properties();
    settings.put("bootstrap.servers", arguments[0]);
    settings.put("compression.type", arguments[2]);
    settings.put("acks", "all");
    settings.put("linger.ms", "50");
    String bytes = "org.apache.kafka.common.serialization.ByteArraySerializer";
    settings.put("key.serializer", bytes);
    settings.put("value.serializer", bytes);
    KafkaProducer<byte[], byte[]> producer = new KafkaProducer<>(settings);
    List<Future<RecordMetadata>> answers = new ArrayList<>();
    for (int n = 0; n < Integer.parseInt(arguments[3]); n++) {
      byte[] key = n % 3 == 0 ? null : ("key " + n).getBytes(StandardCharsets.UTF_8);
      byte[] value = ("value number " + n).getBytes(StandardCharsets.UTF_8);
      answers.add(producer.send(new ProducerRecord<>(arguments[1], 0, key, value)));
    }
    StringBuilder out = new StringBuilder();
    for (Future<RecordMetadata> answer : answers) {
      out.append(answer.get().offset()).append('\n');
    }
    producer.close();
    System.out.print(out);
  }
}
