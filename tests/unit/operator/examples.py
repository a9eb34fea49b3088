"""Clusters and pods as the tests of the operator need them."""

from typing import Any

import msgspec

from kafscale.operator.kinds.cluster import KafscaleCluster
from kafscale.operator.kinds.seen import Pod, StatefulSet
from kafscale.operator.parts.common import Defaults
from kafscale.operator.planning.seen_cluster import SeenBroker, SeenCluster

NOW_MS = 1_700_000_000_000
DEFAULTS = Defaults(
    broker_image="kafscale:0.1.0", etcd_image="etcd:3.6.8", operator_image="kafscale:0.1.0"
)
ETCD = {"endpoints": ["http://etcd:2379"]}


def cluster(
    *,
    annotations: dict[str, str] | None = None,
    status: dict[str, Any] | None = None,
    name: str = "production",
    **spec: Any,
) -> KafscaleCluster:
    """A cluster on a given etcd, with changes to its spec."""
    whole = {"brokers": {}, "s3": {"bucket": "data"}, "etcd": ETCD, **spec}
    return msgspec.convert(
        {
            "metadata": {
                "name": name,
                "namespace": "team",
                "uid": "u-1",
                "generation": 3,
                "annotations": annotations or {},
                "creationTimestamp": "2023-11-14T22:00:00Z",
            },
            "spec": whole,
            "status": status or {},
        },
        KafscaleCluster,
    )


def pod(
    number: int,
    *,
    revision: str = "new",
    ready: bool = True,
    component: str = "broker",
    deleting: str | None = None,
    waiting: tuple[str, str] | None = None,
    ended: str | None = None,
    node: str = "node-1",
) -> Pod:
    """A pod of the cluster."""
    state: dict[str, Any] = {}
    last: dict[str, Any] = {}
    if waiting is not None:
        state = {"waiting": {"reason": waiting[0], "message": waiting[1]}}
    if ended is not None:
        last = {"terminated": {"exitCode": 1, "message": ended}}
    return msgspec.convert(
        {
            "metadata": {
                "name": f"production-{component}-{number}",
                "namespace": "team",
                "uid": f"p-{number}",
                "labels": {"controller-revision-hash": revision},
                "deletionTimestamp": deleting,
            },
            "spec": {"nodeName": node},
            "status": {
                "podIP": f"10.0.0.{number}",
                "conditions": [{"type": "Ready", "status": "True" if ready else "False"}],
                "containerStatuses": [{"name": "broker", "state": state, "lastState": last}],
            },
        },
        Pod,
    )


def stateful_set(
    *, replicas: int = 3, partition: int = 0, template: str = "", observed: bool = True
) -> StatefulSet:
    """The brokers' StatefulSet."""
    return msgspec.convert(
        {
            "metadata": {
                "name": "production-broker",
                "namespace": "team",
                "generation": 2,
                "annotations": {"kafscale.io/template": template},
            },
            "spec": {
                "replicas": replicas,
                "updateStrategy": {"rollingUpdate": {"partition": partition}},
            },
            "status": {"observedGeneration": 2 if observed else 1, "updateRevision": "new"},
        },
        StatefulSet,
    )


def facts(count: int = 3, **changed: Any) -> dict[str, SeenBroker]:
    """What brokers say, all alike."""
    return {
        f"production-broker-{number}": SeenBroker(generation=7, **changed)
        for number in range(count)
    }


def running(template: str = "", **more: Any) -> SeenCluster:
    """Three ready brokers."""
    return SeenCluster(
        brokers=stateful_set(template=template),
        pods=tuple(pod(number) for number in range(3)),
        facts=facts(),
        **more,
    )
