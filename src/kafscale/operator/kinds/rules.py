"""Rules between fields, which the API server checks before anything is stored (CEL).

Next door: the definitions that carry them (crds.py).
"""

from typing import Final, NamedTuple


class CelRule(NamedTuple):
    """An expression that must be true, and what is said when it is not."""

    rule: str
    message: str


_TOO_LONG: Final = "the name must have at most 38 characters: parts are named after it"

# By the name of a struct, or of a resource.
RULES: Final[dict[str, tuple[CelRule, ...]]] = {
    "KafscaleCluster": (CelRule("size(self.metadata.name) <= 38", _TOO_LONG),),
    "ClusterObjectSpec": (
        CelRule(
            "self.s3.bucket == oldSelf.s3.bucket",
            "the bucket is the cluster: make another cluster for another bucket",
        ),
    ),
    "Brokers": (
        CelRule(
            "!has(self.autoscaling) || self.autoscaling.maxReplicas >= self.replicas",
            "autoscaling.maxReplicas must be at least replicas",
        ),
        CelRule(
            "!has(self.autoscaling) || !has(self.idleAfter)",
            "choose autoscaling or idleAfter: an autoscaler starts what was stopped",
        ),
    ),
    "Autoscaling": (
        CelRule(
            "!has(self.minReplicas) || (self.minReplicas >= 1 && "
            "self.minReplicas <= self.maxReplicas)",
            "minReplicas must be between 1 and maxReplicas",
        ),
    ),
    "External": (
        CelRule(
            "self.type != 'NodePort' || has(self.hostTemplate)",
            "NodePort needs hostTemplate: the operator does not know the nodes' addresses outside",
        ),
    ),
    "Etcd": (
        CelRule(
            "!self.useKubeEtcd || !has(self.endpoints) || size(self.endpoints) == 0",
            "choose useKubeEtcd or endpoints",
        ),
        CelRule(
            "!has(self.restore) || self.restore.from != 'Snapshot' || has(self.snapshot)",
            "restore.from: Snapshot needs etcd.snapshot, which names the bucket of the snapshots",
        ),
    ),
    "Restore": (
        CelRule(
            "!has(self.key) || self.from == 'Snapshot'",
            "restore.key is the key of a snapshot: it needs from: Snapshot",
        ),
    ),
    "TopicObjectSpec": (
        CelRule("self.clusterRef == oldSelf.clusterRef", "a topic stays in its cluster"),
        CelRule(
            "(has(self.topicName) ? self.topicName : '') == "
            "(has(oldSelf.topicName) ? oldSelf.topicName : '')",
            "a topic cannot be renamed",
        ),
        CelRule("self.partitions >= oldSelf.partitions", "partitions can only become more"),
        CelRule(
            "!has(self.config) || !('retention.ms' in self.config || "
            "'retention.bytes' in self.config)",
            "retention has fields of its own: retentionMs and retentionBytes",
        ),
    ),
    "UserObjectSpec": (
        CelRule("self.clusterRef == oldSelf.clusterRef", "a user stays in its cluster"),
        CelRule(
            "(has(self.userName) ? self.userName : '') == "
            "(has(oldSelf.userName) ? oldSelf.userName : '')",
            "a user cannot be renamed",
        ),
    ),
}
