"""The managed etcd: three members with a volume each.

Here: a StatefulSet whose members find out before they start whether they are new or come back
without their data. That is the work of a container that runs first (operator/etcd/member.py).
Next door: snapshots (jobs.py), which etcd a cluster uses (etcd_source.py).
"""

from typing import Final

from kafscale.operator.kinds.cluster import KafscaleCluster
from kafscale.operator.parts.common import (
    Defaults,
    KubeManifest,
    container_security,
    from_field,
    labels,
    part,
    pod_security,
    selector,
)
from kafscale.operator.parts.etcd_source import CLIENT_PORT, MEMBERS, etcd_name

ETCD: Final = "etcd"
PEER_PORT: Final = 2380
_DATA: Final = "/var/lib/etcd"
_SETTINGS: Final = "/etc/etcd"
# A restart mends neither a quota that is used up nor data that is wrong.
_ALIVE: Final = "/health?serializable=true&exclude=NOSPACE&exclude=CORRUPT"


def managed_etcd(
    cluster: KafscaleCluster, defaults: Defaults, *, sleeps: bool = False
) -> list[KubeManifest]:
    """Service, disruption budget and StatefulSet; one that sleeps has its volumes alone."""
    name = etcd_name(cluster)
    service = part(cluster, "v1", "Service", name, ETCD)
    service["spec"] = {
        "clusterIP": "None",
        "publishNotReadyAddresses": True,  # members find each other before they are ready
        "selector": selector(cluster, ETCD),
        "ports": [
            {"name": "client", "port": CLIENT_PORT, "targetPort": CLIENT_PORT, "protocol": "TCP"},
            {"name": "peer", "port": PEER_PORT, "targetPort": PEER_PORT, "protocol": "TCP"},
        ],
    }
    budget = part(cluster, "policy/v1", "PodDisruptionBudget", name, ETCD)
    budget["spec"] = {
        "maxUnavailable": 1,
        "selector": {"matchLabels": selector(cluster, ETCD)},
    }
    members = part(cluster, "apps/v1", "StatefulSet", name, ETCD)
    members["spec"] = {
        "replicas": 0 if sleeps else MEMBERS,
        "serviceName": name,
        "podManagementPolicy": "Parallel",
        "selector": {"matchLabels": selector(cluster, ETCD)},
        "persistentVolumeClaimRetentionPolicy": {"whenDeleted": "Retain", "whenScaled": "Retain"},
        "template": {
            "metadata": {"labels": labels(cluster, ETCD)},
            "spec": _pod(cluster, defaults),
        },
        "volumeClaimTemplates": [_volume(cluster)],
    }
    return [service, budget, members]


def _volume(cluster: KafscaleCluster) -> KubeManifest:
    storage = cluster.spec.etcd.storage
    spec: KubeManifest = {
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": storage.size}},
    }
    if storage.storage_class_name:
        spec["storageClassName"] = storage.storage_class_name
    return {"metadata": {"name": "data"}, "spec": spec}


def _pod(cluster: KafscaleCluster, defaults: Defaults) -> KubeManifest:
    name = etcd_name(cluster)
    mounts = [
        {"name": "data", "mountPath": _DATA},
        {"name": "settings", "mountPath": _SETTINGS},
    ]
    prepare = {
        "name": "prepare",
        "image": defaults.operator_image,
        "args": [
            "operator",
            "etcd-member",
            "--name=$(POD_NAME)",
            f"--service={name}.{cluster.metadata.namespace}.svc",
            f"--members={MEMBERS}",
            "--listen=0.0.0.0",
            f"--data-dir={_DATA}/member",
            f"--write={_SETTINGS}/etcd.yaml",
        ],
        "env": [from_field("POD_NAME", "metadata.name")],
        "securityContext": container_security(),
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "volumeMounts": mounts,
    }
    run = {
        "name": ETCD,
        "image": cluster.spec.etcd.image or defaults.etcd_image,
        "command": ["etcd"],
        "args": [f"--config-file={_SETTINGS}/etcd.yaml"],
        "ports": [
            {"name": "client", "containerPort": CLIENT_PORT},
            {"name": "peer", "containerPort": PEER_PORT},
        ],
        "readinessProbe": _probe("/health", failures=3),
        "livenessProbe": _probe(_ALIVE, failures=12),
        "resources": {"requests": {"cpu": "100m", "memory": "256Mi"}, "limits": {"memory": "1Gi"}},
        "securityContext": container_security(),
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "volumeMounts": mounts,
    }
    return {
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "securityContext": pod_security(),
        "affinity": {
            "podAntiAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": [
                    {
                        "topologyKey": "kubernetes.io/hostname",
                        "labelSelector": {"matchLabels": selector(cluster, ETCD)},
                    }
                ]
            }
        },
        "initContainers": [prepare],
        "containers": [run],
        "volumes": [{"name": "settings", "emptyDir": {}}],
    }


def _probe(path: str, failures: int) -> KubeManifest:
    return {
        "httpGet": {"path": path, "port": CLIENT_PORT},
        "periodSeconds": 5,
        "timeoutSeconds": 3,
        "failureThreshold": failures,
    }
