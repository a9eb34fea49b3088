"""The activator: it stands at the bootstrap address while no broker runs.

Here: a Deployment of one small process. It has no rights in Kubernetes: the operator asks it
whether clients wait.
Next door: what it does (activator.py of this room).
"""

from typing import Final

from kafscale.operator.kinds.cluster import KafscaleCluster
from kafscale.operator.parts.brokers import headless_name, set_name
from kafscale.operator.parts.common import (
    KAFKA_PORT,
    METRICS_PORT,
    Defaults,
    KubeManifest,
    container_security,
    labels,
    part,
    pod_security,
    probe,
    selector,
)

ACTIVATOR: Final = "activator"


def activator_name(cluster: KafscaleCluster) -> str:
    """The name of the activator's Deployment."""
    return f"{cluster.metadata.name}-activator"


def activator(cluster: KafscaleCluster, defaults: Defaults) -> KubeManifest:
    """The Deployment of the activator."""
    made = part(cluster, "apps/v1", "Deployment", activator_name(cluster), ACTIVATOR)
    brokers = f"{headless_name(cluster)}.{cluster.metadata.namespace}.svc:{KAFKA_PORT}"
    made["spec"] = {
        "replicas": 1,
        "selector": {"matchLabels": selector(cluster, ACTIVATOR)},
        "template": {
            "metadata": {"labels": labels(cluster, ACTIVATOR)},
            "spec": {
                "serviceAccountName": set_name(cluster),
                "automountServiceAccountToken": False,
                "enableServiceLinks": False,
                "securityContext": pod_security(),
                "containers": [
                    {
                        "name": ACTIVATOR,
                        "image": defaults.operator_image,
                        "args": [
                            "operator",
                            "activator",
                            "--listen=0.0.0.0",
                            f"--port={KAFKA_PORT}",
                            f"--metrics-port={METRICS_PORT}",
                            f"--brokers={brokers}",
                        ],
                        "ports": [
                            {"name": "kafka", "containerPort": KAFKA_PORT},
                            {"name": "metrics", "containerPort": METRICS_PORT},
                        ],
                        "readinessProbe": probe("/health", period=5, timeout=3, failures=2),
                        "resources": {
                            "requests": {"cpu": "10m", "memory": "64Mi"},
                            "limits": {"memory": "256Mi"},
                        },
                        "securityContext": container_security(),
                    }
                ],
            },
        },
    }
    return made
