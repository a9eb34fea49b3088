import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.concurrent.TimeUnit;
import java.util.regex.Pattern;
import org.apache.pulsar.client.api.BatcherBuilder;
import org.apache.pulsar.client.api.CompressionType;
import org.apache.pulsar.client.api.Consumer;
import org.apache.pulsar.client.api.ConsumerBuilder;
import org.apache.pulsar.client.api.DeadLetterPolicy;
import org.apache.pulsar.client.api.KeySharedPolicy;
import org.apache.pulsar.client.api.Message;
import org.apache.pulsar.client.api.MessageId;
import org.apache.pulsar.client.api.Producer;
import org.apache.pulsar.client.api.ProducerAccessMode;
import org.apache.pulsar.client.api.ProducerBuilder;
import org.apache.pulsar.client.api.PulsarClient;
import org.apache.pulsar.client.api.Range;
import org.apache.pulsar.client.api.Reader;
import org.apache.pulsar.client.api.Schema;
import org.apache.pulsar.client.api.SubscriptionInitialPosition;
import org.apache.pulsar.client.api.SubscriptionType;
import org.apache.pulsar.client.api.TableView;
import org.apache.pulsar.client.api.schema.GenericRecord;

/** What the Java client can do beyond sending and receiving, one thing after the other; prints what it saw. */
public final class PulsarFeatures {
    private static final int PATIENCE_S = 30;

    private interface Step {
        Object take() throws Exception;
    }

    /** What is sent with a schema, and what became of it. */
    public static final class Order {
        public String name;
    }

    public static final class LargerOrder {
        public String name;
        public Integer count;
    }

    private final PulsarClient client;
    private final String http;
    private final String prefix;

    private PulsarFeatures(String url, String http, String prefix) throws Exception {
        this.client = PulsarClient.builder().serviceUrl(url).build();
        this.http = http;
        this.prefix = prefix;
    }

    public static void main(String[] args) throws Exception {
        PulsarFeatures it = new PulsarFeatures(args[0], args[1], args[2]);
        it.say("redelivery to one consumer", () -> it.redeliver(SubscriptionType.Exclusive));
        it.say("redelivery to the active consumer", () -> it.redeliver(SubscriptionType.Failover));
        it.say("negative acknowledgement", it::negative);
        it.say("dead letter", it::deadLetter);
        it.say("retry letter", it::retryLetter);
        it.say("part of a batch", it::partOfBatch);
        it.say("seek", it::seek);
        it.say("reader", it::reader);
        it.say("table view", it::tableView);
        it.say("growth", it::growth);
        it.say("pattern", it::pattern);
        it.say("keys", it::keys);
        it.say("sticky keys", it::stickyKeys);
        it.say("chunks", it::chunks);
        it.say("delay", it::delay);
        it.say("codecs", it::codecs);
        it.say("no queue", it::noQueue);
        it.say("exclusive producer", it::exclusive);
        it.say("schemas", it::schemas);
        it.say("unsubscribe", it::unsubscribe);
        it.client.close();
    }

    private void say(String name, Step step) {
        String seen;
        try {
            seen = String.valueOf(step.take());
        } catch (Exception failed) {
            seen = failed.toString().replace('\n', ' ');
        }
        System.out.println(name + ": " + seen);
        System.out.flush();
    }

    private String topic(String name) {
        return prefix + "-" + name;
    }

    private ProducerBuilder<byte[]> producer(String topic) {
        return client.newProducer().topic(topic);
    }

    private ConsumerBuilder<byte[]> consumer(String topic, SubscriptionType type) {
        return client.newConsumer().topic(topic).subscriptionName("s").subscriptionType(type)
                .subscriptionInitialPosition(SubscriptionInitialPosition.Earliest);
    }

    private static void send(Producer<byte[]> producer, int from, int to) throws Exception {
        for (int number = from; number < to; number++) {
            producer.send(bytes(String.valueOf(number)));
        }
    }

    private static Message<byte[]> next(Consumer<byte[]> consumer) throws Exception {
        Message<byte[]> message = consumer.receive(PATIENCE_S, TimeUnit.SECONDS);
        if (message == null) {
            throw new IllegalStateException("no message came");
        }
        return message;
    }

    private static List<String> values(Consumer<byte[]> consumer, int count, boolean acknowledge) throws Exception {
        List<String> found = new ArrayList<>();
        for (int number = 0; number < count; number++) {
            Message<byte[]> message = next(consumer);
            found.add(text(message));
            if (acknowledge) {
                consumer.acknowledge(message);
            }
        }
        return found;
    }

    private static byte[] bytes(String text) {
        return text.getBytes(StandardCharsets.UTF_8);
    }

    private static String text(Message<byte[]> message) {
        return new String(message.getValue(), StandardCharsets.UTF_8);
    }

    /** The consumer's epoch rises: messages of before must not be seen after it. */
    private Object redeliver(SubscriptionType type) throws Exception {
        String topic = topic("redelivery-" + type);
        try (Consumer<byte[]> consumer = consumer(topic, type).subscribe();
                Producer<byte[]> producer = producer(topic).create()) {
            send(producer, 0, 6);
            List<String> found = values(consumer, 1, true);
            found.addAll(values(consumer, 3, false));
            consumer.redeliverUnacknowledgedMessages();
            found.addAll(values(consumer, 5, true));
            return found;
        }
    }

    private Object negative() throws Exception {
        String topic = topic("negative");
        try (Consumer<byte[]> consumer = consumer(topic, SubscriptionType.Shared)
                        .negativeAckRedeliveryDelay(100, TimeUnit.MILLISECONDS).subscribe();
                Producer<byte[]> producer = producer(topic).create()) {
            send(producer, 0, 1);
            List<String> found = new ArrayList<>();
            for (int number = 0; number < 3; number++) {
                Message<byte[]> message = next(consumer);
                found.add(text(message) + "x" + message.getRedeliveryCount());
                consumer.negativeAcknowledge(message);
            }
            return found;
        }
    }

    private Object deadLetter() throws Exception {
        String topic = topic("failing");
        try (Consumer<byte[]> letters = consumer(topic("dead"), SubscriptionType.Exclusive).subscribe();
                Consumer<byte[]> consumer = consumer(topic, SubscriptionType.Shared)
                        .negativeAckRedeliveryDelay(100, TimeUnit.MILLISECONDS)
                        .deadLetterPolicy(DeadLetterPolicy.builder().maxRedeliverCount(1)
                                .deadLetterTopic(topic("dead")).build()).subscribe();
                Producer<byte[]> producer = producer(topic).create()) {
            producer.newMessage().key("k").value(bytes("cursed")).send();
            for (int number = 0; number < 2; number++) {
                consumer.negativeAcknowledge(next(consumer));
            }
            Message<byte[]> letter = next(letters);
            return letter.getKey() + "=" + text(letter);
        }
    }

    private Object retryLetter() throws Exception {
        String topic = topic("retried");
        try (Consumer<byte[]> consumer = consumer(topic, SubscriptionType.Shared).enableRetry(true)
                        .deadLetterPolicy(DeadLetterPolicy.builder().maxRedeliverCount(2)
                                .retryLetterTopic(topic("retries")).build()).subscribe();
                Producer<byte[]> producer = producer(topic).create()) {
            send(producer, 0, 1);
            consumer.reconsumeLater(next(consumer), 1, TimeUnit.SECONDS);
            Message<byte[]> again = next(consumer);
            consumer.acknowledge(again);
            return text(again) + " " + again.getProperty("RECONSUMETIMES");
        }
    }

    private Object partOfBatch() throws Exception {
        String topic = topic("parts");
        ConsumerBuilder<byte[]> wish = consumer(topic, SubscriptionType.Shared)
                .enableBatchIndexAcknowledgment(true).isAckReceiptEnabled(true);
        List<String> found = new ArrayList<>();
        try (Producer<byte[]> producer = producer(topic).batchingMaxPublishDelay(500, TimeUnit.MILLISECONDS).create()) {
            for (int number = 0; number < 5; number++) {
                producer.sendAsync(bytes(String.valueOf(number)));
            }
            producer.flush();
        }
        try (Consumer<byte[]> consumer = wish.subscribe()) {
            for (int number = 0; number < 5; number++) {
                Message<byte[]> message = next(consumer);
                if (number % 2 == 1) {
                    consumer.acknowledgeAsync(message).get(PATIENCE_S, TimeUnit.SECONDS);
                }
            }
        }
        try (Consumer<byte[]> consumer = wish.subscribe()) {
            return values(consumer, 3, true);
        }
    }

    private Object seek() throws Exception {
        String topic = topic("seek");
        try (Consumer<byte[]> consumer = consumer(topic, SubscriptionType.Exclusive).subscribe();
                Producer<byte[]> producer = producer(topic).create()) {
            send(producer, 0, 3);
            Thread.sleep(20);
            long middle = System.currentTimeMillis();
            Thread.sleep(20);
            MessageId fourth = producer.send(bytes("3"));
            send(producer, 4, 6);
            values(consumer, 6, true);
            List<String> found = new ArrayList<>();
            consumer.seek(middle);
            found.addAll(values(consumer, 1, false));
            consumer.seek(MessageId.earliest);
            found.addAll(values(consumer, 2, false));
            consumer.seek(fourth);
            found.addAll(values(consumer, 1, false));
            consumer.seek(MessageId.latest);
            send(producer, 6, 7);
            found.addAll(values(consumer, 1, true));
            MessageId last = consumer.getLastMessageId();
            found.add(String.valueOf(last.compareTo(fourth) > 0));
            return found;
        }
    }

    private Object reader() throws Exception {
        String topic = topic("reader");
        List<String> found = new ArrayList<>();
        MessageId second;
        try (Producer<byte[]> producer = producer(topic).create()) {
            send(producer, 0, 1);
            second = producer.send(bytes("1"));
            send(producer, 2, 4);
        }
        try (Reader<byte[]> reader = client.newReader().topic(topic).startMessageId(second).create()) {
            while (reader.hasMessageAvailable()) {
                found.add(text(reader.readNext(PATIENCE_S, TimeUnit.SECONDS)));
            }
        }
        try (Reader<byte[]> reader = client.newReader().topic(topic).startMessageId(second)
                .startMessageIdInclusive().create()) {
            found.add(text(reader.readNext(PATIENCE_S, TimeUnit.SECONDS)));
            reader.seek(MessageId.earliest);
            found.add(text(reader.readNext(PATIENCE_S, TimeUnit.SECONDS)));
        }
        try (Reader<byte[]> reader = client.newReader().topic(topic)
                .startMessageFromRollbackDuration(1, TimeUnit.HOURS).create()) {
            found.add(text(reader.readNext(PATIENCE_S, TimeUnit.SECONDS)));
        }
        try (Reader<byte[]> reader = client.newReader().topic(topic).startMessageId(MessageId.latest).create()) {
            found.add(String.valueOf(reader.hasMessageAvailable()));
        }
        return found;
    }

    private Object tableView() throws Exception {
        String topic = "persistent://public/default/" + topic("table");  // by a short name it waits for nothing
        try (Producer<byte[]> producer = producer(topic).create()) {
            for (int number = 0; number < 5; number++) {
                producer.newMessage().key("k" + number % 2).value(bytes(String.valueOf(number))).send();
            }
            try (TableView<byte[]> table = client.newTableView().topic(topic).create()) {
                Map<String, String> found = new TreeMap<>();
                table.forEach((key, value) -> found.put(key, new String(value, StandardCharsets.UTF_8)));
                return found;
            }
        }
    }

    private void administer(String method, String topic, String body) throws Exception {
        HttpRequest request = HttpRequest.newBuilder(URI.create(
                http + "/admin/v2/persistent/public/default/" + topic + "/partitions"))
                .header("Content-Type", "application/json")
                .method(method, HttpRequest.BodyPublishers.ofString(body)).build();
        HttpResponse<String> answer = HttpClient.newHttpClient().send(request, HttpResponse.BodyHandlers.ofString());
        if (answer.statusCode() >= 300) {
            throw new IllegalStateException(answer.statusCode() + " " + answer.body());
        }
    }

    /** A producer and a consumer find partitions that are added while they live. */
    private Object growth() throws Exception {
        String topic = topic("growth");
        administer("PUT", topic, "2");
        try (Consumer<byte[]> consumer = consumer(topic, SubscriptionType.Shared)
                        .autoUpdatePartitionsInterval(1, TimeUnit.SECONDS).subscribe();
                Producer<byte[]> producer = producer(topic).enableBatching(false)
                        .autoUpdatePartitionsInterval(1, TimeUnit.SECONDS).create()) {
            TreeSet<String> before = new TreeSet<>();
            TreeSet<String> after = new TreeSet<>();
            send(producer, 0, 2);
            for (int number = 0; number < 2; number++) {
                before.add(partition(consumer));
            }
            administer("POST", topic, "4");
            long deadline = System.nanoTime() + TimeUnit.SECONDS.toNanos(PATIENCE_S);
            while (after.size() < 4 && System.nanoTime() < deadline) {
                send(producer, 0, 1);
                after.add(partition(consumer));
            }
            return before + " " + after;
        }
    }

    private static String partition(Consumer<byte[]> consumer) throws Exception {
        Message<byte[]> message = next(consumer);
        consumer.acknowledge(message);
        return message.getTopicName().replaceAll(".*-partition-", "");
    }

    /** A consumer of a pattern finds a topic that comes later. */
    private Object pattern() throws Exception {
        try (Producer<byte[]> first = producer(topic("pattern-a")).create();
                Consumer<byte[]> consumer = client.newConsumer()
                        .topicsPattern(Pattern.compile("persistent://public/default/" + topic("pattern") + "-.*"))
                        .patternAutoDiscoveryPeriod(1, TimeUnit.SECONDS).subscriptionName("s")
                        .subscriptionInitialPosition(SubscriptionInitialPosition.Earliest).subscribe()) {
            send(first, 0, 1);
            List<String> found = values(consumer, 1, true);
            try (Producer<byte[]> second = producer(topic("pattern-b")).create()) {
                send(second, 1, 2);
                found.addAll(values(consumer, 1, true));
            }
            return found;
        }
    }

    /** Each key goes to one of two consumers, in its order. */
    private Object keys() throws Exception {
        String topic = topic("keys");
        try (Consumer<byte[]> first = consumer(topic, SubscriptionType.Key_Shared).subscribe();
                Consumer<byte[]> second = consumer(topic, SubscriptionType.Key_Shared).subscribe();
                Producer<byte[]> producer = producer(topic).batcherBuilder(BatcherBuilder.KEY_BASED).create()) {
            for (int number = 0; number < 100; number++) {
                producer.newMessage().key("k" + number % 10).value(bytes(String.valueOf(number))).sendAsync();
            }
            producer.flush();
            List<TreeMap<String, Integer>> seen = Arrays.asList(new TreeMap<>(), new TreeMap<>());
            int count = 0;
            long deadline = System.nanoTime() + TimeUnit.SECONDS.toNanos(PATIENCE_S);
            while (count < 100 && System.nanoTime() < deadline) {
                for (int which = 0; which < 2; which++) {
                    Consumer<byte[]> consumer = which == 0 ? first : second;
                    Message<byte[]> message = consumer.receive(50, TimeUnit.MILLISECONDS);
                    if (message == null) {
                        continue;
                    }
                    count++;
                    consumer.acknowledge(message);
                    Integer before = seen.get(which).put(message.getKey(), Integer.valueOf(text(message)));
                    if (before != null && before > Integer.parseInt(text(message))) {
                        return "out of order: " + message.getKey();
                    }
                    if (seen.get(1 - which).containsKey(message.getKey())) {
                        return "at two consumers: " + message.getKey();
                    }
                }
            }
            return count + " " + (seen.get(0).size() + seen.get(1).size());
        }
    }

    /** Consumers name the hashes that they want; ranges that overlap are refused. */
    private Object stickyKeys() throws Exception {
        String topic = topic("sticky");
        List<String> found = new ArrayList<>();
        try (Consumer<byte[]> low = consumer(topic, SubscriptionType.Key_Shared)
                        .keySharedPolicy(KeySharedPolicy.stickyHashRange().ranges(Range.of(0, 32767))).subscribe();
                Consumer<byte[]> high = consumer(topic, SubscriptionType.Key_Shared)
                        .keySharedPolicy(KeySharedPolicy.stickyHashRange().ranges(Range.of(32768, 65535))).subscribe();
                Producer<byte[]> producer = producer(topic).enableBatching(false).create()) {
            try {
                consumer(topic, SubscriptionType.Key_Shared)
                        .keySharedPolicy(KeySharedPolicy.stickyHashRange().ranges(Range.of(5, 6))).subscribe();
            } catch (Exception refused) {
                found.add(refused.getClass().getSimpleName());
            }
            for (int number = 0; number < 20; number++) {
                producer.newMessage().key("k" + number).value(bytes("v")).send();
            }
            int[] counts = new int[2];
            while (counts[0] + counts[1] < 20) {
                for (int which = 0; which < 2; which++) {
                    Consumer<byte[]> consumer = which == 0 ? low : high;
                    Message<byte[]> message = consumer.receive(100, TimeUnit.MILLISECONDS);
                    if (message != null) {
                        counts[which]++;
                        consumer.acknowledge(message);
                    }
                }
            }
            found.add(Arrays.toString(counts));
            return found;
        }
    }

    private Object chunks() throws Exception {
        String topic = topic("chunks");
        byte[] large = new byte[12_000_000];
        for (int at = 0; at < large.length; at++) {
            large[at] = (byte) (at * 31);
        }
        try (Consumer<byte[]> consumer = consumer(topic, SubscriptionType.Exclusive).subscribe();
                Producer<byte[]> producer = producer(topic).enableBatching(false).enableChunking(true).create()) {
            producer.send(large);
            Message<byte[]> message = next(consumer);
            boolean same = Arrays.equals(message.getValue(), large);
            consumer.acknowledge(message);
            send(producer, 0, 1);
            return same + " " + values(consumer, 1, true);
        }
    }

    private Object delay() throws Exception {
        String topic = topic("delay");
        try (Consumer<byte[]> consumer = consumer(topic, SubscriptionType.Shared).subscribe();
                Producer<byte[]> producer = producer(topic).create()) {
            producer.newMessage().value(bytes("later")).deliverAfter(1500, TimeUnit.MILLISECONDS).send();
            producer.send(bytes("now"));
            return values(consumer, 2, true);
        }
    }

    private Object codecs() throws Exception {
        List<String> found = new ArrayList<>();
        for (CompressionType codec : CompressionType.values()) {
            String topic = topic("codec-" + codec);
            try (Consumer<byte[]> consumer = consumer(topic, SubscriptionType.Exclusive).subscribe();
                    Producer<byte[]> producer = producer(topic).compressionType(codec).create()) {
                producer.send(bytes(codec.name().repeat(1000)));
                found.add(codec + "=" + text(next(consumer)).equals(codec.name().repeat(1000)));
            }
        }
        return found;
    }

    /** A queue of none asks for one message at a time. */
    private Object noQueue() throws Exception {
        String topic = topic("no-queue");
        try (Consumer<byte[]> consumer = consumer(topic, SubscriptionType.Shared).receiverQueueSize(0).subscribe();
                Producer<byte[]> producer = producer(topic).enableBatching(false).create()) {
            send(producer, 0, 3);
            List<String> found = new ArrayList<>();
            for (int number = 0; number < 3; number++) {
                Message<byte[]> message = consumer.receive();
                found.add(text(message));
                consumer.acknowledge(message);
            }
            return found;
        }
    }

    private Object exclusive() throws Exception {
        String topic = topic("exclusive");
        List<String> found = new ArrayList<>();
        try (Producer<byte[]> holder = producer(topic).accessMode(ProducerAccessMode.Exclusive).create()) {
            try {
                producer(topic).create();
            } catch (Exception refused) {
                found.add(refused.getClass().getSimpleName());
            }
            holder.send(bytes("held"));
            try (Producer<byte[]> taker = producer(topic)
                    .accessMode(ProducerAccessMode.ExclusiveWithFencing).create()) {
                taker.send(bytes("taken"));
                try {
                    holder.send(bytes("late"));
                } catch (Exception refused) {
                    found.add(refused.getClass().getSimpleName());
                }
            }
        }
        return found;
    }

    /** Two versions of a schema, text, and a reader that takes the schema from the broker. */
    private Object schemas() throws Exception {
        List<String> found = new ArrayList<>();
        for (boolean isAvro : new boolean[] {true, false}) {
            String topic = topic("schema-" + isAvro);
            Schema<Order> small = isAvro ? Schema.AVRO(Order.class) : Schema.JSON(Order.class);
            Schema<LargerOrder> large = isAvro ? Schema.AVRO(LargerOrder.class) : Schema.JSON(LargerOrder.class);
            try (Producer<Order> producer = client.newProducer(small).topic(topic).create()) {
                Order order = new Order();
                order.name = "first";
                producer.send(order);
            }
            try (Producer<LargerOrder> producer = client.newProducer(large).topic(topic).create()) {
                LargerOrder order = new LargerOrder();
                order.name = "second";
                order.count = 7;
                producer.send(order);
            }
            try (Reader<GenericRecord> reader = client.newReader(Schema.AUTO_CONSUME()).topic(topic)
                    .startMessageId(MessageId.earliest).create()) {
                for (int number = 0; number < 2; number++) {
                    Message<GenericRecord> message = reader.readNext(PATIENCE_S, TimeUnit.SECONDS);
                    GenericRecord record = message.getValue();
                    found.add(record.getField("name") + " " + record.getFields().size());
                }
            }
        }
        try (Producer<String> producer = client.newProducer(Schema.STRING).topic(topic("schema-text")).create();
                Consumer<String> consumer = client.newConsumer(Schema.STRING).topic(topic("schema-text"))
                        .subscriptionName("s").subscriptionInitialPosition(SubscriptionInitialPosition.Earliest)
                        .subscribe()) {
            producer.send("grüße");
            found.add(consumer.receive(PATIENCE_S, TimeUnit.SECONDS).getValue());
        }
        return found;
    }

    private Object unsubscribe() throws Exception {
        String topic = topic("unsubscribe");
        try (Producer<byte[]> producer = producer(topic).create()) {
            send(producer, 0, 3);
            Consumer<byte[]> consumer = consumer(topic, SubscriptionType.Exclusive).subscribe();
            consumer.acknowledgeCumulative(lastOf(consumer, 2));
            consumer.unsubscribe();
            try (Consumer<byte[]> again = consumer(topic, SubscriptionType.Exclusive).subscribe()) {
                return values(again, 3, true);
            }
        }
    }

    private static Message<byte[]> lastOf(Consumer<byte[]> consumer, int count) throws Exception {
        Message<byte[]> last = null;
        for (int number = 0; number < count; number++) {
            last = next(consumer);
        }
        return last;
    }
}
