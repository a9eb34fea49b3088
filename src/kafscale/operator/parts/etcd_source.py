"""Which etcd a cluster uses: its own spec, else the operator's setting, else one made for it.

Next door: the managed etcd (etcd.py).
"""

from typing import Final, NamedTuple

from kafscale.operator.kinds.cluster import KafscaleCluster
from kafscale.operator.parts.common import ACCEPT_LOSS, Defaults

MEMBERS: Final = 3
CLIENT_PORT: Final = 2379
SPEC: Final = "Spec"
OPERATOR: Final = "Operator"
MANAGED: Final = "Managed"


class EtcdSource(NamedTuple):
    """The etcd of a cluster; `refused`: why no broker may be started on it, as reason and words."""

    source: str
    endpoints: tuple[str, ...]
    prefix: str
    refused: tuple[str, str] | None = None

    @property
    def is_managed(self) -> bool:
        """Whether the operator runs it."""
        return self.source == MANAGED


def etcd_name(cluster: KafscaleCluster) -> str:
    """The name of the managed etcd's StatefulSet and Service."""
    return f"{cluster.metadata.name}-etcd"


def resolve(cluster: KafscaleCluster, defaults: Defaults) -> EtcdSource:
    """Find the etcd of a cluster."""
    found = _wanted(cluster, defaults)
    if cluster.spec.etcd.use_kube_etcd:
        reason = "brokers do not write into the etcd of Kubernetes; leave useKubeEtcd out"
        return found._replace(refused=("KubeEtcdRefused", reason))
    before = cluster.status.etcd
    if before.source and (before.source, before.prefix) != (found.source, found.prefix):
        if cluster.metadata.annotations.get(ACCEPT_LOSS) == "true":
            return found
        kept = EtcdSource(before.source, tuple(before.endpoints), before.prefix)
        words = (
            f"the cluster's metadata is in the etcd of {before.source} (prefix "
            f"'{before.prefix}'), and the spec now leads to {found.source} (prefix "
            f"'{found.prefix}'), where brokers would find nothing; brokers stay where they are. "
            f"The annotation {ACCEPT_LOSS}=true makes them change"
        )
        return kept._replace(refused=("EtcdSourceChanged", words))
    return found


def _wanted(cluster: KafscaleCluster, defaults: Defaults) -> EtcdSource:
    spec = cluster.spec.etcd
    namespace, name = cluster.metadata.key
    if spec.endpoints:
        return EtcdSource(SPEC, tuple(spec.endpoints), spec.prefix or "")
    if defaults.etcd_endpoints:
        shared = f"/{namespace}/{name}" if spec.prefix is None else spec.prefix
        return EtcdSource(OPERATOR, defaults.etcd_endpoints, shared)
    service = etcd_name(cluster)
    endpoints = tuple(
        f"http://{service}-{number}.{service}.{namespace}.svc:{CLIENT_PORT}"
        for number in range(MEMBERS)
    )
    return EtcdSource(MANAGED, endpoints, spec.prefix or "")
