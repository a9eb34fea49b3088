"""How brokers are reached: Services, the account they run under, the disruption budget.

Next door: the brokers (brokers.py).
"""

from kafscale.operator.kinds.cluster import KafscaleCluster
from kafscale.operator.parts.brokers import (
    BROKER,
    bootstrap_name,
    headless_name,
    most_brokers,
    set_name,
)
from kafscale.operator.parts.common import (
    EXTERNAL_PORT,
    KAFKA_PORT,
    METRICS_PORT,
    KubeManifest,
    part,
    selector,
)


def account(cluster: KafscaleCluster) -> KubeManifest:
    """An account without rights; its annotations may give brokers an identity in the cloud."""
    made = part(cluster, "v1", "ServiceAccount", set_name(cluster), BROKER)
    if annotations := cluster.spec.brokers.service_account.annotations:
        made["metadata"]["annotations"] = dict(annotations)
    made["automountServiceAccountToken"] = False
    return made


def headless(cluster: KafscaleCluster) -> KubeManifest:
    """Give each broker a name of its own, also while it joins or hands over."""
    made = part(cluster, "v1", "Service", headless_name(cluster), BROKER)
    made["spec"] = {
        "clusterIP": "None",
        "publishNotReadyAddresses": True,
        "selector": selector(cluster, BROKER),
        "ports": [_port("kafka", KAFKA_PORT), _port("metrics", METRICS_PORT)],
    }
    return made


def bootstrap(cluster: KafscaleCluster, component: str = BROKER) -> KubeManifest:
    """The address that clients connect to first; it leads to ready pods of the component."""
    made = part(cluster, "v1", "Service", bootstrap_name(cluster), BROKER)
    made["spec"] = {
        "selector": selector(cluster, component),
        "ports": [_port("kafka", KAFKA_PORT)],
    }
    return made


def disruption_budget(cluster: KafscaleCluster) -> KubeManifest:
    """One broker may be taken away at a time; those that are not ready may always go."""
    made = part(cluster, "policy/v1", "PodDisruptionBudget", set_name(cluster), BROKER)
    made["spec"] = {
        "maxUnavailable": 1,
        "unhealthyPodEvictionPolicy": "AlwaysAllow",
        "selector": {"matchLabels": selector(cluster, BROKER)},
    }
    return made


def external_name(cluster: KafscaleCluster, ordinal: int) -> str:
    """The name of one broker's Service for clients outside."""
    return f"{cluster.metadata.name}-external-{ordinal}"


def external_bootstrap_name(cluster: KafscaleCluster) -> str:
    """The name of the Service that leads clients outside to any broker."""
    return f"{cluster.metadata.name}-external"


def external(cluster: KafscaleCluster) -> list[KubeManifest]:
    """A Service for each broker and one for all of them; none without `brokers.external`."""
    wanted = cluster.spec.brokers.external
    if wanted is None:
        return []
    found = []
    for name, who in (
        (external_bootstrap_name(cluster), selector(cluster, BROKER)),
        *(
            (
                external_name(cluster, ordinal),
                {"statefulset.kubernetes.io/pod-name": f"{set_name(cluster)}-{ordinal}"},
            )
            for ordinal in range(most_brokers(cluster))
        ),
    ):
        made = part(cluster, "v1", "Service", name, BROKER)
        if wanted.annotations:
            made["metadata"]["annotations"] = dict(wanted.annotations)
        made["spec"] = {
            "type": wanted.type,
            "publishNotReadyAddresses": "statefulset.kubernetes.io/pod-name" in who,
            "selector": who,
            "ports": [_port("external", EXTERNAL_PORT)],
        }
        found.append(made)
    return found


def _port(name: str, number: int) -> KubeManifest:
    return {"name": name, "port": number, "targetPort": number, "protocol": "TCP"}
