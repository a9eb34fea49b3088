"""The brokers: a StatefulSet without volumes, and the settings of each broker.

Next door: their Services (services.py), how many there are by load (scaling.py), when a changed
template may reach the next broker (planning/rolling.py).
"""

import hashlib
import json
from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

from kafscale.operator.kinds.cluster import KafscaleCluster
from kafscale.operator.parts import security
from kafscale.operator.parts.common import (
    EXTERNAL_PORT,
    KAFKA_PORT,
    METRICS_PORT,
    RESTART,
    TEMPLATE,
    Defaults,
    KubeManifest,
    bucket_variables,
    container_security,
    from_field,
    labels,
    part,
    pod_security,
    probe,
    selector,
    variable,
)

BROKER: Final = "broker"
GRACE_S: Final = 60  # the pause before SIGTERM, handing over, the last flush
SETTINGS_FOLDER: Final = "/etc/kafscale"
_DATA: Final = "/var/lib/kafscale"
_PAUSE_S: Final = 5  # proxies forget an endpoint later than its pod gets SIGTERM
_MOVE_AFTER_S: Final = 30  # from a node that is silent


class Address(NamedTuple):
    """What clients outside are told of one broker."""

    host: str
    port: int


def set_name(cluster: KafscaleCluster) -> str:
    """The name of the brokers' StatefulSet."""
    return f"{cluster.metadata.name}-broker"


def settings_name(cluster: KafscaleCluster) -> str:
    """The name of the ConfigMap with the brokers' settings."""
    return f"{set_name(cluster)}-config"


def headless_name(cluster: KafscaleCluster) -> str:
    """The name of the Service by which each broker has a name of its own."""
    return f"{cluster.metadata.name}-brokers"


def bootstrap_name(cluster: KafscaleCluster) -> str:
    """The name of the Service that clients connect to first."""
    return f"{cluster.metadata.name}-bootstrap"


def bootstrap_address(cluster: KafscaleCluster) -> str:
    """The address for clients inside the Kubernetes cluster."""
    return f"{bootstrap_name(cluster)}.{cluster.metadata.namespace}.svc:{KAFKA_PORT}"


def broker_settings(cluster: KafscaleCluster) -> dict[str, str]:
    """The settings of brokers by their names; those that people wrote come before our own."""
    own = {} if cluster.spec.security is None else security.settings(cluster.spec.security)
    return dict(sorted({**own, **cluster.spec.config.broker}.items()))


def environment(
    cluster: KafscaleCluster, etcd_endpoints: tuple[str, ...], etcd_prefix: str
) -> list[KubeManifest]:
    """The variables of a broker, in an order in which each refers to earlier ones only."""
    spec = cluster.spec
    host = f"$(POD_NAME).{headless_name(cluster)}.$(POD_NAMESPACE).svc"
    found = [
        from_field("POD_NAME", "metadata.name"),
        from_field("POD_NAMESPACE", "metadata.namespace"),
        variable("KAFSCALE_BROKER_ID", "$(POD_NAME)"),
        from_field("KAFSCALE_RACK", "metadata.labels['topology.kubernetes.io/zone']"),
        variable("KAFSCALE_CONFIG", f"{SETTINGS_FOLDER}/{_file_of(cluster, '$(POD_NAME)')}"),
        variable("KAFSCALE_ALLOW_INSECURE_BIND", "true"),  # the network decides who comes here
        variable("KAFSCALE_METRICS_PORT", str(METRICS_PORT)),
        # It is a client that never leaves: brokers would not fall asleep. The chart has one apart.
        variable("KAFSCALE_CONSOLE_ENABLED", "false"),
        variable("KAFSCALE_DATA_DIR", _DATA),
        variable("KAFSCALE_S3_BUCKET", spec.s3.bucket),
        *bucket_variables(spec.s3),
        variable("KAFSCALE_ETCD_ENDPOINTS", ",".join(etcd_endpoints)),
        variable("KAFSCALE_SEGMENT_BYTES", str(spec.config.segment_bytes)),
        variable("KAFSCALE_FLUSH_INTERVAL_MS", str(spec.config.flush_interval_ms)),
        variable("KAFSCALE_CACHE_SIZE", spec.config.cache_size),
    ]
    if etcd_prefix:
        found.append(variable("KAFSCALE_ETCD_PREFIX", etcd_prefix))
    if spec.security is not None:  # listeners are in the file: the short form knows no protocol
        found.append(variable("KAFSCALE_BROKER_HOST", "0.0.0.0"))
    elif spec.brokers.external is None:
        found += [
            variable("KAFSCALE_BROKER_HOST", "0.0.0.0"),
            variable("KAFSCALE_BROKER_PORT", str(KAFKA_PORT)),
            variable("KAFSCALE_ADVERTISED_HOST", host),
        ]
    else:
        inside = f"PLAINTEXT://0.0.0.0:{KAFKA_PORT}"
        found += [
            variable("KAFSCALE_BROKER_HOST", "0.0.0.0"),
            variable("KAFSCALE_LISTENERS", f"{inside},EXTERNAL://0.0.0.0:{EXTERNAL_PORT}"),
        ]
    return found


def _file_of(cluster: KafscaleCluster, pod: str) -> str:
    """The name of a broker's file: each has its own where listeners are in it."""
    is_shared = cluster.spec.brokers.external is None and cluster.spec.security is None
    return "broker.yaml" if is_shared else f"{pod}.yaml"


def most_brokers(cluster: KafscaleCluster) -> int:
    """How many brokers there may be, by hand or by an autoscaler."""
    wanted = cluster.spec.brokers
    return max(wanted.replicas, wanted.autoscaling.max_replicas if wanted.autoscaling else 0)


def settings_map(cluster: KafscaleCluster, outside: Mapping[int, Address]) -> KubeManifest:
    """The files of settings: one for all brokers, or one for each that may be there."""
    made = part(cluster, "v1", "ConfigMap", settings_name(cluster), BROKER)
    made["data"] = {
        _file_of(cluster, f"{set_name(cluster)}-{ordinal}"): json.dumps(
            _file(cluster, ordinal, outside.get(ordinal)), indent=1, sort_keys=True
        )
        for ordinal in range(most_brokers(cluster))
    }
    return made


def _file(cluster: KafscaleCluster, ordinal: int, outside: Address | None) -> dict[str, Any]:
    found: dict[str, Any] = dict(broker_settings(cluster))
    name = f"{set_name(cluster)}-{ordinal}.{headless_name(cluster)}"
    if cluster.spec.security is not None:
        inside = Address(f"{name}.{cluster.metadata.namespace}.svc", KAFKA_PORT)
        found["listeners"] = list(_listeners(cluster, inside, outside))
    elif cluster.spec.brokers.external is not None:
        told = f"PLAINTEXT://{name}.{cluster.metadata.namespace}.svc:{KAFKA_PORT}"
        if outside is not None:
            told += f",EXTERNAL://{outside.host}:{outside.port}"
        found["advertisedListeners"] = told
    return found


def _listeners(
    cluster: KafscaleCluster, inside: Address, outside: Address | None
) -> Iterator[dict[str, Any]]:
    """Give the listeners of one broker, all with the same protocol."""
    told = [("INTERNAL", KAFKA_PORT, inside)]
    if cluster.spec.brokers.external is not None and outside is not None:
        told.append(("EXTERNAL", EXTERNAL_PORT, outside))
    for name, port, address in told:
        yield {
            "name": name,
            "protocol": security.protocol(cluster),
            "host": "0.0.0.0",
            "port": port,
            "advertisedHost": address.host,
            "advertisedPort": address.port,
        }


def brokers(
    cluster: KafscaleCluster,
    defaults: Defaults,
    etcd_endpoints: tuple[str, ...],
    etcd_prefix: str,
    settings: KubeManifest,
) -> KubeManifest:
    """The StatefulSet, without `replicas` and with every pod held at its revision.

    `replicas` is applied apart, because an autoscaler may own it. How far a new template reaches is
    the plan's matter.
    """
    made = part(cluster, "apps/v1", "StatefulSet", set_name(cluster), BROKER)
    template = _template(cluster, defaults, etcd_endpoints, etcd_prefix, settings)
    made["metadata"]["annotations"] = {TEMPLATE: digest(template)}
    made["spec"] = {
        "serviceName": headless_name(cluster),
        "podManagementPolicy": "Parallel",
        "revisionHistoryLimit": 5,
        "minReadySeconds": 0,
        "selector": {"matchLabels": selector(cluster, BROKER)},
        "template": template,
    }
    return made


def digest(value: object) -> str:
    """A short name for a manifest: the same for the same content."""
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:16]


def _template(
    cluster: KafscaleCluster,
    defaults: Defaults,
    etcd_endpoints: tuple[str, ...],
    etcd_prefix: str,
    settings: KubeManifest,
) -> KubeManifest:
    own = cluster.spec.brokers.pod_template
    annotations = {**own.annotations, "kafscale.io/settings": _settings_digest(cluster)}
    if restart := cluster.metadata.annotations.get(RESTART):
        annotations[RESTART] = restart
    spec: KubeManifest = {
        "serviceAccountName": set_name(cluster),
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "terminationGracePeriodSeconds": GRACE_S,
        "securityContext": pod_security(),
        "tolerations": [*own.tolerations, *_soon_elsewhere()],
        "topologySpreadConstraints": _spread(cluster),
        "containers": [_container(cluster, defaults, etcd_endpoints, etcd_prefix)],
        "volumes": [
            {"name": "settings", "configMap": {"name": settings["metadata"]["name"]}},
            {"name": "data", "emptyDir": {}},
            {"name": "tmp", "emptyDir": {}},
            *security.volumes(cluster),
        ],
    }
    for key, value in (
        ("affinity", own.affinity),
        ("nodeSelector", own.node_selector),
        ("priorityClassName", own.priority_class_name),
        ("imagePullSecrets", [{"name": name} for name in own.image_pull_secrets]),
    ):
        if value:
            spec[key] = value
    return {
        "metadata": {
            "labels": {**own.labels, **labels(cluster, BROKER)},
            "annotations": annotations,
        },
        "spec": spec,
    }


def _settings_digest(cluster: KafscaleCluster) -> str:
    """Changes with every setting that a person wrote.

    Addresses outside are left out: a new broker's address is no reason to restart the others.
    """
    external = cluster.spec.brokers.external
    told = [external.type, external.host_template] if external else []
    if cluster.spec.security is not None:
        told.append(security.protocol(cluster))
    return digest([broker_settings(cluster), *told])


def _container(
    cluster: KafscaleCluster, defaults: Defaults, endpoints: tuple[str, ...], prefix: str
) -> KubeManifest:
    resources = cluster.spec.brokers.resources
    ports = [
        {"name": "kafka", "containerPort": KAFKA_PORT},
        {"name": "metrics", "containerPort": METRICS_PORT},
    ]
    if cluster.spec.brokers.external is not None:
        ports.append({"name": "external", "containerPort": EXTERNAL_PORT})
    return {
        "name": BROKER,
        "image": cluster.spec.brokers.image or defaults.broker_image,
        "args": ["serve"],
        "ports": ports,
        "env": environment(cluster, endpoints, prefix),
        "resources": {
            "requests": {"cpu": resources.requests.cpu, "memory": resources.requests.memory},
            "limits": {"cpu": resources.limits.cpu, "memory": resources.limits.memory},
        },
        "startupProbe": probe("/health", period=2, timeout=2, failures=30),
        "livenessProbe": probe("/health", period=10, timeout=5, failures=6),
        "readinessProbe": probe("/ready", period=5, timeout=3, failures=2),
        "lifecycle": {"preStop": {"sleep": {"seconds": _PAUSE_S}}},
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "securityContext": container_security(),
        "volumeMounts": [
            {"name": "settings", "mountPath": SETTINGS_FOLDER, "readOnly": True},
            {"name": "data", "mountPath": _DATA},
            {"name": "tmp", "mountPath": "/tmp"},
            *security.mounts(cluster),
        ],
    }


def _spread(cluster: KafscaleCluster) -> list[KubeManifest]:
    own = cluster.spec.brokers.pod_template.topology_spread_constraints
    if own is not None:
        return own
    return [
        {
            "maxSkew": 1,
            "topologyKey": key,
            "whenUnsatisfiable": "ScheduleAnyway",
            "labelSelector": {"matchLabels": selector(cluster, BROKER)},
            "matchLabelKeys": ["controller-revision-hash"],
        }
        for key in ("topology.kubernetes.io/zone", "kubernetes.io/hostname")
    ]


def _soon_elsewhere() -> list[KubeManifest]:
    return [
        {
            "key": f"node.kubernetes.io/{taint}",
            "operator": "Exists",
            "effect": "NoExecute",
            "tolerationSeconds": _MOVE_AFTER_S,
        }
        for taint in ("not-ready", "unreachable")
    ]
