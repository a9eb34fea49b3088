"""What is well with a cluster and what is not, as findings with reasons.

Next door: how findings become conditions (conditions.py), how a roll goes (rolling.py).
"""

import re
from typing import Final

from kafscale.operator.kinds.cluster import KafscaleCluster
from kafscale.operator.kinds.seen import Pod
from kafscale.operator.parts.etcd_source import MEMBERS, EtcdSource
from kafscale.operator.planning.conditions import Judgement
from kafscale.operator.planning.seen_cluster import SeenCluster, SnapshotFacts

_FROM: Final = {"Spec": "FromSpec", "Operator": "FromOperator"}
_IMAGE: Final = ("ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull")
_STORE: Final = "store: "
_UNITS: Final = {
    "": 1,
    "k": 10**3,
    "M": 10**6,
    "G": 10**9,
    "T": 10**12,
    "Ki": 1 << 10,
    "Mi": 1 << 20,
    "Gi": 1 << 30,
    "Ti": 1 << 40,
}
_BESIDE_CACHES: Final = (512 << 20) + (256 << 20) + (256 << 20)  # process, index cache, tail cache
_LATE_S: Final = 600.0
_MINUTE_S: Final = 60.0
_HOUR_S: Final = 3600.0
_DAY_S: Final = 86400.0
_SCHEDULES: Final = {
    "@hourly": _HOUR_S,
    "@daily": _DAY_S,
    "@midnight": _DAY_S,
    "@weekly": 7 * _DAY_S,
    "@monthly": 31 * _DAY_S,
    "@yearly": 366 * _DAY_S,
    "@annually": 366 * _DAY_S,
}
_EVERY_SECONDS: Final = {"h": _HOUR_S, "m": _MINUTE_S, "s": 1.0}
NOT_YET: Final = "NotYet"
ASLEEP: Final = "Asleep"
NEVER: Final = "NeverSucceeded"
OVERDUE: Final = ("Stale", NEVER)
ACCESS_REASONS: Final = ("AccessDenied", "BucketMissing", "Unreachable", "NoCredentials")


def etcd_finding(etcd: EtcdSource, seen: SeenCluster, *, sleeps: bool = False) -> Judgement:
    """Whether brokers have an etcd to work with."""
    if sleeps:
        return Judgement("EtcdAvailable", None, ASLEEP, "its members wake with the brokers")
    if etcd.refused is not None:
        return Judgement("EtcdAvailable", False, *etcd.refused)
    if not etcd.is_managed:
        return Judgement("EtcdAvailable", True, _FROM[etcd.source], ", ".join(etcd.endpoints))
    ready = sum(pod.is_ready for pod in seen.etcd_pods)
    words = f"{ready} of {MEMBERS} members are ready"
    if ready > MEMBERS // 2:
        return Judgement("EtcdAvailable", True, "QuorumReady", words)
    trouble = next((why for pod in seen.etcd_pods if (why := pod_trouble(pod))), None)
    return Judgement(
        "EtcdAvailable", False, "NoQuorum", f"{words}; {trouble[1]}" if trouble else words
    )


def config_finding(cluster: KafscaleCluster, seen: SeenCluster) -> Judgement:
    """Whether brokers take their settings, and have room for their caches."""
    if seen.config_problem is not None:
        return Judgement("ConfigAccepted", False, "SettingRefused", seen.config_problem)
    limit = cluster.spec.brokers.resources.limits.memory
    cache = cluster.spec.config.cache_size
    if in_bytes(cache) + _BESIDE_CACHES > in_bytes(limit):
        words = (
            f"a broker with a cache of {cache} needs 1Gi beside it, and its limit is {limit}: "
            "lower config.cacheSize or raise brokers.resources.limits.memory"
        )
        return Judgement("ConfigAccepted", False, "MemoryTooSmall", words)
    return Judgement("ConfigAccepted", True, "Accepted")


def in_bytes(quantity: str) -> int:
    """A quantity of memory as a number."""
    number = quantity.rstrip("KMGTikm")
    return int(float(number) * _UNITS.get(quantity[len(number) :], 1))


def brokers_finding(seen: SeenCluster, wanted: int) -> Judgement:
    """Whether all wanted brokers are ready, or what the first of the others says."""
    ready = sum(pod.is_ready for pod in seen.pods)
    words = f"{ready} of {wanted} brokers are ready"
    if ready >= wanted:
        return Judgement("BrokersReady", True, "Ready", words)
    for pod in seen.pods:
        if pod.is_ready:
            continue
        if trouble := pod_trouble(pod):
            return Judgement("BrokersReady", False, trouble[0], f"{words}; {trouble[1]}")
        facts = seen.facts.get(pod.metadata.name)
        if facts is not None and facts.reasons:
            is_store = any(reason.startswith(_STORE) for reason in facts.reasons)
            reason = "StoreUnavailable" if is_store else "NotReady"
            told = f"{words}; {pod.metadata.name}: {'; '.join(facts.reasons)}"
            return Judgement("BrokersReady", False, reason, told)
    return Judgement("BrokersReady", False, "Starting", words)


def pod_trouble(pod: Pod) -> tuple[str, str] | None:
    """Why a pod does not run, as reason and words; None if nothing is known to be wrong."""
    name = pod.metadata.name
    if why := pod.unschedulable:
        return "Unschedulable", f"{name}: {why}"
    for container in (*pod.status.init_container_statuses, *pod.status.container_statuses):
        waiting = container.state.waiting
        ended = container.state.terminated or container.last_state.terminated
        if waiting is not None and waiting.reason in _IMAGE:
            return "ImagePull", f"{name}: {waiting.message or waiting.reason}"
        if waiting is not None and waiting.reason == "CreateContainerConfigError":
            return "SecretMissing", f"{name}: {waiting.message}"
        if ended is not None and ended.exit_code and not pod.is_ready:
            said = last_line(ended.message) or f"exit code {ended.exit_code}"
            return "CrashLooping", f"{name}: {said}"
    return None


def last_line(text: str) -> str:
    """The last line that says something."""
    lines = [line.strip() for line in text.strip().splitlines() if line.strip()]
    return lines[-1][:300] if lines else ""


def snapshot_finding(
    facts: SnapshotFacts, now_s: float, period_s: float, since_s: float, awake_s: float = 0.0
) -> Judgement:
    """Whether snapshots of etcd are made in time.

    `since_s`: since when the first is awaited; `awake_s`: since when there are members.
    """
    kind = "EtcdSnapshot"
    kept = "The bucket of the topics holds what etcd held a minute ago, too."
    if facts.failure:
        return Judgement(kind, False, facts.reason or "LastFailed", f"{facts.failure}. {kept}")
    late_s = 2 * period_s + _LATE_S
    if facts.last_success_s is None:
        if now_s - since_s <= late_s:
            return Judgement(kind, None, "NotYet", "the first snapshot is not due yet")
        return Judgement(kind, False, "NeverSucceeded", f"no snapshot was made. {kept}")
    age_s = now_s - max(facts.last_success_s, awake_s)
    if age_s > late_s:
        return Judgement(
            kind, False, "Stale", f"the last snapshot is older than two periods. {kept}"
        )
    return Judgement(kind, True, "SnapshotHealthy")


def access_finding(facts: SnapshotFacts) -> Judgement:
    """Whether the last job that made a snapshot could write to its bucket."""
    kind = "EtcdSnapshotAccess"
    if facts.failure and facts.reason in ACCESS_REASONS:
        return Judgement(kind, False, facts.reason, facts.failure)
    if facts.last_success_s is None:
        return Judgement(kind, None, "NotYet", "no snapshot was made yet")
    return Judgement(kind, True, "AccessOk")


def period_s(schedule: str) -> float:
    """About how often a cron schedule comes round, or more seldom than it does."""
    if schedule in _SCHEDULES:
        return _SCHEDULES[schedule]
    if schedule.startswith("@every"):
        parts = re.findall(r"(\d+)(h|m|s)", schedule)
        return sum(int(number) * _EVERY_SECONDS[unit] for number, unit in parts)
    minute, hour, day, month, weekday = (schedule.split() + ["*"] * 5)[:5]
    if step := re.fullmatch(r"\*(?:/(\d+))?", minute):
        return _MINUTE_S * int(step[1] or 1)
    if step := re.fullmatch(r"\*(?:/(\d+))?", hour):
        return _HOUR_S * int(step[1] or 1)
    if (day, month, weekday) == ("*", "*", "*"):
        return _DAY_S
    return 7 * _DAY_S if (day, month) == ("*", "*") else 31 * _DAY_S
