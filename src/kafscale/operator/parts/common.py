"""What all parts of a cluster share: names, labels, owner, and the settings of the operator."""

from typing import Any, Final

from msgspec import Struct

from kafscale.operator.kinds.cluster import API_VERSION, KafscaleCluster
from kafscale.operator.kinds.fields import S3Bucket

KubeManifest = dict[str, Any]

KAFKA_PORT: Final = 9092
METRICS_PORT: Final = 9093
EXTERNAL_PORT: Final = 9094
USER: Final = 10001  # of our image; a Pod says it, so that no image can run as root
DIGEST: Final = "kafscale.io/digest"  # of a manifest as it was applied
TEMPLATE: Final = "kafscale.io/template"  # digest of a pod template

RESTART: Final = "kafscale.io/restart"
PAUSED: Final = "kafscale.io/paused"
STOPPED: Final = "kafscale.io/stopped"
IDLE: Final = "kafscale.io/idle"  # written by the operator; the activator takes it away
ACCEPT_LOSS: Final = "kafscale.io/accept-metadata-loss"


class Defaults(Struct, frozen=True, kw_only=True):
    """The settings of the operator that reach into parts."""

    broker_image: str
    etcd_image: str
    operator_image: str
    etcd_endpoints: tuple[str, ...] = ()


def labels(cluster: KafscaleCluster, component: str) -> dict[str, str]:
    """The labels of a part."""
    return {
        **selector(cluster, component),
        "app.kubernetes.io/name": "kafscale",
        "app.kubernetes.io/instance": cluster.metadata.name,
        "app.kubernetes.io/component": component,
        "app.kubernetes.io/part-of": "kafscale",
        "app.kubernetes.io/managed-by": "kafscale-operator",
    }


def selector(cluster: KafscaleCluster, component: str) -> dict[str, str]:
    """The labels by which pods of a component are found."""
    return {"app": f"kafscale-{component}", "cluster": cluster.metadata.name}


def part(
    cluster: KafscaleCluster, api_version: str, kind: str, name: str, component: str
) -> KubeManifest:
    """Begin the manifest of a part: it goes when its cluster goes."""
    return {
        "apiVersion": api_version,
        "kind": kind,
        "metadata": {
            "name": name,
            "namespace": cluster.metadata.namespace,
            "labels": labels(cluster, component),
            "ownerReferences": [
                {
                    "apiVersion": API_VERSION,
                    "kind": "KafscaleCluster",
                    "name": cluster.metadata.name,
                    "uid": cluster.metadata.uid,
                    "controller": True,
                    "blockOwnerDeletion": True,
                }
            ],
        },
    }


def variable(name: str, value: str) -> KubeManifest:
    """One variable of a container."""
    return {"name": name, "value": value}


def from_field(name: str, path: str) -> KubeManifest:
    """A variable with something that the pod knows about itself."""
    return {"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}}


def bucket_variables(s3: S3Bucket) -> list[KubeManifest]:
    """The variables of a bucket. Keys are named one by one: a Secret cannot set anything else."""
    found = [variable("KAFSCALE_S3_REGION", s3.region)]
    if s3.endpoint:
        found.append(variable("KAFSCALE_S3_ENDPOINT", s3.endpoint))
    if s3.credentials_secret_ref:
        for name, key in (
            ("KAFSCALE_S3_ACCESS_KEY", "accessKey"),
            ("KAFSCALE_S3_SECRET_KEY", "secretKey"),
            ("KAFSCALE_S3_SESSION_TOKEN", "sessionToken"),
            ("AWS_ACCESS_KEY_ID", "AWS_ACCESS_KEY_ID"),
            ("AWS_SECRET_ACCESS_KEY", "AWS_SECRET_ACCESS_KEY"),
            ("AWS_SESSION_TOKEN", "AWS_SESSION_TOKEN"),
        ):
            reference = {"name": s3.credentials_secret_ref, "key": key, "optional": True}
            found.append({"name": name, "valueFrom": {"secretKeyRef": reference}})
    return found


def pod_security() -> KubeManifest:
    """What a pod may not do: nothing that the level "restricted" forbids."""
    return {
        "runAsNonRoot": True,
        "runAsUser": USER,
        "runAsGroup": USER,
        "fsGroup": USER,
        "seccompProfile": {"type": "RuntimeDefault"},
    }


def container_security() -> KubeManifest:
    """What a container may not do."""
    return {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }


def probe(path: str, *, period: int, timeout: int, failures: int) -> KubeManifest:
    """Ask the page for operators."""
    return {
        "httpGet": {"path": path, "port": METRICS_PORT},
        "periodSeconds": period,
        "timeoutSeconds": timeout,
        "failureThreshold": failures,
    }
