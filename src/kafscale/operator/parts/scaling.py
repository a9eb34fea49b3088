"""More and fewer brokers by load: a HorizontalPodAutoscaler.

Next door: who may set `replicas` (planning/plan.py).
"""

from kafscale.operator.kinds.cluster import KafscaleCluster
from kafscale.operator.parts.brokers import BROKER, set_name
from kafscale.operator.parts.common import KubeManifest, part


def autoscaler(cluster: KafscaleCluster) -> KubeManifest | None:
    """The autoscaler, or None without `brokers.autoscaling`."""
    wanted = cluster.spec.brokers.autoscaling
    if wanted is None:
        return None
    metrics = [_resource("cpu", wanted.cpu)]
    if wanted.memory is not None:
        metrics.append(_resource("memory", wanted.memory))
    if wanted.produce_requests_per_second is not None:
        metrics.append(
            {
                "type": "Pods",
                "pods": {
                    "metric": {"name": "kafscale_produce_requests_per_second"},
                    "target": {
                        "type": "AverageValue",
                        "averageValue": str(wanted.produce_requests_per_second),
                    },
                },
            }
        )
    made = part(cluster, "autoscaling/v2", "HorizontalPodAutoscaler", set_name(cluster), BROKER)
    made["spec"] = {
        "scaleTargetRef": {
            "apiVersion": "apps/v1",
            "kind": "StatefulSet",
            "name": set_name(cluster),
        },
        "minReplicas": wanted.min_replicas or cluster.spec.brokers.replicas,
        "maxReplicas": wanted.max_replicas,
        "metrics": metrics,
        "behavior": {
            "scaleDown": {
                "stabilizationWindowSeconds": 300,
                "policies": [{"type": "Percent", "value": 10, "periodSeconds": 60}],
            },
            "scaleUp": {
                "stabilizationWindowSeconds": 0,
                "selectPolicy": "Max",
                "policies": [
                    {"type": "Percent", "value": 100, "periodSeconds": 15},
                    {"type": "Pods", "value": 4, "periodSeconds": 15},
                ],
            },
        },
    }
    return made


def _resource(name: str, percent: int) -> KubeManifest:
    return {
        "type": "Resource",
        "resource": {
            "name": name,
            "target": {"type": "Utilization", "averageUtilization": percent},
        },
    }
