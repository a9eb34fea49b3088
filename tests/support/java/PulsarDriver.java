import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Base64;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.TimeUnit;
import org.apache.pulsar.client.api.Consumer;
import org.apache.pulsar.client.api.Message;
import org.apache.pulsar.client.api.MessageId;
import org.apache.pulsar.client.api.MessageIdAdv;
import org.apache.pulsar.client.api.Producer;
import org.apache.pulsar.client.api.PulsarClient;
import org.apache.pulsar.client.api.Schema;
import org.apache.pulsar.client.api.SubscriptionInitialPosition;
import org.apache.pulsar.client.api.SubscriptionType;
import org.apache.pulsar.client.api.TypedMessageBuilder;

/** The Java client of Pulsar with its default settings: asked by lines, answers by lines. */
public final class PulsarDriver {
    private static final int PATIENCE_S = 30;

    /** What is sent with a schema. */
    public static final class Order {
        public String name;
        public int count;
    }

    private final PulsarClient client;
    private final BufferedReader in;
    private Streams streams;

    private PulsarDriver(String url, BufferedReader in) throws Exception {
        this.client = PulsarClient.builder().serviceUrl(url).build();
        this.in = in;
    }

    public static void main(String[] args) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        PulsarDriver driver = new PulsarDriver(args[0], in);
        String line;
        while ((line = in.readLine()) != null) {
            try {
                for (String answer : driver.answer(line.split(" "))) {
                    System.out.println(answer);
                }
                System.out.println("OK");
            } catch (Exception failed) {
                System.out.println("ERR " + failed.toString().replace('\n', ' '));
            }
            System.out.flush();
        }
        driver.client.close();
    }

    private List<String> answer(String[] words) throws Exception {
        switch (words[0]) {
            case "PRODUCE":
                return produce(words[1], Integer.parseInt(words[2]));
            case "CONSUME":
                return consume(words[1], words[2], SubscriptionType.valueOf(words[3]), Integer.parseInt(words[4]));
            case "ORDERS":
                return orders(words[1], Integer.parseInt(words[2]));
            case "STREAM":
                streams = new Streams(client, words[1]);
                return List.of();
            case "SEEN":
                return List.of(streams.receipted.size() + " " + streams.received.size());
            case "MARK":
                return List.of(String.valueOf(streams.mark()));
            case "END":
                return streams.end();
            default:
                throw new IllegalArgumentException(words[0]);
        }
    }

    private List<String> produce(String topic, int count) throws Exception {
        List<String> ids = new ArrayList<>();
        try (Producer<byte[]> producer = client.newProducer().topic(topic).create()) {
            List<CompletableFuture<MessageId>> sent = new ArrayList<>();
            for (int number = 0; number < count; number++) {
                sent.add(message(producer.newMessage(), in.readLine().split(" ")).sendAsync());
            }
            producer.flush();
            for (CompletableFuture<MessageId> one : sent) {
                ids.add(text(one.get(PATIENCE_S, TimeUnit.SECONDS)));
            }
        }
        return ids;
    }

    private static TypedMessageBuilder<byte[]> message(TypedMessageBuilder<byte[]> built, String[] words) {
        byte[] key = bytes(words[0]);
        if (key != null) {
            built = built.key(new String(key, StandardCharsets.UTF_8));
        }
        built = built.value(bytes(words[1]));
        if (Long.parseLong(words[2]) > 0) {
            built = built.eventTime(Long.parseLong(words[2]));
        }
        for (int at = 3; at < words.length; at += 2) {
            String name = new String(bytes(words[at]), StandardCharsets.UTF_8);
            built = built.property(name, new String(bytes(words[at + 1]), StandardCharsets.UTF_8));
        }
        return built;
    }

    private List<String> consume(String topic, String subscription, SubscriptionType type, int count)
            throws Exception {
        List<String> found = new ArrayList<>();
        try (Consumer<byte[]> consumer = client.newConsumer().topic(topic).subscriptionName(subscription)
                .subscriptionType(type).subscriptionInitialPosition(SubscriptionInitialPosition.Earliest)
                .subscribe()) {
            while (found.size() < count) {
                Message<byte[]> message = consumer.receive(PATIENCE_S, TimeUnit.SECONDS);
                if (message == null) {
                    throw new IllegalStateException("only " + found.size() + " of " + count + " messages");
                }
                found.add(written(message));
                consumer.acknowledge(message);
            }
        }
        return found;
    }

    private static String written(Message<byte[]> message) {
        String key = message.hasKey() ? word(message.getKeyBytes()) : "~";
        StringBuilder line = new StringBuilder(key);
        line.append(' ').append(word(message.getValue())).append(' ').append(message.getEventTime());
        line.append(' ').append(text(message.getMessageId()));
        for (Map.Entry<String, String> one : new TreeMap<>(message.getProperties()).entrySet()) {
            line.append(' ').append(word(one.getKey().getBytes(StandardCharsets.UTF_8)));
            line.append(' ').append(word(one.getValue().getBytes(StandardCharsets.UTF_8)));
        }
        return line.toString();
    }

    /** Objects with a schema, written and read back; gives the names that were read. */
    private List<String> orders(String topic, int count) throws Exception {
        List<String> names = new ArrayList<>();
        Schema<Order> schema = Schema.AVRO(Order.class);
        try (Producer<Order> producer = client.newProducer(schema).topic(topic).create();
                Consumer<Order> consumer = client.newConsumer(schema).topic(topic).subscriptionName("orders")
                        .subscriptionInitialPosition(SubscriptionInitialPosition.Earliest).subscribe()) {
            for (int number = 0; number < count; number++) {
                Order order = new Order();
                order.name = "order-" + number;
                order.count = number;
                producer.send(order);
            }
            for (int number = 0; number < count; number++) {
                Message<Order> message = consumer.receive(PATIENCE_S, TimeUnit.SECONDS);
                names.add(message.getValue().name);
                consumer.acknowledge(message);
            }
        }
        return names;
    }

    /** A producer that sends numbers on and on, and a consumer that acknowledges them at once. */
    private static final class Streams {
        private static final long KEPT_WITHIN_NS = TimeUnit.SECONDS.toNanos(2);

        final Set<String> receipted = ConcurrentHashMap.newKeySet();
        final Set<String> received = ConcurrentHashMap.newKeySet();
        private final Map<String, Integer> deliveries = new ConcurrentHashMap<>();
        private final Map<String, Long> acknowledgedNs = new ConcurrentHashMap<>();
        private final Map<String, Integer> marked = new TreeMap<>();
        private final Thread writer;
        private final Thread reader;
        private volatile boolean isWriting = true;
        private volatile boolean isReading = true;
        private volatile Exception failed;

        Streams(PulsarClient client, String topic) throws Exception {
            Consumer<byte[]> consumer = client.newConsumer().topic(topic).subscriptionName("readers")
                    .subscriptionType(SubscriptionType.Shared)
                    .subscriptionInitialPosition(SubscriptionInitialPosition.Earliest).subscribe();
            Producer<byte[]> producer = client.newProducer().topic(topic).blockIfQueueFull(true).create();
            writer = begin(() -> write(producer));
            reader = begin(() -> read(consumer));
        }

        private interface Work {
            void work() throws Exception;
        }

        private Thread begin(Work task) {
            Thread thread = new Thread(() -> {
                try {
                    task.work();
                } catch (Exception problem) {
                    failed = problem;
                }
            });
            thread.setDaemon(true);
            thread.start();
            return thread;
        }

        private void write(Producer<byte[]> producer) throws Exception {
            for (int number = 0; isWriting; number++) {
                String value = String.valueOf(number);
                producer.sendAsync(value.getBytes(StandardCharsets.UTF_8)).thenAccept(id -> receipted.add(value));
                Thread.sleep(5);
            }
            producer.flush();
            producer.close();
        }

        private void read(Consumer<byte[]> consumer) throws Exception {
            while (isReading) {
                Message<byte[]> message = consumer.receive(200, TimeUnit.MILLISECONDS);
                if (message != null) {
                    String place = message.getTopicName() + " " + text(message.getMessageId());
                    deliveries.merge(place, 1, Integer::sum);
                    consumer.acknowledge(message);
                    acknowledgedNs.putIfAbsent(place, System.nanoTime());
                    received.add(new String(message.getValue(), StandardCharsets.UTF_8));
                }
            }
            consumer.close();
        }

        /** Note what was acknowledged so long ago that the broker keeps it; gives how much it is. */
        int mark() {
            long before = System.nanoTime() - KEPT_WITHIN_NS;
            acknowledgedNs.forEach((place, at) -> {
                if (at < before) {
                    marked.put(place, deliveries.get(place));
                }
            });
            return marked.size();
        }

        /** Stop, and tell what was promised and did not happen. */
        List<String> end() throws Exception {
            isWriting = false;
            writer.join(TimeUnit.SECONDS.toMillis(PATIENCE_S));
            long deadline = System.nanoTime() + TimeUnit.SECONDS.toNanos(PATIENCE_S);
            while (!received.containsAll(receipted) && System.nanoTime() < deadline) {
                Thread.sleep(50);
            }
            isReading = false;
            reader.join(TimeUnit.SECONDS.toMillis(PATIENCE_S));
            if (failed != null) {
                throw failed;
            }
            List<String> broken = new ArrayList<>();
            receipted.stream().filter(one -> !received.contains(one)).forEach(one -> broken.add("lost " + one));
            marked.forEach((place, count) -> {
                if (deliveries.get(place) > count) {
                    broken.add("came again " + place);
                }
            });
            return broken;
        }
    }

    private static String text(MessageId id) {
        MessageIdAdv all = (MessageIdAdv) id;
        return all.getLedgerId() + ":" + all.getEntryId() + ":" + all.getBatchIndex();
    }

    private static byte[] bytes(String word) {
        return word.equals("~") ? null : Base64.getDecoder().decode(word.substring(1));
    }

    private static String word(byte[] bytes) {
        return bytes == null ? "~" : "." + Base64.getEncoder().encodeToString(bytes);
    }
}
