import java.time.Duration;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Properties;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.consumer.AcknowledgeType;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaShareConsumer;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicIdPartition;
import org.apache.kafka.common.config.ConfigResource;

/**
 * A member of a share group that decides by a record's value: "release..." is released at its first
 * delivery, "reject..." is rejected, all else is accepted. Prints value and delivery count of each
 * record after its decision was acknowledged, and ends after so many records.
 */
public class ShareMember {
  public static void main(String[] arguments) throws Exception {
    String group = arguments[1];
    Properties settings = new Properties();
    settings.put("bootstrap.servers", arguments[0]);
    try (Admin admin = Admin.create(settings)) {
      ConfigResource resource = new ConfigResource(ConfigResource.Type.GROUP, group);
      AlterConfigOp earliest =
          new AlterConfigOp(
              new ConfigEntry("share.auto.offset.reset", "earliest"), AlterConfigOp.OpType.SET);
      admin.incrementalAlterConfigs(Map.of(resource, List.of(earliest))).all().get();
    }
    settings.put("group.id", group);
    settings.put("share.acknowledgement.mode", "explicit");
    String text = "org.apache.kafka.common.serialization.StringDeserializer";
    settings.put("key.deserializer", text);
    settings.put("value.deserializer", text);
    int left = Integer.parseInt(arguments[3]);
    try (KafkaShareConsumer<String, String> consumer = new KafkaShareConsumer<>(settings)) {
      consumer.subscribe(Collections.singletonList(arguments[2]));
      while (left > 0) {
        StringBuilder told = new StringBuilder();
        for (ConsumerRecord<String, String> record : consumer.poll(Duration.ofMillis(500))) {
          int count = record.deliveryCount().get();
          consumer.acknowledge(record, decide(record.value(), count));
          told.append(record.value()).append(' ').append(count).append('\n');
          left--;
        }
        Map<TopicIdPartition, Optional<KafkaException>> results = consumer.commitSync();
        for (Optional<KafkaException> problem : results.values()) {
          if (problem.isPresent()) throw problem.get();
        }
        System.out.print(told);
        System.out.flush();
      }
    }
  }

  private static AcknowledgeType decide(String value, int count) {
    if (value.startsWith("reject")) return AcknowledgeType.REJECT;
    boolean again = value.startsWith("release") && count == 1;
    return again ? AcknowledgeType.RELEASE : AcknowledgeType.ACCEPT;
  }
}
