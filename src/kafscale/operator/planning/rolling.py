"""How far a new template may reach: one broker at a time, by the fleet's own health.

Here: the partition of the StatefulSet. Brokers whose number is below it keep their revision; it is
lowered by one when the next broker may be replaced. Left alone, the StatefulSet's controller would
replace a second broker while the first one is still away.
Next door: what is known of brokers (seen_cluster.py).
"""

from typing import Final, NamedTuple

from kafscale.operator.kinds.seen import Pod, StatefulSet
from kafscale.operator.planning.seen_cluster import SeenBroker, SeenCluster

ROLLING: Final = "Rolling"
ROLLED_OUT: Final = "RolledOut"
HELD_BY_BROKER: Final = "HeldByUnreadyBroker"
HELD_BY_FLEET: Final = "HeldByFleet"
HELD_BY_STORE: Final = "HeldByStore"


class Roll(NamedTuple):
    """How far the roll may go, and why not further."""

    partition: int
    reason: str
    message: str = ""

    @property
    def is_done(self) -> bool:
        """Whether every broker has the latest template."""
        return self.reason == ROLLED_OUT


def begin(replicas: int) -> Roll:
    """A new template is about to be applied: it reaches no broker yet."""
    return Roll(replicas, ROLLING, f"0 of {replicas} brokers have the new template")


def go_on(live: StatefulSet, seen: SeenCluster) -> Roll:
    """Say how far the template that is applied may reach now."""
    total = live.spec.replicas
    partition = min(live.spec.partition, total)
    if not live.is_observed:
        return Roll(partition, ROLLING, "the StatefulSet's controller has not seen it yet")
    latest = live.status.update_revision
    pods = {pod.ordinal: pod for pod in seen.pods}
    updated = [pod for pod in pods.values() if pod.revision == latest]
    told = f"{len(updated)} of {total} brokers have the new template"
    if len(updated) >= total and all(pod.revision == latest for pod in pods.values()):
        return Roll(0, ROLLED_OUT, told)
    if not any(pod.is_ready for pod in pods.values()):
        return Roll(0, ROLLING, f"{told}; no broker is ready, so all may be replaced")
    for number in range(partition, total):
        pod = pods.get(number)
        if pod is None or pod.revision != latest:
            return Roll(partition, ROLLING, told)  # the controller is at it
        if not pod.is_ready:
            words = f"{told}; {pod.metadata.name} has it and is not ready"
            return Roll(partition, HELD_BY_BROKER, words)
    if partition == 0:
        return Roll(0, ROLLING, told)
    held = _why_held(pods, partition - 1, seen)
    if held is not None:
        return Roll(partition, held[0], f"{told}; {held[1]}")
    return Roll(partition - 1, ROLLING, told)


def _why_held(pods: dict[int, Pod], number: int, seen: SeenCluster) -> tuple[str, str] | None:
    """Why the broker with this number must not be replaced now; None if it may be."""
    candidate = pods.get(number)
    if candidate is None or not candidate.is_ready:
        return None  # replacing it takes nothing away
    for other, pod in sorted(pods.items()):
        if other != number and not pod.is_ready:
            return HELD_BY_BROKER, f"{pod.metadata.name} is not ready"
    facts = [seen.facts.get(pod.metadata.name) for pod in pods.values()]
    return _why_unsettled(facts)


def _why_unsettled(facts: list[SeenBroker | None]) -> tuple[str, str] | None:
    """Why the fleet has not settled yet after the last change; None if it has."""
    known = [one for one in facts if one is not None]
    if len(known) < len(facts):
        return HELD_BY_FLEET, "a broker's page does not answer"
    if any(one.is_store_unavailable for one in known):
        return HELD_BY_STORE, "the object store is unavailable"
    if len({one.generation for one in known}) > 1:
        return HELD_BY_FLEET, "brokers do not agree yet on the members of the fleet"
    if any(one.logs_stopped for one in known):
        return HELD_BY_FLEET, "a log is stopped because of objects that cannot be right"
    return None
