import java.util.List;
import java.util.Set;
import java.util.TreeSet;
import org.apache.pulsar.client.admin.PulsarAdmin;
import org.apache.pulsar.client.admin.PulsarAdminException;
import org.apache.pulsar.client.api.MessageId;
import org.apache.pulsar.common.policies.data.TenantInfo;

/** The official client of Pulsar's admin API, one daily task after the other; prints what it is answered. */
public final class PulsarAdminDriver {
    private interface Step {
        Object take() throws Exception;
    }

    private static void say(String name, Step step) {
        try {
            System.out.println(name + " " + step.take());
        } catch (PulsarAdminException refused) {
            System.out.println(name + " " + refused.getClass().getSimpleName() + " " + refused.getStatusCode());
        } catch (Exception failed) {
            System.out.println(name + " " + failed);
        }
    }

    public static void main(String[] args) throws Exception {
        String topic = "persistent://acme/billing/orders";
        String parts = "persistent://acme/billing/parts";
        try (PulsarAdmin admin = PulsarAdmin.builder().serviceHttpUrl(args[0]).build()) {
            List<String> clusters = admin.clusters().getClusters();
            say("clusters", () -> clusters.size());
            say("health", () -> { admin.brokers().healthcheck(); return "done"; });
            TenantInfo info = TenantInfo.builder().allowedClusters(Set.copyOf(clusters)).build();
            say("create tenant", () -> { admin.tenants().createTenant("acme", info); return "done"; });
            say("create tenant again", () -> { admin.tenants().createTenant("acme", info); return "done"; });
            say("tenants", () -> admin.tenants().getTenants());
            say("create namespace", () -> { admin.namespaces().createNamespace("acme/billing"); return "done"; });
            say("namespaces", () -> admin.namespaces().getNamespaces("acme"));
            say("create topic", () -> { admin.topics().createNonPartitionedTopic(topic); return "done"; });
            say("create partitions", () -> { admin.topics().createPartitionedTopic(parts, 3); return "done"; });
            say("partitions", () -> admin.topics().getPartitionedTopicMetadata(parts).partitions);
            say("more partitions", () -> { admin.topics().updatePartitionedTopic(parts, 5); return "done"; });
            say("partitions", () -> admin.topics().getPartitionedTopicMetadata(parts).partitions);
            say("topics", () -> new TreeSet<>(admin.topics().getList("acme/billing")).size());
            say("partitioned", () -> admin.topics().getPartitionedTopicList("acme/billing"));
            say("subscribe", () -> {
                admin.topics().createSubscription(topic, "s", MessageId.earliest);
                return "done";
            });
            say("subscriptions", () -> admin.topics().getSubscriptions(topic));
            say("stats", () -> admin.topics().getStats(topic).getSubscriptions().get("s").getMsgBacklog());
            say("skip", () -> { admin.topics().skipAllMessages(topic, "s"); return "done"; });
            say("reset", () -> { admin.topics().resetCursor(topic, "s", 1L); return "done"; });
            say("unsubscribe", () -> { admin.topics().deleteSubscription(topic, "s"); return "done"; });
            say("missing", () -> admin.topics().getStats("persistent://acme/billing/missing"));
            say("delete namespace", () -> { admin.namespaces().deleteNamespace("acme/billing"); return "done"; });
            say("delete", () -> { admin.topics().delete(topic); return "done"; });
            say("delete partitions", () -> { admin.topics().deletePartitionedTopic(parts); return "done"; });
            say("delete namespace", () -> { admin.namespaces().deleteNamespace("acme/billing"); return "done"; });
            say("delete tenant", () -> { admin.tenants().deleteTenant("acme"); return "done"; });
        }
    }
}
