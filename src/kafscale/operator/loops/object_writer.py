"""Writing what is found about topics and users: their status, events, finalizers.

And that their cluster is woken for them.

Next door: what is found (topics.py, users.py).
"""

from typing import Any

import msgspec

from kafscale.model.clock import Clock
from kafscale.operator.kinds.cluster import API_VERSION, KafscaleCluster
from kafscale.operator.kinds.metadata import Condition, Metadata
from kafscale.operator.kube.client import Kube
from kafscale.operator.kube.errors import KubeError
from kafscale.operator.loops.events import Events
from kafscale.operator.parts.common import IDLE
from kafscale.operator.planning.conditions import Judgement, changes, merge
from kafscale.operator.planning.plan import timestamp


class ObjectWriter:
    """Writes about the objects of one kind."""

    def __init__(self, kube: Kube, kind: str, clock: Clock, events: Events) -> None:
        self._kube = kube
        self._kind = kind
        self._clock = clock
        self._events = events

    async def event(
        self, about: Metadata, reason: str, words: str, *, is_bad: bool = False
    ) -> None:
        """Tell an event."""
        await self._events.tell(self._kind, about, reason, words, is_bad=is_bad)

    def judged(
        self, about: Metadata, before: list[Condition], finding: Judgement
    ) -> list[Condition]:
        """The conditions of an object with one finding put in."""
        now = timestamp(self._clock.now_ms())
        return merge(before, [finding], now, about.generation)

    async def status(
        self, about: Metadata, before: list[Condition], status: Any, now: list[Condition]
    ) -> None:
        """Write a status, and tell what has turned in its conditions."""
        manifest = {
            "apiVersion": API_VERSION,
            "kind": self._kind,
            "metadata": {"name": about.name, "namespace": about.namespace},
            "status": msgspec.to_builtins(status),
        }
        try:
            await self._kube.apply_status(manifest)
        except KubeError as problem:
            if problem.is_not_found:  # it was deleted meanwhile
                return
            raise
        for change in changes(before, now):
            words = change.condition.message or change.condition.reason
            await self.event(about, change.condition.reason, words, is_bad=change.is_bad)

    async def finalize(self, about: Metadata, finalizer: str, *, wanted: bool) -> None:
        """Have the server wait for us before it deletes the object, or not."""
        if (finalizer in about.finalizers) is wanted:
            return
        kept = [one for one in about.finalizers if one != finalizer]
        patch = {
            "metadata": {
                "finalizers": [*kept, finalizer] if wanted else kept,
                "resourceVersion": about.resource_version,
            }
        }
        try:
            await self._kube.merge(self._kind, *about.key, patch)
        except KubeError as problem:
            if not problem.is_not_found:
                raise


def phase_of(finding: Judgement, final: tuple[str, ...]) -> str:
    """A summary for people; `final`: reasons that only a change of the object can mend."""
    if finding.status:
        return "Ready"
    return "Refused" if finding.reason in final else "Pending"


def cluster_trouble(cluster: KafscaleCluster | None, name: str) -> tuple[str, str] | None:
    """Why brokers cannot be asked, as reason and words."""
    if cluster is None:
        return "ClusterNotFound", f"there is no KafscaleCluster {name} in this namespace"
    if not cluster.status.broker_count:
        return "ClusterNotReady", f"no broker of {name} is ready"
    return None


async def wake(kube: Kube, cluster: KafscaleCluster) -> None:
    """Take away the annotation that says that a cluster sleeps."""
    patch = {"metadata": {"annotations": {IDLE: None}}}
    await kube.merge("KafscaleCluster", *cluster.metadata.key, patch)
