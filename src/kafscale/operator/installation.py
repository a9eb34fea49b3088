"""What it takes to install the operator: definitions, rights, the Deployment.

Here: the rights stand once, as a table. The chart has a copy that a test compares.
"""

from typing import Any, Final

from kafscale.operator.kinds.cluster import GROUP
from kafscale.operator.kinds.crds import definitions
from kafscale.operator.parts.common import container_security, pod_security
from kafscale.operator.passwords import PASSWORD_KEY

# Parts are followed and applied. Most go with their cluster; some go when the spec drops them.
_KEEP: Final = ["list", "watch", "create", "patch"]
_DROP: Final = [*_KEEP, "delete"]

# What the operator may do in the namespaces that it watches.
RULES: Final[list[dict[str, list[str]]]] = [
    {
        "apiGroups": [GROUP],
        "resources": ["kafscaleclusters", "kafscaletopics", "kafscaleusers"],
        "verbs": ["list", "watch", "patch"],
    },
    {
        "apiGroups": [GROUP],
        "resources": ["kafscaleclusters/status", "kafscaletopics/status", "kafscaleusers/status"],
        "verbs": ["patch"],
    },
    {
        "apiGroups": [GROUP],
        "resources": [
            "kafscaleclusters/finalizers",
            "kafscaletopics/finalizers",
            "kafscaleusers/finalizers",
        ],
        "verbs": ["update"],
    },
    {"apiGroups": ["apps"], "resources": ["statefulsets"], "verbs": ["get", *_KEEP]},
    {"apiGroups": ["apps"], "resources": ["deployments"], "verbs": _DROP},
    {
        "apiGroups": [""],
        "resources": ["services", "configmaps", "serviceaccounts"],
        "verbs": _KEEP,
    },
    {"apiGroups": ["policy"], "resources": ["poddisruptionbudgets"], "verbs": _DROP},
    {"apiGroups": ["autoscaling"], "resources": ["horizontalpodautoscalers"], "verbs": _DROP},
    {"apiGroups": ["networking.k8s.io"], "resources": ["networkpolicies"], "verbs": _DROP},
    {"apiGroups": ["batch"], "resources": ["cronjobs"], "verbs": _DROP},
    {"apiGroups": ["batch"], "resources": ["jobs"], "verbs": _KEEP},
    {"apiGroups": [""], "resources": ["pods"], "verbs": ["list", "watch", "delete"]},
    # Passwords that it makes. It reads none: it can compute those that it made.
    {"apiGroups": [""], "resources": ["secrets"], "verbs": ["create"]},
    {"apiGroups": ["events.k8s.io"], "resources": ["events"], "verbs": ["create"]},
]
# Nodes have no namespace: whether one is dead decides about pods that cannot end.
NODE_RULES: Final[list[dict[str, list[str]]]] = [
    {"apiGroups": [""], "resources": ["nodes"], "verbs": ["list", "watch"]}
]
# What it may do in its own namespace alone.
LEASE_RULES: Final[list[dict[str, list[str]]]] = [
    {
        "apiGroups": ["coordination.k8s.io"],
        "resources": ["leases"],
        "verbs": ["get", "create", "update"],
    },
    # What its passwords are computed from.
    {"apiGroups": [""], "resources": ["secrets"], "verbs": ["create"]},
    {
        "apiGroups": [""],
        "resources": ["secrets"],
        "resourceNames": [PASSWORD_KEY],
        "verbs": ["get"],
    },
]

_RBAC: Final = "rbac.authorization.k8s.io"
_NAME: Final = "kafscale-operator"
_LABELS: Final = {
    "app.kubernetes.io/name": _NAME,
    "app.kubernetes.io/part-of": "kafscale",
}


def manifests(namespace: str, image: str) -> list[dict[str, Any]]:
    """Everything that `kubectl apply` needs, in the order of its use."""
    return [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}},
        *definitions(),
        _made("v1", "ServiceAccount", namespace),
        {**_made(f"{_RBAC}/v1", "ClusterRole", ""), "rules": [*RULES, *NODE_RULES]},
        {
            **_made(f"{_RBAC}/v1", "ClusterRoleBinding", ""),
            "roleRef": {"apiGroup": _RBAC, "kind": "ClusterRole", "name": _NAME},
            "subjects": [_subject(namespace)],
        },
        {**_made(f"{_RBAC}/v1", "Role", namespace), "rules": LEASE_RULES},
        {
            **_made(f"{_RBAC}/v1", "RoleBinding", namespace),
            "roleRef": {"apiGroup": _RBAC, "kind": "Role", "name": _NAME},
            "subjects": [_subject(namespace)],
        },
        {**_made("apps/v1", "Deployment", namespace), "spec": _deployment(image)},
    ]


def _made(api_version: str, kind: str, namespace: str) -> dict[str, Any]:
    metadata: dict[str, Any] = {"name": _NAME, "labels": dict(_LABELS)}
    if namespace:
        metadata["namespace"] = namespace
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata}


def _subject(namespace: str) -> dict[str, str]:
    return {"kind": "ServiceAccount", "name": _NAME, "namespace": namespace}


def _deployment(image: str) -> dict[str, Any]:
    def probe(path: str) -> dict[str, Any]:
        return {"httpGet": {"path": path, "port": 8080}, "periodSeconds": 10, "timeoutSeconds": 5}

    return {
        "replicas": 2,
        "selector": {"matchLabels": dict(_LABELS)},
        "template": {
            "metadata": {"labels": dict(_LABELS)},
            "spec": {
                "serviceAccountName": _NAME,
                "enableServiceLinks": False,
                "securityContext": pod_security(),
                "containers": [
                    {
                        "name": "operator",
                        "image": image,
                        "args": ["operator", "run"],
                        "env": [
                            {
                                "name": "KAFSCALE_OPERATOR_IDENTITY",
                                "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}},
                            },
                            {"name": "KAFSCALE_OPERATOR_IMAGE", "value": image},
                        ],
                        "ports": [{"name": "metrics", "containerPort": 8080}],
                        "livenessProbe": probe("/health"),
                        "readinessProbe": probe("/ready"),
                        "resources": {
                            "requests": {"cpu": "50m", "memory": "128Mi"},
                            "limits": {"memory": "256Mi"},
                        },
                        "securityContext": container_security(),
                        "volumeMounts": [{"name": "tmp", "mountPath": "/tmp"}],
                    }
                ],
                "volumes": [{"name": "tmp", "emptyDir": {}}],
            },
        },
    }
