"""How the parts of this sub-room are put together. Next door: logs, removals, checkpoints."""

from dataclasses import dataclass

from kafscale.engine.cluster.membership import Membership
from kafscale.engine.coordinator.offsets import Offsets
from kafscale.engine.partitions.open_logs import OpenLogs
from kafscale.engine.topics.registry import TopicRegistry
from kafscale.engine.upkeep.checkpoints import Checkpoints
from kafscale.engine.upkeep.logs import LogUpkeep
from kafscale.engine.upkeep.removals import Removals
from kafscale.metadata.store import MetadataStore
from kafscale.model.clock import Clock, Dice
from kafscale.objects.store import ObjectStore


@dataclass(frozen=True, slots=True)
class UpkeepRules:
    """What the configuration says."""

    interval_s: float
    checkpoint_interval_s: float
    grace_s: float


@dataclass(frozen=True, slots=True)
class UpkeepParts:
    """What this sub-room is made of."""

    log_upkeep: LogUpkeep
    removals: Removals
    checkpoints: Checkpoints


def build_upkeep(
    rules: UpkeepRules,
    store: ObjectStore,
    metadata: MetadataStore,
    topics: TopicRegistry,
    logs: OpenLogs,
    offsets: Offsets,
    cluster: Membership,
    clock: Clock,
    dice: Dice,
) -> UpkeepParts:
    """Put the parts together."""
    removals = Removals(offsets, store, metadata, cluster, clock, grace_s=rules.grace_s)
    log_upkeep = LogUpkeep(
        topics,
        logs,
        removals,
        cluster,
        clock,
        interval_s=rules.interval_s,
        grace_s=rules.grace_s,
    )
    checkpoints = Checkpoints(
        metadata,
        store,
        topics.rules.namespace,
        clock,
        dice,
        cluster_id=cluster.identity.cluster_id,
        author=cluster.identity.author,
        interval_s=rules.checkpoint_interval_s,
        is_responsible=lambda: cluster.is_controller,
    )
    return UpkeepParts(log_upkeep, removals, checkpoints)
