"""Reading everything of one cluster before a plan is made, from the copies that informers keep.

Next door: the plan (planning/plan.py), the informers (kube/informer.py).
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final, TypeVar

import msgspec

from kafscale.operator.kinds.cluster import KafscaleCluster
from kafscale.operator.kinds.seen import KubeJob, KubeNode, Pod, Service, StatefulSet
from kafscale.operator.kinds.topic import KafscaleTopic
from kafscale.operator.kinds.user import KafscaleUser
from kafscale.operator.kube.client import Object
from kafscale.operator.kube.informer import Informer, Key
from kafscale.operator.parts import activator, brokers, etcd, jobs
from kafscale.operator.parts.common import selector
from kafscale.operator.parts.etcd_source import etcd_name
from kafscale.operator.planning.health import last_line
from kafscale.operator.planning.plan import seconds_of
from kafscale.operator.planning.seen_cluster import SeenCluster, SnapshotFacts

T = TypeVar("T")
OfCluster = TypeVar("OfCluster", KafscaleTopic, KafscaleUser)

# What the operator follows of parts, by label.
PARTS: Final = (
    "StatefulSet",
    "Deployment",
    "Pod",
    "Service",
    "ServiceAccount",
    "ConfigMap",
    "PodDisruptionBudget",
    "HorizontalPodAutoscaler",
    "CronJob",
    "Job",
    "NetworkPolicy",
)


class Observation:
    """Reads from the informers, by kind."""

    def __init__(self, informers: Mapping[str, Informer]) -> None:
        self._informers = informers

    def cluster(self, key: Key) -> KafscaleCluster | None:
        """The cluster as it was last seen."""
        found = self._informers["KafscaleCluster"].get(*key)
        return None if found is None else msgspec.convert(found, KafscaleCluster)

    def live(self, manifest: Mapping[str, Any]) -> Object | None:
        """The object that a manifest is about, as it was last seen."""
        metadata = manifest["metadata"]
        return self._informers[manifest["kind"]].get(metadata["namespace"], metadata["name"])

    def nodes(self) -> dict[str, KubeNode]:
        """All nodes."""
        return {
            one["metadata"]["name"]: msgspec.convert(one, KubeNode)
            for one in self._informers["Node"]
        }

    def activators(self, cluster: KafscaleCluster) -> list[Pod]:
        """The pods of the activator."""
        return [pod for pod in self._pods(cluster, activator.ACTIVATOR) if pod.status.pod_ip]

    def parts_of(self, cluster: KafscaleCluster) -> SeenCluster:
        """Everything but what brokers say themselves."""
        namespace = cluster.metadata.namespace
        name = brokers.set_name(cluster)
        services = self._of(cluster, "Service", Service)
        runs = self._pods(cluster, activator.ACTIVATOR)
        return SeenCluster(
            brokers=self._one("StatefulSet", StatefulSet, namespace, name),
            pods=tuple(self._pods(cluster, brokers.BROKER)),
            etcd=self._one("StatefulSet", StatefulSet, namespace, etcd_name(cluster)),
            etcd_pods=tuple(self._pods(cluster, etcd.ETCD)),
            services={one.metadata.name: one for one in services},
            jobs={one.metadata.name: one for one in self._of(cluster, "Job", KubeJob)},
            snapshots=self._snapshots(cluster),
            restore_failure=self._restore_failure(cluster),
            activator_ready=any(pod.is_ready for pod in runs),
            has_autoscaler=self._is_there("HorizontalPodAutoscaler", namespace, name),
            has_budget=self._is_there("PodDisruptionBudget", namespace, name),
            has_policy=self._is_there("NetworkPolicy", namespace, name),
            has_snapshots=self._is_there("CronJob", namespace, f"{etcd_name(cluster)}-snapshot"),
            has_activator=self._is_there(
                "Deployment", namespace, activator.activator_name(cluster)
            ),
        )

    def _snapshots(self, cluster: KafscaleCluster) -> SnapshotFacts:
        wanted = cluster.spec.etcd.snapshot
        if wanted is None:
            return SnapshotFacts()
        marks = {"app": f"kafscale-{jobs.SNAPSHOT}"}
        marks[jobs.TARGET] = jobs.snapshot_target(cluster, wanted)
        made = [
            job
            for job in self._of(cluster, "Job", KubeJob)
            if marks.items() <= job.metadata.labels.items()
        ]
        ended = sorted(
            (job for job in made if job.status.succeeded or job.status.failed),
            key=lambda job: job.metadata.creation_timestamp,
        )
        done = [
            seconds_of(job.status.completion_time or "") for job in made if job.status.succeeded
        ]
        if not ended or ended[-1].status.succeeded:
            return SnapshotFacts(last_success_s=max(done, default=None))
        said = self._last_words(cluster, jobs.SNAPSHOT, ended[-1].metadata.name)
        reason, _, words = said.partition(": ")
        is_reason = reason.isalpha() and bool(words)
        return SnapshotFacts(
            last_success_s=max(done, default=None),
            failure=words if is_reason else said,
            reason=reason if is_reason else "",
        )

    def _restore_failure(self, cluster: KafscaleCluster) -> str:
        asked = cluster.spec.etcd.restore
        if asked is None:
            return ""
        name = jobs.restore_name(cluster, asked.request)
        job = self._one("Job", KubeJob, cluster.metadata.namespace, name)
        if job is None or not job.status.is_given_up:
            return ""
        return self._last_words(cluster, jobs.RESTORE, name)

    def _last_words(self, cluster: KafscaleCluster, component: str, job: str) -> str:
        for pod in self._pods(cluster, component):
            if pod.metadata.labels.get("job-name") != job:
                continue
            status = pod.status
            for container in (*status.init_container_statuses, *status.container_statuses):
                if container.state.terminated and container.state.terminated.exit_code:
                    return last_line(container.state.terminated.message).removeprefix("kafscale: ")
        return f"job {job} failed"

    def _pods(self, cluster: KafscaleCluster, component: str) -> list[Pod]:
        wanted = selector(cluster, component).items()
        found = [
            msgspec.convert(one, Pod)
            for one in self._in(cluster, "Pod")
            if wanted <= one["metadata"].get("labels", {}).items()
        ]
        return sorted(found, key=lambda pod: (pod.ordinal, pod.metadata.name))

    def _of(self, cluster: KafscaleCluster, kind: str, struct: type[T]) -> list[T]:
        return [msgspec.convert(one, struct) for one in self._in(cluster, kind)]

    def _in(self, cluster: KafscaleCluster, kind: str) -> Iterator[Object]:
        for one in self._informers[kind]:
            metadata = one["metadata"]
            if metadata["namespace"] != cluster.metadata.namespace:
                continue
            if metadata.get("labels", {}).get("cluster") == cluster.metadata.name:
                yield one

    def _one(self, kind: str, struct: type[T], namespace: str, name: str) -> T | None:
        found = self._informers[kind].get(namespace, name)
        return None if found is None else msgspec.convert(found, struct)

    def _is_there(self, kind: str, namespace: str, name: str) -> bool:
        return self._informers[kind].get(namespace, name) is not None


def objects_of(informer: Informer, struct: type[OfCluster], cluster: Key) -> list[OfCluster]:
    """The topics or users of a cluster, by their names."""
    namespace, name = cluster
    found = [
        msgspec.convert(one, struct)
        for one in informer
        if one["metadata"]["namespace"] == namespace and one["spec"]["clusterRef"] == name
    ]
    return sorted(found, key=lambda one: one.metadata.name)
