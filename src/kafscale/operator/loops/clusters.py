"""The control loop of clusters: look, plan, carry out, tell.

Here: the order in which a plan is carried out, and that the status is written whatever fails.
Next door: the plan (planning/plan.py), what is read (observation.py, brokers/pages.py).
"""

from typing import Any, Final

import aiohttp
import msgspec
import structlog

from kafscale.model.clock import Clock
from kafscale.operator.brokers import pages as broker_pages
from kafscale.operator.brokers.clients import BrokerClients
from kafscale.operator.brokers.config_check import config_problem
from kafscale.operator.kinds.cluster import API_VERSION, KafscaleCluster
from kafscale.operator.kube.client import SCALE_MANAGER, Kube, Object
from kafscale.operator.kube.errors import KubeError
from kafscale.operator.kube.informer import Key
from kafscale.operator.loops.events import Events
from kafscale.operator.loops.observation import Observation
from kafscale.operator.metrics import OperatorMetrics
from kafscale.operator.parts.brokers import digest, set_name
from kafscale.operator.parts.common import DIGEST, IDLE, STOPPED, Defaults, KubeManifest
from kafscale.operator.parts.security import login
from kafscale.operator.passwords import Passwords
from kafscale.operator.planning import health
from kafscale.operator.planning.dead_pods import dead_pods
from kafscale.operator.planning.differences import contains
from kafscale.operator.planning.idleness import Quiet, seconds_of_duration
from kafscale.operator.planning.plan import ClusterPlan, plan, timestamp
from kafscale.operator.planning.seen_cluster import SeenCluster

logger = structlog.get_logger()

KIND: Final = "KafscaleCluster"
ASK_ACTIVATOR_S: Final = 1.0  # a client that waits is found within this time
LOOK_FOR_CLIENTS_S: Final = 10.0


class ClusterLoop:
    """Looks at one cluster at a time."""

    def __init__(
        self,
        kube: Kube,
        http: aiohttp.ClientSession,
        observation: Observation,
        defaults: Defaults,
        clock: Clock,
        events: Events,
        metrics: OperatorMetrics,
        passwords: Passwords,
        clients: BrokerClients,
        topic_counts: dict[Key, int],
    ) -> None:
        self._kube = kube
        self._http = http
        self._observation = observation
        self._defaults = defaults
        self._clock = clock
        self._events = events
        self._metrics = metrics
        self._passwords = passwords
        self._clients = clients
        self._has_login: set[str] = set()  # clusters by uid
        self._topic_counts = topic_counts
        self._quiet: dict[Key, Quiet] = {}

    async def look(self, key: Key) -> float | None:
        """Look at a cluster; gives after how many seconds to look again, None: not by itself."""
        cluster = self._observation.cluster(key)
        if cluster is None or cluster.metadata.deletion_timestamp is not None:
            self._metrics.forget(*key)
            self._quiet.pop(key, None)
            return None
        was_client = key in self._clients
        seen = await self._see(cluster)
        if not was_client and key not in self._clients:  # it would count itself
            cluster = await self._sleep_or_wake(cluster, seen)
        planned = plan(cluster, seen, self._defaults, self._clock.now_ms())
        problem = None
        try:
            await self._carry_out(cluster, planned)
            await self._delete_dead(cluster, seen)
        except KubeError as bad:
            problem = bad
        await self._tell(cluster, planned)
        self._count(cluster, seen, planned)
        if problem is not None:
            raise problem
        return self._next_look_s(cluster, planned)

    async def _see(self, cluster: KafscaleCluster) -> SeenCluster:
        parts = self._observation.parts_of(cluster)
        return msgspec.structs.replace(
            parts,
            facts=await broker_pages.read_facts(self._http, parts.pods),
            topic_count=self._topic_counts.get(cluster.metadata.key),
            config_problem=config_problem(cluster),
        )

    # -- sleeping ----------------------------------------------------------------------------

    async def _sleep_or_wake(self, cluster: KafscaleCluster, seen: SeenCluster) -> KafscaleCluster:
        """Write or take away the annotation that says that the cluster sleeps."""
        after = cluster.spec.brokers.idle_after
        key, marks = cluster.metadata.key, cluster.metadata.annotations
        if after is None or marks.get(STOPPED) == "true":
            return cluster
        quiet = self._quiet.setdefault(key, Quiet())
        if IDLE in marks:
            pods = self._observation.activators(cluster)
            if not await broker_pages.waiting_clients(self._http, pods):
                return cluster
            quiet.wake()
            logger.info("cluster_wakes", namespace=key[0], cluster=key[1])
            return await self._mark(cluster, None)
        silent_s = quiet.observe(seen.facts, len(seen.pods), self._clock.elapsed_s())
        if silent_s < seconds_of_duration(after) or not seen.activator_ready:
            return cluster
        logger.info("cluster_sleeps", namespace=key[0], cluster=key[1])
        return await self._mark(cluster, timestamp(self._clock.now_ms()))

    async def _mark(self, cluster: KafscaleCluster, idle: str | None) -> KafscaleCluster:
        namespace, name = cluster.metadata.key
        patch = {"metadata": {"annotations": {IDLE: idle}}}
        changed = await self._kube.merge(KIND, namespace, name, patch)
        return msgspec.convert(changed, KafscaleCluster)

    # -- carrying out ------------------------------------------------------------------------

    async def _carry_out(self, cluster: KafscaleCluster, planned: ClusterPlan) -> None:
        if planned.objects and cluster.spec.security is not None:
            await self._keep_login(cluster)
        for manifest in planned.objects:
            await self._apply(manifest)
        if planned.replicas is not None and planned.objects:
            await self._scale(cluster, planned.replicas)
        for part in planned.deletions:
            await self._kube.delete(part.kind, cluster.metadata.namespace, part.name)

    async def _keep_login(self, cluster: KafscaleCluster) -> None:
        """Make the Secret with the operator's login, once; brokers read it at their start."""
        if cluster.metadata.uid in self._has_login:
            return
        try:
            await self._kube.create(login(cluster, await self._passwords.of_operator(cluster)))
        except KubeError as problem:
            if not problem.is_conflict:  # it was made before: the password is the same
                raise
        self._has_login.add(cluster.metadata.uid)

    async def _apply(self, manifest: KubeManifest) -> None:
        """Apply an object unless the server has it as it should be."""
        name = digest(manifest)
        live = self._observation.live(manifest)
        if live is not None:
            told = live["metadata"].get("annotations", {}).get(DIGEST)
            if told == name and contains(live, manifest):
                return
            if manifest["kind"] == "Job":
                return  # a job cannot be changed
        metadata = manifest["metadata"]
        marked = {**metadata.get("annotations", {}), DIGEST: name}
        await self._kube.apply({**manifest, "metadata": {**metadata, "annotations": marked}})

    async def _scale(self, cluster: KafscaleCluster, replicas: int) -> None:
        """Set the number of brokers, by a name of its own: an autoscaler may take it over."""
        namespace = cluster.metadata.namespace
        manifest = {
            "apiVersion": "apps/v1",
            "kind": "StatefulSet",
            "metadata": {"name": set_name(cluster), "namespace": namespace},
            "spec": {"replicas": replicas},
        }
        live = self._observation.live(manifest)
        if live is None:
            live = await self._kube.get("StatefulSet", namespace, set_name(cluster))
        if live is not None and live["spec"].get("replicas") != replicas:
            await self._kube.apply(manifest, SCALE_MANAGER)

    async def _delete_dead(self, cluster: KafscaleCluster, seen: SeenCluster) -> None:
        now_s = self._clock.now_ms() / 1000
        for pod in dead_pods(seen.pods, self._observation.nodes(), now_s):
            logger.info("dead_pod_deleted", pod=pod.metadata.name, node=pod.spec.node_name)
            await self._kube.delete(
                "Pod", pod.metadata.namespace, pod.metadata.name, uid=pod.metadata.uid, grace_s=0
            )
            note = f"{pod.metadata.name} was on {pod.spec.node_name}, which is not ready"
            await self._events.tell(KIND, cluster.metadata, "DeadPodDeleted", note, is_bad=True)

    # -- telling -----------------------------------------------------------------------------

    async def _tell(self, cluster: KafscaleCluster, planned: ClusterPlan) -> None:
        if planned.status != msgspec.to_builtins(cluster.status):
            await self._kube.apply_status(self._status(cluster, planned.status))
        for change in planned.changes:
            condition = change.condition
            reason = condition.reason or condition.type
            note = f"{condition.type} is {condition.status}: {condition.message or reason}"
            await self._events.tell(KIND, cluster.metadata, reason, note, is_bad=change.is_bad)

    def _status(self, cluster: KafscaleCluster, status: dict[str, Any]) -> Object:
        namespace, name = cluster.metadata.key
        return {
            "apiVersion": API_VERSION,
            "kind": KIND,
            "metadata": {"name": name, "namespace": namespace},
            "status": status,
        }

    def _count(self, cluster: KafscaleCluster, seen: SeenCluster, planned: ClusterPlan) -> None:
        key = cluster.metadata.key
        conditions = {one["type"]: one for one in planned.status["conditions"]}
        if "Stopped" in conditions:
            self._metrics.ready.drop(*key)  # it is as it should be: no reason for an alarm
        else:
            is_ready = conditions["Ready"]["status"] == "True"
            self._metrics.ready.labels(*key).set(float(is_ready))
        made, access = conditions.get("EtcdSnapshot"), conditions.get("EtcdSnapshotAccess")
        if made is None or access is None:
            self._metrics.forget_snapshots(*key)
            return
        self._metrics.snapshot_stale.labels(*key).set(float(made["reason"] in health.OVERDUE))
        self._metrics.snapshot_access.labels(*key).set(float(access["status"] != "False"))
        if seen.snapshots.failure or seen.snapshots.last_success_s is not None:
            self._metrics.snapshot_success.labels(*key).set(0.0 if seen.snapshots.failure else 1.0)
        if seen.snapshots.last_success_s is not None:
            self._metrics.snapshot_time.labels(*key).set(seen.snapshots.last_success_s)

    def _next_look_s(self, cluster: KafscaleCluster, planned: ClusterPlan) -> float:
        if cluster.spec.brokers.idle_after is None:
            return planned.look_again_s
        if IDLE in cluster.metadata.annotations:
            return ASK_ACTIVATOR_S
        return min(planned.look_again_s, LOOK_FOR_CLIENTS_S)
