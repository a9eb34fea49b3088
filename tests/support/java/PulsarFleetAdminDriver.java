import org.apache.pulsar.client.admin.PulsarAdmin;
import org.apache.pulsar.client.admin.PulsarAdminException;
import org.apache.pulsar.client.api.MessageId;

/**
 * The official client of Pulsar's admin API on a partitioned topic: each step asks the next of several brokers.
 * Arguments: the topic, its partitions, the brokers. Prints what it is answered.
 */
public final class PulsarFleetAdminDriver {
    private interface Step {
        Object take(PulsarAdmin admin) throws Exception;
    }

    private static String[] brokers;
    private static int asked;

    private static void say(String name, Step step) throws Exception {
        String url = brokers[asked++ % brokers.length];
        try (PulsarAdmin admin = PulsarAdmin.builder().serviceHttpUrl(url).build()) {
            System.out.println(name + " " + step.take(admin));
        } catch (PulsarAdminException refused) {
            System.out.println(name + " " + refused.getClass().getSimpleName() + " " + refused.getStatusCode());
        }
    }

    private static Object backlog(PulsarAdmin admin, String topic) throws Exception {
        return admin.topics().getPartitionedStats(topic, false).getSubscriptions().get("s").getMsgBacklog();
    }

    public static void main(String[] args) throws Exception {
        String topic = args[0];
        int partitions = Integer.parseInt(args[1]);
        brokers = java.util.Arrays.copyOfRange(args, 2, args.length);
        say("partitions", admin -> admin.topics().getPartitionedTopicMetadata(topic).partitions == partitions);
        say("subscribe", admin -> { admin.topics().createSubscription(topic, "s", MessageId.earliest); return "done"; });
        say("subscribe again", admin -> { admin.topics().createSubscription(topic, "s", MessageId.earliest); return "done"; });
        say("backlog", admin -> backlog(admin, topic));
        say("skip all", admin -> { admin.topics().skipAllMessages(topic, "s"); return "done"; });
        say("backlog", admin -> backlog(admin, topic));
        say("reset", admin -> { admin.topics().resetCursor(topic, "s", 1L); return "done"; });
        say("backlog", admin -> backlog(admin, topic));
        say("skip one", admin -> { admin.topics().skipMessages(topic, "s", 1); return "done"; });
        say("reset to id", admin -> { admin.topics().resetCursor(topic, "s", MessageId.earliest); return "done"; });
        say("unload", admin -> { admin.topics().unload(topic); return "done"; });
        say("subscriptions", admin -> admin.topics().getSubscriptions(topic));
        say("unsubscribe", admin -> { admin.topics().deleteSubscription(topic, "s"); return "done"; });
        say("unsubscribe again", admin -> { admin.topics().deleteSubscription(topic, "s"); return "done"; });
        say("delete", admin -> { admin.topics().deletePartitionedTopic(topic); return "done"; });
    }
}
