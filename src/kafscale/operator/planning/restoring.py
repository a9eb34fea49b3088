"""Restores: whether one is asked for and not done, how far it is, and what is told of it.

Next door: the job that does it (parts/jobs.py), the rest of the plan (plan.py).
"""

from typing import Final, NamedTuple

from kafscale.operator.kinds.cluster import KafscaleCluster
from kafscale.operator.kinds.etcd import Restore
from kafscale.operator.parts.jobs import restore_name
from kafscale.operator.planning.conditions import Judgement
from kafscale.operator.planning.seen_cluster import SeenCluster

RESTORING: Final = "Restoring"
_FROM: Final = {"Bucket": "from the topics' own bucket", "Snapshot": "from a snapshot"}


class Restoration(NamedTuple):
    """A restore that is not done. `step`: what happens now; `failure`: why it does not go on."""

    asked: Restore
    step: str
    failure: str = ""

    @property
    def reason(self) -> str:
        """In one word."""
        return "RestoreFailed" if self.failure else RESTORING

    @property
    def words(self) -> str:
        """For people."""
        if self.failure:
            return (
                f"request {self.asked.request}: {self.failure}. No broker runs on half the "
                "metadata; correct the cause and ask again by another text"
            )
        source = _FROM[self.asked.source]
        return f"no broker runs while the metadata is rebuilt {source}: {self.step}"


def restoration(
    cluster: KafscaleCluster, seen: SeenCluster, etcd_answers: bool
) -> Restoration | None:
    """Find the restore that is asked for and not done; None if there is none."""
    asked = cluster.spec.etcd.restore
    if asked is None or asked.request == cluster.status.restored:
        return None
    name = restore_name(cluster, asked.request)
    job = seen.jobs.get(name)
    if job is not None and job.status.succeeded:
        return None
    if job is not None and job.status.is_given_up:
        return Restoration(asked, "", seen.restore_failure or f"job {name} failed")
    if job is not None:
        return Restoration(asked, f"job {name} runs")
    if seen.pods:
        return Restoration(asked, f"{len(seen.pods)} brokers stop")
    return Restoration(asked, "the job begins" if etcd_answers else "etcd does not answer yet")


def restore_findings(cluster: KafscaleCluster, restore: Restoration | None) -> list[Judgement]:
    """Tell of a restore while it is under way, and that it is done for as long as it is asked."""
    if restore is not None:
        return [Judgement(RESTORING, True, restore.reason, restore.words)]
    asked = cluster.spec.etcd.restore
    if asked is None:
        return []
    words = f"request {asked.request} is done: the metadata was rebuilt {_FROM[asked.source]}"
    return [Judgement(RESTORING, False, "Restored", words)]
