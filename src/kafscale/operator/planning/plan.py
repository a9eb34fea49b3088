"""The plan of a cluster: what should be there, given what is wanted and what was seen.

Here: a pure function. The same input gives the same bytes, and a plan made after the plan before it
was carried out changes nothing.
Next door: the parts (parts/), judgements (health.py), rolls (rolling.py), carrying it out
(loops/clusters.py).
"""

import datetime
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from msgspec import Struct, field, to_builtins

from kafscale.operator.kinds.cluster import (
    ClusterObjectStatus,
    KafscaleCluster,
)
from kafscale.operator.kinds.etcd import EtcdSnapshots, EtcdStatus
from kafscale.operator.parts import activator, brokers, etcd, jobs, network, scaling, services
from kafscale.operator.parts.common import (
    IDLE,
    PAUSED,
    STOPPED,
    TEMPLATE,
    Defaults,
    KubeManifest,
    selector,
)
from kafscale.operator.parts.etcd_source import EtcdSource, etcd_name, resolve
from kafscale.operator.planning import health, rolling
from kafscale.operator.planning.conditions import Judgement, Turn, changes, merge
from kafscale.operator.planning.outside import (
    addressed_brokers,
    external_finding,
    outside_addresses,
    outside_bootstrap,
)
from kafscale.operator.planning.restoring import (
    RESTORING,
    Restoration,
    restoration,
    restore_findings,
)
from kafscale.operator.planning.rolling import Roll
from kafscale.operator.planning.seen_cluster import SeenCluster

REST_S: Final = 60.0  # between two looks when nothing happens
SOON_S: Final = 2.0  # while something is under way


class Part(NamedTuple):
    """An object by its kind and name."""

    api_version: str
    kind: str
    name: str


class ClusterPlan(Struct, frozen=True, kw_only=True):
    """What is to be done, in this order: objects, replicas, deletions, status."""

    objects: list[KubeManifest] = field(default_factory=list)
    replicas: int | None = None  # of the brokers; None: they are an autoscaler's matter
    deletions: list[Part] = field(default_factory=list)
    status: dict[str, Any] = field(default_factory=dict)
    changes: list[Turn] = field(default_factory=list)
    look_again_s: float = REST_S


class _Wish(NamedTuple):
    """What the annotations and the spec ask for at this moment."""

    is_paused: bool
    is_stopped: bool  # by a person
    is_idle: bool  # by the operator, until a client comes
    restore: Restoration | None  # one that is not done

    @property
    def without_brokers(self) -> bool:
        return self.is_stopped or self.is_idle or self.restore is not None


def plan(
    cluster: KafscaleCluster, seen: SeenCluster, defaults: Defaults, now_ms: int
) -> ClusterPlan:
    """Make the plan of a cluster."""
    source = resolve(cluster, defaults)
    wish = _wish(cluster, seen, source)
    roll = _roll(cluster, seen, defaults, source)
    replicas = _replicas(cluster, seen, wish, source)
    findings = list(_findings(cluster, seen, wish, source, roll, now_ms))
    status = _status(cluster, seen, source, defaults, findings, now_ms)
    turned = changes(cluster.status.conditions, status.conditions)
    told = to_builtins(status)
    if wish.is_paused:
        return ClusterPlan(status=told, changes=turned)
    is_settled = all(
        finding.status is not False or finding.type == RESTORING for finding in findings
    )
    return ClusterPlan(
        objects=list(_objects(cluster, seen, wish, source, defaults, roll)),
        replicas=replicas,
        deletions=list(_deletions(cluster, seen, wish, source)),
        status=told,
        changes=turned,
        look_again_s=REST_S if is_settled and roll.is_done else SOON_S,
    )


def _wish(cluster: KafscaleCluster, seen: SeenCluster, source: EtcdSource) -> _Wish:
    marks = cluster.metadata.annotations
    return _Wish(
        is_paused=marks.get(PAUSED) == "true",
        is_stopped=marks.get(STOPPED) == "true",
        is_idle=IDLE in marks and cluster.spec.brokers.idle_after is not None,
        restore=restoration(cluster, seen, _answers(source, seen)),
    )


def _answers(source: EtcdSource, seen: SeenCluster) -> bool:
    return health.etcd_finding(source, seen).status is not False


def _etcd_sleeps(seen: SeenCluster, wish: _Wish, source: EtcdSource) -> bool:
    """Whether the managed etcd has nothing to do: no broker and no job is there, or asked for."""
    is_asleep = wish.is_idle and not wish.is_stopped and wish.restore is None
    at_work = any(job.status.active for job in seen.jobs.values())
    return source.is_managed and is_asleep and not seen.pods and not at_work


def _replicas(
    cluster: KafscaleCluster, seen: SeenCluster, wish: _Wish, source: EtcdSource
) -> int | None:
    if wish.without_brokers:
        return 0
    live = seen.brokers
    is_away = live is not None and not live.spec.replicas
    if source.is_managed and is_away and not _answers(source, seen):
        # A broker that finds no etcd ends, and Kubernetes waits before it starts it again.
        return 0
    if cluster.spec.brokers.autoscaling is not None and live is not None and live.spec.replicas:
        # One that was just made has one broker; the autoscaler takes over from `replicas`.
        return (
            None if seen.has_autoscaler else max(live.spec.replicas, cluster.spec.brokers.replicas)
        )
    wanted = cluster.spec.brokers.replicas
    if cluster.spec.brokers.external is None:
        return wanted
    # A broker reads its address outside when it starts: one more waits until it has one.
    there = live.spec.replicas if live is not None else 0
    return min(wanted, max(there, addressed_brokers(cluster, seen)))


# -- objects ---------------------------------------------------------------------------------


def _objects(
    cluster: KafscaleCluster,
    seen: SeenCluster,
    wish: _Wish,
    source: EtcdSource,
    defaults: Defaults,
    roll: Roll,
) -> Iterator[KubeManifest]:
    """Give the objects in the order in which they are applied."""
    yield services.account(cluster)
    if source.is_managed:
        sleeps = _etcd_sleeps(seen, wish, source)
        yield from etcd.managed_etcd(cluster, defaults, sleeps=sleeps)
        yield network.etcd_policy(cluster)
        if cluster.spec.etcd.snapshot is not None:
            yield jobs.snapshots(
                cluster, cluster.spec.etcd.snapshot, source, defaults, suspended=sleeps
            )
            # Brokers refuse to run on an etcd that lost its rows: that is not worth a snapshot.
            if any(pod.is_ready for pod in seen.pods):
                yield jobs.first_snapshot(cluster, cluster.spec.etcd.snapshot, source, defaults)
    yield services.headless(cluster)
    yield services.bootstrap(
        cluster, activator.ACTIVATOR if _leads_to_activator(wish, seen) else brokers.BROKER
    )
    yield from services.external(cluster)
    if (policy := network.broker_policy(cluster)) is not None:
        yield policy
    if cluster.spec.brokers.idle_after is not None:
        yield activator.activator(cluster, defaults)
    if source.refused is None and seen.config_problem is None and not _waits(cluster, seen, source):
        settings = brokers.settings_map(cluster, outside_addresses(cluster, seen))
        yield settings
        yield _stateful_set(cluster, defaults, source, settings, roll)
    if wish.restore is not None and not seen.pods and _answers(source, seen):
        yield jobs.restore(cluster, wish.restore.asked, source, defaults)
    if not wish.without_brokers:
        yield services.disruption_budget(cluster)
        scaler = scaling.autoscaler(cluster)
        if scaler is not None and seen.brokers is not None:
            yield scaler


def _leads_to_activator(wish: _Wish, seen: SeenCluster) -> bool:
    """Until a broker is ready again, clients stay with the activator."""
    was_woken = seen.has_activator and not wish.is_stopped
    return wish.is_idle or (was_woken and not any(pod.is_ready for pod in seen.pods))


def _stateful_set(
    cluster: KafscaleCluster,
    defaults: Defaults,
    source: EtcdSource,
    settings: KubeManifest,
    roll: Roll,
) -> KubeManifest:
    made = brokers.brokers(cluster, defaults, source.endpoints, source.prefix, settings)
    made["spec"]["updateStrategy"] = {
        "type": "RollingUpdate",
        "rollingUpdate": {"partition": roll.partition},
    }
    return made


def _roll(
    cluster: KafscaleCluster, seen: SeenCluster, defaults: Defaults, source: EtcdSource
) -> Roll:
    live = seen.brokers
    if live is None:
        return Roll(0, rolling.ROLLING, "the brokers are made")
    settings = brokers.settings_map(cluster, outside_addresses(cluster, seen))
    wanted = brokers.brokers(cluster, defaults, source.endpoints, source.prefix, settings)
    template = wanted["metadata"]["annotations"][TEMPLATE]
    if live.metadata.annotations.get(TEMPLATE) != template:
        return rolling.begin(live.spec.replicas)
    return rolling.go_on(live, seen)


def _waits(cluster: KafscaleCluster, seen: SeenCluster, source: EtcdSource) -> bool:
    """Whether brokers cannot be made yet: no etcd answers, or addresses outside are not known."""
    if seen.brokers is not None:
        return False
    if not _answers(source, seen):
        return True
    if cluster.spec.brokers.external is None:
        return False
    return len(outside_addresses(cluster, seen)) < cluster.spec.brokers.replicas


def _deletions(
    cluster: KafscaleCluster, seen: SeenCluster, wish: _Wish, source: EtcdSource
) -> Iterator[Part]:
    """Give the parts that an earlier spec had and this one has not. Volumes and buckets stay."""
    name = brokers.set_name(cluster)
    if seen.has_autoscaler and (wish.without_brokers or cluster.spec.brokers.autoscaling is None):
        yield Part("autoscaling/v2", "HorizontalPodAutoscaler", name)
    if seen.has_budget and wish.without_brokers:
        yield Part("policy/v1", "PodDisruptionBudget", name)
    if seen.has_policy and cluster.spec.brokers.access_from is None:
        yield Part("networking.k8s.io/v1", "NetworkPolicy", name)
    if seen.has_activator and cluster.spec.brokers.idle_after is None:
        yield Part("apps/v1", "Deployment", activator.activator_name(cluster))
    if seen.has_snapshots and (not source.is_managed or cluster.spec.etcd.snapshot is None):
        yield Part("batch/v1", "CronJob", f"{etcd_name(cluster)}-snapshot")


# -- status ----------------------------------------------------------------------------------


def _findings(
    cluster: KafscaleCluster,
    seen: SeenCluster,
    wish: _Wish,
    source: EtcdSource,
    roll: Roll,
    now_ms: int,
) -> Iterator[Judgement]:
    """Judge everything; `Ready` comes first and has the reason of the first that matters."""
    wanted = 0 if wish.without_brokers else _wanted_brokers(cluster, seen)
    sleeps = _etcd_sleeps(seen, wish, source)
    parts = [
        health.config_finding(cluster, seen),
        health.etcd_finding(source, seen, sleeps=sleeps),
        health.brokers_finding(seen, wanted),
    ]
    if cluster.spec.brokers.external is not None:
        parts.append(external_finding(cluster, seen, _wanted_brokers(cluster, seen)))
    bad = next((part for part in parts if part.status is False), None)
    if wish.without_brokers:
        reason = wish.restore.reason if wish.restore else "Stopped" if wish.is_stopped else "Idle"
        yield Judgement("Ready", False, reason, _why_without(wish))
    elif bad is not None:
        yield Judgement("Ready", False, bad.reason, bad.message)
    else:
        yield Judgement("Ready", True, "Ready", f"clients connect to {_bootstrap(cluster)}")
    yield from parts
    yield Judgement("RolledOut", roll.is_done, roll.reason, roll.message)
    if source.is_managed and cluster.spec.etcd.snapshot is not None:
        yield _snapshot_finding(cluster, cluster.spec.etcd.snapshot, seen, now_ms / 1000, sleeps)
        yield health.access_finding(seen.snapshots)
    for kind, is_so, words in (
        ("Paused", wish.is_paused, f"the annotation {PAUSED} is true: nothing is changed"),
        ("Stopped", wish.is_stopped or wish.is_idle, _why_without(wish)),
    ):
        if is_so:
            yield Judgement(kind, True, kind, words)
    yield from restore_findings(cluster, wish.restore)


def _snapshot_finding(
    cluster: KafscaleCluster, wanted: EtcdSnapshots, seen: SeenCluster, now_s: float, sleeps: bool
) -> Judgement:
    if sleeps:
        words = "etcd sleeps; snapshots are made when it is awake"
        return Judgement("EtcdSnapshot", None, health.ASLEEP, words)
    period_s = health.period_s(wanted.schedule)
    begun = [seconds_of(pod.metadata.creation_timestamp) for pod in seen.etcd_pods]
    awake_s = min(begun, default=0.0)
    since_s = _waiting_since_s(cluster, now_s)
    return health.snapshot_finding(seen.snapshots, now_s, period_s, since_s, awake_s)


def _waiting_since_s(cluster: KafscaleCluster, now_s: float) -> float:
    """Since when the first snapshot for this bucket is waited for, by what was told before."""
    before = next((one for one in cluster.status.conditions if one.type == "EtcdSnapshot"), None)
    if before is None or before.reason not in (health.NOT_YET, health.NEVER):
        return now_s
    # What was overdue once stays so until a snapshot is made.
    return seconds_of(before.last_transition_time) if before.reason == health.NOT_YET else 0.0


def _why_without(wish: _Wish) -> str:
    if wish.restore is not None:
        return wish.restore.words
    if wish.is_stopped:
        return f"the annotation {STOPPED} is true; records and metadata are kept"
    return "no client was there for a while; the next one that connects wakes the brokers"


def _wanted_brokers(cluster: KafscaleCluster, seen: SeenCluster) -> int:
    if cluster.spec.brokers.autoscaling is not None and seen.brokers is not None:
        return seen.brokers.spec.replicas
    return cluster.spec.brokers.replicas


def _bootstrap(cluster: KafscaleCluster) -> str:
    return brokers.bootstrap_address(cluster)


def _status(
    cluster: KafscaleCluster,
    seen: SeenCluster,
    source: EtcdSource,
    defaults: Defaults,
    findings: list[Judgement],
    now_ms: int,
) -> ClusterObjectStatus:
    generation = cluster.metadata.generation
    before = cluster.status
    asked = cluster.spec.etcd.restore
    is_restoring = any(finding.type == RESTORING and finding.status for finding in findings)
    labels = selector(cluster, brokers.BROKER)
    return ClusterObjectStatus(
        phase=_phase(findings, seen),
        broker_count=sum(pod.is_ready for pod in seen.pods),
        replicas=len(seen.pods),
        topic_count=before.topic_count if seen.topic_count is None else seen.topic_count,
        observed_generation=generation,
        selector=",".join(f"{key}={value}" for key, value in sorted(labels.items())),
        bootstrap=_bootstrap(cluster),
        external_bootstrap=outside_bootstrap(cluster, seen),
        broker_image=cluster.spec.brokers.image or defaults.broker_image,
        restored=asked.request if asked is not None and not is_restoring else before.restored,
        etcd=EtcdStatus(
            source=source.source,
            endpoints=list(source.endpoints),
            prefix=source.prefix,
            last_snapshot=_last_snapshot(cluster, seen),
        ),
        conditions=merge(before.conditions, findings, timestamp(now_ms), generation),
    )


def _last_snapshot(cluster: KafscaleCluster, seen: SeenCluster) -> str:
    """When the last snapshot was made; its job may be gone since."""
    if cluster.spec.etcd.snapshot is None:
        return ""
    last_s = seen.snapshots.last_success_s
    return timestamp(int(last_s * 1000)) if last_s else cluster.status.etcd.last_snapshot


def _phase(findings: list[Judgement], seen: SeenCluster) -> str:
    """Summarize for people; never read by the operator."""
    by_type = {finding.type: finding for finding in findings}
    if by_type["Ready"].reason in ("Stopped", "Idle"):
        return "Stopped"
    if by_type["ConfigAccepted"].reason == "SettingRefused":
        return "Failed"
    if by_type["EtcdAvailable"].reason in ("KubeEtcdRefused", "EtcdSourceChanged"):
        return "Failed"
    if by_type["RolledOut"].status is False and seen.brokers is not None:
        return "Updating"
    if by_type["Ready"].status:
        return "Running"
    return "Degraded" if any(pod.is_ready for pod in seen.pods) else "Pending"


def timestamp(now_ms: int) -> str:
    """A time as Kubernetes writes it."""
    moment = datetime.datetime.fromtimestamp(now_ms // 1000, datetime.UTC)
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


def seconds_of(text: str) -> float:
    """A time of Kubernetes in Unix seconds; 0 if there is none."""
    return datetime.datetime.fromisoformat(text).timestamp() if text else 0.0
