"""Everything that becomes of some clusters, as files that people can read.

Who changes what is planned sees here what that does to clusters that run. Another pod template
restarts every broker when the operator is upgraded.
"""

from pathlib import Path
from typing import Any

import msgspec
import yaml

from kafscale.operator.kinds.cluster import KafscaleCluster
from kafscale.operator.kinds.seen import Pod, Service, StatefulSet
from kafscale.operator.parts.common import Defaults
from kafscale.operator.planning.plan import plan
from kafscale.operator.planning.seen_cluster import SeenCluster
from tests.support.plain_yaml import dump

ROOT = Path(__file__).parents[3]
SAMPLES = ROOT / "deploy/samples"
GOLDEN = ROOT / "tests/unit/operator/golden"
_DEFAULTS = Defaults(
    broker_image="kafscale:test", etcd_image="etcd:test", operator_image="kafscale:test"
)
_NOW_MS = 1_700_000_000_000
# What samples do not show.
_MORE: dict[str, Any] = {
    "everything": {
        "brokers": {
            "replicas": 2,
            "autoscaling": {"maxReplicas": 3, "memory": 80, "produceRequestsPerSecond": 500},
            "external": {"type": "LoadBalancer", "annotations": {"cloud": "yes"}},
            "accessFrom": [{"podSelector": {"matchLabels": {"uses": "kafka"}}}],
            "serviceAccount": {"annotations": {"identity": "brokers"}},
            "podTemplate": {
                "labels": {"team": "shop"},
                "annotations": {"note": "1"},
                "nodeSelector": {"disk": "none"},
                "tolerations": [{"key": "dedicated", "operator": "Exists"}],
                "affinity": {"podAntiAffinity": {}},
                "topologySpreadConstraints": [],
                "priorityClassName": "high",
                "imagePullSecrets": ["pull"],
            },
        },
        "s3": {"bucket": "data", "region": "eu-west-1", "endpoint": "http://s3:9000"},
        "etcd": {"endpoints": ["http://etcd:2379"], "prefix": "/shop"},
        "config": {"broker": {"topics.autoCreate": "false"}},
    },
    "restore": {
        "brokers": {},
        "s3": {"bucket": "data"},
        "etcd": {
            "snapshot": {"s3": {"bucket": "kept", "credentialsSecretRef": "keys"}},
            "restore": {"request": "monday", "from": "Snapshot"},
        },
    },
}

# Of some clusters the rest is as of the others.
_ONLY = {"secured": ("ConfigMap", "StatefulSet"), "restore": ("Job",)}


def golden_files() -> dict[str, str]:
    """The objects of each cluster, by the name of a file."""
    found = {}
    for file in sorted(SAMPLES.glob("*cluster.yaml")):
        sample = yaml.safe_load(file.read_text())
        found[file.name] = _planned(sample["metadata"]["name"], sample["spec"])
    for name, spec in _MORE.items():
        found[f"{name}.yaml"] = _planned(name, spec)
    return found


def _planned(name: str, spec: dict[str, Any]) -> str:
    metadata = {"name": name, "namespace": "kafscale", "uid": "uid", "generation": 1}
    cluster = msgspec.convert({"metadata": metadata, "spec": spec}, KafscaleCluster)
    is_restored = cluster.spec.etcd.restore is not None
    kept: Any = {"metadata": {"name": f"{name}-broker"}, "spec": {"replicas": 3}}
    seen = SeenCluster(
        brokers=msgspec.convert(kept, StatefulSet),
        pods=() if is_restored else tuple(_pod(f"{name}-broker-{one}") for one in range(3)),
        etcd_pods=tuple(_pod(f"{name}-etcd-{one}") for one in range(3)),
        services={one: _service(one) for one in (f"{name}-external-{two}" for two in range(3))},
    )
    planned = plan(cluster, seen, _DEFAULTS, _NOW_MS)
    told = "# Made by `make manifests`: what the operator applies for one cluster.\n"
    kinds = _ONLY.get(name)
    shown = [one for one in planned.objects if kinds is None or one["kind"] in kinds]
    return told + "---\n".join(map(dump, shown))


def _pod(name: str) -> Pod:
    ready = {"conditions": [{"type": "Ready", "status": "True"}]}
    return msgspec.convert({"metadata": {"name": name}, "status": ready}, Pod)


def _service(name: str) -> Service:
    spec = {"ports": [{"name": "external", "port": 9094}]}
    given = {"loadBalancer": {"ingress": [{"hostname": f"{name}.example.org"}]}}
    return msgspec.convert({"metadata": {"name": name}, "spec": spec, "status": given}, Service)
