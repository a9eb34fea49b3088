"""When a cluster without clients is put to sleep, and which objects it is woken for.

Next door: the annotation that says so (parts/common.py), the activator that wakes it
(activator.py).
"""

from collections.abc import Mapping
from typing import Final

from kafscale.operator.kinds.cluster import KafscaleCluster
from kafscale.operator.kinds.topic import KafscaleTopic
from kafscale.operator.kinds.user import KafscaleUser
from kafscale.operator.parts.common import IDLE, PAUSED, STOPPED
from kafscale.operator.planning.seen_cluster import SeenBroker

_UNITS: Final = {"s": 1, "m": 60, "h": 3600}


def seconds_of_duration(text: str) -> float:
    """A duration such as 90s, 15m or 2h in seconds."""
    return float(int(text[:-1]) * _UNITS[text[-1]])


def is_asleep(cluster: KafscaleCluster) -> bool:
    """Whether brokers are away until a client comes; not those that a person stopped."""
    marks = cluster.metadata.annotations
    may_sleep = cluster.spec.brokers.idle_after is not None
    return may_sleep and IDLE in marks and marks.get(STOPPED) != "true"


def has_news(found: KafscaleTopic | KafscaleUser) -> bool:
    """Whether brokers have yet to hear of an object as it is now: then they are woken for it."""
    if found.metadata.annotations.get(PAUSED) == "true":
        return False
    is_going = found.metadata.deletion_timestamp is not None
    is_seen = found.status.observed_generation == found.metadata.generation
    return is_going or not is_seen or found.status.phase == "Pending"


def stays_told(cluster: KafscaleCluster | None, found: KafscaleTopic | KafscaleUser) -> bool:
    """Whether an object is told nothing new while no broker is ready: they may just wake up."""
    may_sleep = cluster is not None and cluster.spec.brokers.idle_after is not None
    return may_sleep and not has_news(found)


class Quiet:
    """Since when no client was connected to any broker of a cluster."""

    def __init__(self) -> None:
        self._since_s: float | None = None

    def observe(self, facts: Mapping[str, SeenBroker], brokers: int, now_s: float) -> float:
        """Take what all brokers say; gives for how long it has been quiet.

        A broker that does not answer may have clients, and one that is not ready cannot have any
        yet: then it is not quiet.
        """
        answers = len(facts) >= brokers > 0
        if not answers or any(one.connections or one.reasons for one in facts.values()):
            self._since_s = None
            return 0.0
        if self._since_s is None:
            self._since_s = now_s
        return now_s - self._since_s

    def wake(self) -> None:
        """A client has come: the time begins anew."""
        self._since_s = None
