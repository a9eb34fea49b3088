import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Base64;
import java.util.Collections;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Properties;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Future;
import java.util.stream.Collectors;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.AlterConfigsResult;
import org.apache.kafka.clients.admin.Config;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.DescribeClusterResult;
import org.apache.kafka.clients.admin.NewPartitions;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.admin.RecordsToDelete;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.PartitionInfo;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeader;

/**
 * The Java client at default settings, driven by lines on standard input.
 *
 * A command is one line of words; bytes are "." and Base64, null is "~". Answers are lines, then "OK", or one line
 * "ERR" with the reason. Compiles against kafka-clients 2.8 and 4.x alike.
 */
public final class Driver {
    private static final String BYTES = "org.apache.kafka.common.serialization.ByteArray";
    private final String bootstrap;
    private final BufferedReader in =
            new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
    private final PrintStream out;
    private final Map<String, KafkaConsumer<byte[], byte[]>> members = new HashMap<>();

    private Driver(String bootstrap, PrintStream out) {
        this.bootstrap = bootstrap;
        this.out = out;
    }

    public static void main(String[] args) throws Exception {
        PrintStream out = new PrintStream(System.out, false, "UTF-8");
        Driver driver = new Driver(args[0], out);
        String line;
        while ((line = driver.in.readLine()) != null) {
            try {
                driver.obey(line.split(" "));
                out.println("OK");
            } catch (ExecutionException failed) {
                out.println("ERR " + oneLine(failed.getCause()));
            } catch (Exception failed) {
                out.println("ERR " + oneLine(failed));
            }
            out.flush();
        }
    }

    private void obey(String[] words) throws Exception {
        switch (words[0]) {
            case "PRODUCE" ->
                produce(words[1], Integer.parseInt(words[3]), Map.of("compression.type", words[2]));
            // The default since 3.0, to be asked for before.
            case "IDEMPOTENT" ->
                produce(words[1], Integer.parseInt(words[2]), Map.of("enable.idempotence", "true"));
            case "CONSUME" -> consume(words[1], words[2], Integer.parseInt(words[3]));
            case "COMMIT" -> commit(words[1], words[2], words[3]);
            case "COMMITTED" -> committed(words[1], words[2], Integer.parseInt(words[3]));
            case "CREATE" -> create(words[1], Integer.parseInt(words[2]));
            case "DELETE" -> delete(words[1]);
            case "LIST" -> list();
            case "OFFSET" -> offset(words[1], Integer.parseInt(words[2]), words[3]);
            case "PARTITIONS" -> partitions(words[1], Integer.parseInt(words[2]));
            case "CONFIGS" -> configs(words[1], words[2]);
            case "ALTER" -> alter(words[1], words[2], words[3], words[4]);
            case "REPLACE" -> replace(words[1], Arrays.copyOfRange(words, 2, words.length));
            case "DELETERECORDS" ->
                deleteRecords(words[1], Integer.parseInt(words[2]), Long.parseLong(words[3]));
            case "CLUSTER" -> cluster();
            case "SUBSCRIBE" -> subscribe(words[1], words[2], words[3], words.length > 4 ? words[4] : null);
            case "POLL" -> poll(words[1]);
            case "ASSIGNMENT" -> assignment(words[1]);
            case "LEAVE" -> members.remove(words[1]).close();
            case "TRANSACTION" -> transaction(words[1]);
            default -> throw new IllegalArgumentException(words[0]);
        }
    }

    private void produce(String topic, int count, Map<String, String> settings) throws Exception {
        List<ProducerRecord<byte[], byte[]>> records = new ArrayList<>();
        for (int i = 0; i < count; i++) {
            records.add(record(topic, in.readLine().split(" ")));
        }
        Properties properties = producerProperties();
        properties.putAll(settings);
        try (KafkaProducer<byte[], byte[]> producer = new KafkaProducer<>(properties)) {
            List<Future<RecordMetadata>> answers = new ArrayList<>();
            for (ProducerRecord<byte[], byte[]> record : records) {
                answers.add(producer.send(record));
            }
            for (Future<RecordMetadata> answer : answers) {
                out.println(answer.get().offset());
            }
        }
    }

    private static ProducerRecord<byte[], byte[]> record(String topic, String[] words) {
        List<Header> headers = new ArrayList<>();
        for (int i = 4; i < words.length; i += 2) {
            headers.add(new RecordHeader(new String(bytes(words[i]), StandardCharsets.UTF_8), bytes(words[i + 1])));
        }
        Long timestamp = words[3].equals("~") ? null : Long.valueOf(words[3]);
        return new ProducerRecord<>(
                topic, Integer.valueOf(words[0]), timestamp, bytes(words[1]), bytes(words[2]), headers);
    }

    private void consume(String topic, String partitions, int count) {
        try (KafkaConsumer<byte[], byte[]> consumer = consumer()) {
            List<TopicPartition> assigned = Arrays.stream(partitions.split(","))
                    .map(partition -> new TopicPartition(topic, Integer.parseInt(partition)))
                    .collect(Collectors.toList());
            consumer.assign(assigned);
            consumer.seekToBeginning(assigned);
            long deadline = System.currentTimeMillis() + 60_000;
            int seen = 0;
            while (seen < count && System.currentTimeMillis() < deadline) {
                for (ConsumerRecord<byte[], byte[]> record : consumer.poll(Duration.ofMillis(500))) {
                    seen++;
                    print(record);
                }
            }
        }
    }

    private void print(ConsumerRecord<byte[], byte[]> record) {
        StringBuilder line = new StringBuilder();
        line.append(record.partition()).append(' ').append(record.offset()).append(' ');
        line.append(text(record.key())).append(' ').append(text(record.value())).append(' ');
        line.append(record.timestamp());
        for (Header header : record.headers()) {
            line.append(' ').append(text(header.key().getBytes(StandardCharsets.UTF_8)));
            line.append(' ').append(text(header.value()));
        }
        out.println(line);
    }

    private void commit(String group, String topic, String places) {
        Map<TopicPartition, OffsetAndMetadata> offsets = new HashMap<>();
        for (String place : places.split(",")) {
            String[] words = place.split("=");
            offsets.put(new TopicPartition(topic, Integer.parseInt(words[0])),
                    new OffsetAndMetadata(Long.parseLong(words[1])));
        }
        try (KafkaConsumer<byte[], byte[]> consumer = consumer(group)) {
            consumer.assign(offsets.keySet());
            consumer.commitSync(offsets);
        }
    }

    private void committed(String group, String topic, int partition) {
        TopicPartition place = new TopicPartition(topic, partition);
        try (KafkaConsumer<byte[], byte[]> consumer = consumer(group)) {
            OffsetAndMetadata found = consumer.committed(Collections.singleton(place)).get(place);
            out.println(found == null ? "~" : Long.toString(found.offset()));
        }
    }

    private void subscribe(String name, String group, String topic, String protocol) {
        Properties properties = consumerProperties(group);
        if (protocol != null) {
            properties.put("group.protocol", protocol);
        }
        properties.put("auto.offset.reset", "earliest");
        KafkaConsumer<byte[], byte[]> consumer = new KafkaConsumer<>(properties);
        consumer.subscribe(Collections.singleton(topic));
        members.put(name, consumer);
    }

    private void poll(String name) {
        for (ConsumerRecord<byte[], byte[]> record : members.get(name).poll(Duration.ofMillis(200))) {
            print(record);
        }
    }

    private void assignment(String name) {
        for (TopicPartition place : members.get(name).assignment()) {
            out.println(place.partition());
        }
    }

    private void create(String topic, int partitions) throws Exception {
        try (Admin admin = Admin.create(properties())) {
            NewTopic wanted = new NewTopic(topic, Optional.of(partitions), Optional.empty());
            admin.createTopics(Collections.singleton(wanted)).all().get();
        }
    }

    private void delete(String topic) throws Exception {
        try (Admin admin = Admin.create(properties())) {
            admin.deleteTopics(Collections.singleton(topic)).all().get();
        }
    }

    private void list() {
        try (KafkaConsumer<byte[], byte[]> consumer = consumer()) {
            for (Map.Entry<String, List<PartitionInfo>> topic : consumer.listTopics().entrySet()) {
                out.println(topic.getKey() + " " + topic.getValue().size());
            }
        }
    }

    private void offset(String topic, int partition, String at) throws Exception {
        TopicPartition place = new TopicPartition(topic, partition);
        OffsetSpec spec = switch (at) {
            case "earliest" -> OffsetSpec.earliest();
            case "latest" -> OffsetSpec.latest();
            // By name, because the 2.8 client does not have it.
            case "max" -> (OffsetSpec) OffsetSpec.class.getMethod("maxTimestamp").invoke(null);
            default -> OffsetSpec.forTimestamp(Long.parseLong(at));
        };
        try (Admin admin = Admin.create(properties())) {
            out.println(admin.listOffsets(Collections.singletonMap(place, spec))
                    .partitionResult(place).get().offset());
        }
    }

    private void partitions(String topic, int total) throws Exception {
        try (Admin admin = Admin.create(properties())) {
            admin.createPartitions(Collections.singletonMap(topic, NewPartitions.increaseTo(total))).all().get();
        }
    }

    private void configs(String type, String name) throws Exception {
        ConfigResource resource = new ConfigResource(ConfigResource.Type.valueOf(type), name);
        try (Admin admin = Admin.create(properties())) {
            Config found = admin.describeConfigs(Collections.singleton(resource)).all().get().get(resource);
            for (ConfigEntry entry : found.entries()) {
                out.println(entry.name() + " " + entry.value() + " " + entry.source());
            }
        }
    }

    private void alter(String topic, String operation, String name, String value) throws Exception {
        ConfigResource resource = new ConfigResource(ConfigResource.Type.TOPIC, topic);
        ConfigEntry entry = new ConfigEntry(name, value.equals("~") ? null : value);
        AlterConfigOp wanted = new AlterConfigOp(entry, AlterConfigOp.OpType.valueOf(operation));
        try (Admin admin = Admin.create(properties())) {
            admin.incrementalAlterConfigs(
                    Collections.singletonMap(resource, Collections.singletonList(wanted))).all().get();
        }
    }

    private void replace(String topic, String[] pairs) throws Exception {
        List<ConfigEntry> entries = new ArrayList<>();
        for (String pair : pairs) {
            String[] words = pair.split("=", 2);
            entries.add(new ConfigEntry(words[0], words[1]));
        }
        ConfigResource resource = new ConfigResource(ConfigResource.Type.TOPIC, topic);
        try (Admin admin = Admin.create(properties())) {
            // By name, because the 4.x client has it no more.
            AlterConfigsResult answer = (AlterConfigsResult) Admin.class.getMethod("alterConfigs", Map.class)
                    .invoke(admin, Collections.singletonMap(resource, new Config(entries)));
            answer.all().get();
        }
    }

    private void deleteRecords(String topic, int partition, long before) throws Exception {
        TopicPartition place = new TopicPartition(topic, partition);
        try (Admin admin = Admin.create(properties())) {
            out.println(admin.deleteRecords(Collections.singletonMap(place, RecordsToDelete.beforeOffset(before)))
                    .lowWatermarks().get(place).get().lowWatermark());
        }
    }

    private void cluster() throws Exception {
        try (Admin admin = Admin.create(properties())) {
            DescribeClusterResult cluster = admin.describeCluster();
            String ids = cluster.nodes().get().stream()
                    .map(node -> Integer.toString(node.id())).sorted().collect(Collectors.joining(","));
            out.println(cluster.clusterId().get() + " " + cluster.controller().get().id() + " " + ids);
        }
    }

    private void transaction(String id) {
        Properties properties = producerProperties();
        properties.put("transactional.id", id);
        try (KafkaProducer<byte[], byte[]> producer = new KafkaProducer<>(properties)) {
            producer.initTransactions();
            producer.beginTransaction();
            producer.abortTransaction();
        }
    }

    private Properties properties() {
        Properties properties = new Properties();
        properties.put("bootstrap.servers", bootstrap);
        return properties;
    }

    private Properties producerProperties() {
        Properties properties = properties();
        properties.put("key.serializer", BYTES + "Serializer");
        properties.put("value.serializer", BYTES + "Serializer");
        return properties;
    }

    private KafkaConsumer<byte[], byte[]> consumer() {
        return consumer(null);
    }

    private KafkaConsumer<byte[], byte[]> consumer(String group) {
        return new KafkaConsumer<>(consumerProperties(group));
    }

    private Properties consumerProperties(String group) {
        Properties properties = properties();
        if (group != null) {
            properties.put("group.id", group);
        }
        properties.put("key.deserializer", BYTES + "Deserializer");
        properties.put("value.deserializer", BYTES + "Deserializer");
        return properties;
    }

    private static String oneLine(Throwable failed) {
        return failed.toString().replace('\n', ' ');
    }

    private static byte[] bytes(String word) {
        return word.equals("~") ? null : Base64.getDecoder().decode(word.substring(1));
    }

    private static String text(byte[] bytes) {
        return bytes == null ? "~" : "." + Base64.getEncoder().encodeToString(bytes);
    }
}
