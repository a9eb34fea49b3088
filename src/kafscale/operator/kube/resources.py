"""Where kinds are found on the API server."""

from typing import Final, NamedTuple

from kafscale.operator.kinds.cluster import API_VERSION


class KindPath(NamedTuple):
    """A kind of object, by its address."""

    api_version: str
    kind: str
    plural: str
    is_namespaced: bool = True

    def path(self, namespace: str = "", name: str = "", sub: str = "") -> str:
        """The path of one object, or of all in a namespace, or of all there are."""
        root = "/api/" if "/" not in self.api_version else "/apis/"
        parts = [root + self.api_version]
        if self.is_namespaced and namespace:
            parts += ["namespaces", namespace]
        parts.append(self.plural)
        parts += [part for part in (name, sub) if part]
        return "/".join(parts)


_ALL: Final = (
    KindPath(API_VERSION, "KafscaleCluster", "kafscaleclusters"),
    KindPath(API_VERSION, "KafscaleTopic", "kafscaletopics"),
    KindPath(API_VERSION, "KafscaleUser", "kafscaleusers"),
    KindPath("apps/v1", "StatefulSet", "statefulsets"),
    KindPath("apps/v1", "Deployment", "deployments"),
    KindPath("v1", "Pod", "pods"),
    KindPath("v1", "Service", "services"),
    KindPath("v1", "ServiceAccount", "serviceaccounts"),
    KindPath("v1", "ConfigMap", "configmaps"),
    KindPath("v1", "Namespace", "namespaces", is_namespaced=False),
    KindPath("v1", "Node", "nodes", is_namespaced=False),
    KindPath("v1", "Secret", "secrets"),
    KindPath("policy/v1", "PodDisruptionBudget", "poddisruptionbudgets"),
    KindPath("autoscaling/v2", "HorizontalPodAutoscaler", "horizontalpodautoscalers"),
    KindPath("networking.k8s.io/v1", "NetworkPolicy", "networkpolicies"),
    KindPath("batch/v1", "CronJob", "cronjobs"),
    KindPath("batch/v1", "Job", "jobs"),
    KindPath("coordination.k8s.io/v1", "Lease", "leases"),
    KindPath("events.k8s.io/v1", "Event", "events"),
    KindPath("rbac.authorization.k8s.io/v1", "ClusterRole", "clusterroles", is_namespaced=False),
    KindPath(
        "rbac.authorization.k8s.io/v1",
        "ClusterRoleBinding",
        "clusterrolebindings",
        is_namespaced=False,
    ),
    KindPath("rbac.authorization.k8s.io/v1", "Role", "roles"),
    KindPath("rbac.authorization.k8s.io/v1", "RoleBinding", "rolebindings"),
    KindPath(
        "apiextensions.k8s.io/v1",
        "CustomResourceDefinition",
        "customresourcedefinitions",
        is_namespaced=False,
    ),
)
RESOURCES: Final[dict[str, KindPath]] = {resource.kind: resource for resource in _ALL}
