"""Who may connect to the parts of a cluster: network policies.

Here: the managed etcd is for the pods of its cluster alone. Brokers are open to all pods unless the
spec names who may come; their page for operators stays open, since the operator reads it.
Next door: logins and rights (security.py).
"""

from kafscale.operator.kinds.cluster import KafscaleCluster
from kafscale.operator.parts.brokers import BROKER, set_name
from kafscale.operator.parts.common import (
    EXTERNAL_PORT,
    KAFKA_PORT,
    METRICS_PORT,
    KubeManifest,
    part,
    selector,
)
from kafscale.operator.parts.etcd import ETCD, PEER_PORT
from kafscale.operator.parts.etcd_source import CLIENT_PORT, etcd_name


def etcd_policy(cluster: KafscaleCluster) -> KubeManifest:
    """Let members, brokers and jobs of this cluster connect to the managed etcd, no other pod."""
    made = part(cluster, "networking.k8s.io/v1", "NetworkPolicy", etcd_name(cluster), ETCD)
    ours = {"podSelector": {"matchLabels": {"cluster": cluster.metadata.name}}}
    members = {"podSelector": {"matchLabels": selector(cluster, ETCD)}}
    made["spec"] = {
        "podSelector": {"matchLabels": selector(cluster, ETCD)},
        "policyTypes": ["Ingress"],
        "ingress": [
            {"from": [ours], "ports": [_port(CLIENT_PORT)]},
            {"from": [members], "ports": [_port(PEER_PORT)]},
        ],
    }
    return made


def broker_policy(cluster: KafscaleCluster) -> KubeManifest | None:
    """Let only those connect to brokers whom the spec names; None if it names none."""
    allowed = cluster.spec.brokers.access_from
    if allowed is None:
        return None
    made = part(cluster, "networking.k8s.io/v1", "NetworkPolicy", set_name(cluster), BROKER)
    # The activator passes on what sleeping clusters are asked.
    ours = {"podSelector": {"matchLabels": {"cluster": cluster.metadata.name}}}
    rules: list[KubeManifest] = [
        {"from": [ours, *allowed], "ports": [_port(KAFKA_PORT)]},
        {"ports": [_port(METRICS_PORT)]},
    ]
    if cluster.spec.brokers.external is not None:
        rules.append({"ports": [_port(EXTERNAL_PORT)]})
    made["spec"] = {
        "podSelector": {"matchLabels": selector(cluster, BROKER)},
        "policyTypes": ["Ingress"],
        "ingress": rules,
    }
    return made


def _port(number: int) -> KubeManifest:
    return {"port": number, "protocol": "TCP"}
