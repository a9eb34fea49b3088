"""Work on the metadata store beside the brokers: snapshots by schedule, and rebuilding it.

Next door: the managed etcd (etcd.py), what these jobs do (etcd/snapshot.py; `kafscale recover`).
"""

from typing import Final

from kafscale.operator.kinds.cluster import KafscaleCluster
from kafscale.operator.kinds.etcd import EtcdSnapshots, Restore
from kafscale.operator.parts.brokers import (
    SETTINGS_FOLDER,
    digest,
    environment,
    set_name,
    settings_name,
)
from kafscale.operator.parts.common import (
    Defaults,
    KubeManifest,
    bucket_variables,
    container_security,
    labels,
    part,
    pod_security,
    variable,
)
from kafscale.operator.parts.etcd_source import EtcdSource, etcd_name

SNAPSHOT: Final = "etcd-snapshot"
# Which bucket a job was made for: what it found says nothing about another one.
TARGET: Final = "kafscale.io/snapshot-target"
RESTORE: Final = "restore"
_WITHIN_S: Final = 900
_BEGIN_WITHIN_S: Final = 600


def snapshots(
    cluster: KafscaleCluster,
    wanted: EtcdSnapshots,
    etcd: EtcdSource,
    defaults: Defaults,
    *,
    suspended: bool = False,
) -> KubeManifest:
    """Make snapshots by a schedule, in a bucket of their own; none while etcd sleeps."""
    made = part(cluster, "batch/v1", "CronJob", f"{etcd_name(cluster)}-snapshot", SNAPSHOT)
    marks = {**labels(cluster, SNAPSHOT), TARGET: snapshot_target(cluster, wanted)}
    made["spec"] = {
        "schedule": wanted.schedule,
        "suspend": suspended,
        "concurrencyPolicy": "Forbid",
        "startingDeadlineSeconds": _BEGIN_WITHIN_S,
        "successfulJobsHistoryLimit": 3,
        "failedJobsHistoryLimit": 3,
        "jobTemplate": {
            "metadata": {"labels": marks},
            "spec": _snapshot(cluster, wanted, etcd, defaults),
        },
    }
    return made


def first_snapshot(
    cluster: KafscaleCluster, wanted: EtcdSnapshots, etcd: EtcdSource, defaults: Defaults
) -> KubeManifest:
    """Make one snapshot at once: a bucket that does not take it is told before it is needed."""
    target = snapshot_target(cluster, wanted)
    made = part(cluster, "batch/v1", "Job", f"{etcd_name(cluster)}-snapshot-{target}", SNAPSHOT)
    made["metadata"]["labels"][TARGET] = target
    made["spec"] = _snapshot(cluster, wanted, etcd, defaults)
    return made


def snapshot_target(cluster: KafscaleCluster, wanted: EtcdSnapshots) -> str:
    """A short name for the bucket, its credentials, and the place in it."""
    return digest([wanted.s3.bucket, _folder(cluster, wanted), bucket_variables(wanted.s3)])[:8]


def _snapshot(
    cluster: KafscaleCluster, wanted: EtcdSnapshots, etcd: EtcdSource, defaults: Defaults
) -> KubeManifest:
    return {
        "backoffLimit": 1,
        "activeDeadlineSeconds": _WITHIN_S,
        "template": {
            "metadata": {"labels": labels(cluster, SNAPSHOT)},
            "spec": {
                **_pod(cluster),
                "containers": [
                    {
                        "name": "snapshot",
                        "image": defaults.operator_image,
                        "args": [
                            "operator",
                            "snapshot",
                            f"--endpoints={','.join(etcd.endpoints)}",
                            f"--bucket={wanted.s3.bucket}",
                            f"--prefix={_folder(cluster, wanted)}",
                            f"--retention={wanted.retention}",
                        ],
                        "env": bucket_variables(wanted.s3),
                        **_container(),
                    }
                ],
            },
        },
    }


def _folder(cluster: KafscaleCluster, wanted: EtcdSnapshots) -> str:
    """What keys of this cluster's snapshots begin with."""
    return f"{wanted.prefix}/{cluster.metadata.name}"


def restore_name(cluster: KafscaleCluster, request: str) -> str:
    """The name of the job that fulfils a request."""
    return f"{cluster.metadata.name}-restore-{digest(request)[:8]}"


def restore(
    cluster: KafscaleCluster, asked: Restore, etcd: EtcdSource, defaults: Defaults
) -> KubeManifest:
    """Rebuild the metadata while no broker runs.

    From a snapshot that takes two steps: its keys are put into etcd, and then topics and numbers
    are brought up to what the bucket says.
    """
    made = part(cluster, "batch/v1", "Job", restore_name(cluster, asked.request), RESTORE)
    pod = _pod(cluster)
    files = {"name": "settings", "configMap": {"name": settings_name(cluster)}}
    mount = {"name": "settings", "mountPath": SETTINGS_FOLDER, "readOnly": True}
    container = _container()
    snapshots = cluster.spec.etcd.snapshot if asked.source == "Snapshot" else None
    whole: KubeManifest = {
        **pod,
        "volumes": [*pod["volumes"], files],
        "containers": [
            {
                **container,
                "name": "restore",
                "image": cluster.spec.brokers.image or defaults.broker_image,
                "args": ["recover", "--from-bucket", *(["--force"] if snapshots else [])],
                "env": _settings_of_first(cluster, etcd),
                "volumeMounts": [*container["volumeMounts"], mount],
            }
        ],
    }
    if snapshots is not None:
        whole["initContainers"] = [_load(cluster, asked, snapshots, etcd, defaults)]
    made["spec"] = {
        "backoffLimit": 3,
        "template": {"metadata": {"labels": labels(cluster, RESTORE)}, "spec": whole},
    }
    return made


def _load(
    cluster: KafscaleCluster,
    asked: Restore,
    snapshots: EtcdSnapshots,
    etcd: EtcdSource,
    defaults: Defaults,
) -> KubeManifest:
    """Put the keys of a snapshot into etcd."""
    return {
        **_container(),
        "name": "load",
        "image": defaults.operator_image,
        "args": [
            "operator",
            "load-snapshot",
            f"--endpoints={','.join(etcd.endpoints)}",
            f"--bucket={snapshots.s3.bucket}",
            f"--prefix={_folder(cluster, snapshots)}",
            *([f"--key={asked.key}"] if asked.key else []),
            *([f"--etcd-prefix={etcd.prefix}"] if etcd.prefix else []),
        ],
        "env": bucket_variables(snapshots.s3),
    }


def _settings_of_first(cluster: KafscaleCluster, etcd: EtcdSource) -> list[KubeManifest]:
    """The variables of the first broker: its bucket, its etcd, its file of settings."""
    first = f"{set_name(cluster)}-0"
    found = [variable("POD_NAMESPACE", cluster.metadata.namespace)]
    for one in environment(cluster, etcd.endpoints, etcd.prefix):
        if "value" in one:
            found.append({**one, "value": one["value"].replace("$(POD_NAME)", first)})
        elif "secretKeyRef" in one["valueFrom"]:
            found.append(one)
    return found


def _pod(cluster: KafscaleCluster) -> KubeManifest:
    return {
        "restartPolicy": "Never",
        "serviceAccountName": set_name(cluster),
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "securityContext": pod_security(),
        "volumes": [{"name": "tmp", "emptyDir": {}}],
    }


def _container() -> KubeManifest:
    return {
        "securityContext": container_security(),
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "resources": {"requests": {"cpu": "100m", "memory": "128Mi"}, "limits": {"memory": "1Gi"}},
        "volumeMounts": [{"name": "tmp", "mountPath": "/tmp"}],
    }
