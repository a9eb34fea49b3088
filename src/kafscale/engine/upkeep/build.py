"""How the parts of this sub-room are put together. Next door: the parts."""

from collections.abc import Callable
from dataclasses import dataclass

from kafscale.engine.cluster.membership import Membership
from kafscale.engine.coordinator.offsets import Offsets
from kafscale.engine.partitions.open_logs import OpenLogs
from kafscale.engine.subscriptions.cursors import Cursors
from kafscale.engine.topics.registry import TopicRegistry
from kafscale.engine.upkeep.checkpoints import Checkpoints
from kafscale.engine.upkeep.compactions import Compactions, CountCompaction
from kafscale.engine.upkeep.foreign_changes import ForeignChanges
from kafscale.engine.upkeep.logs import LogUpkeep
from kafscale.engine.upkeep.removals import Removals
from kafscale.log.upkeep.cleanable import CompactionLimits
from kafscale.metadata.store import MetadataStore
from kafscale.model.clock import Clock, Dice
from kafscale.objects.store import ObjectStore


@dataclass(frozen=True, slots=True)
class UpkeepRules:
    """What the configuration says."""

    interval_s: float
    checkpoint_interval_s: float
    grace_s: float
    compaction: CompactionLimits


@dataclass(frozen=True, slots=True)
class UpkeepParts:
    """What this sub-room is made of."""

    log_upkeep: LogUpkeep
    compactions: Compactions
    removals: Removals
    checkpoints: Checkpoints


def build_upkeep(
    rules: UpkeepRules,
    store: ObjectStore,
    metadata: MetadataStore,
    topics: TopicRegistry,
    logs: OpenLogs,
    offsets: Offsets,
    cursors: Cursors,
    cluster: Membership,
    clock: Clock,
    dice: Dice,
    count_compaction: CountCompaction,
    search_topic: Callable[[str], None],
) -> UpkeepParts:
    """Put the parts together. `search_topic`: told of topics that jobs have made."""
    foreign = ForeignChanges(store, topics.rules.namespace, clock)
    removals = Removals(offsets, cursors, store, metadata, cluster, clock, grace_s=rules.grace_s)
    log_upkeep = LogUpkeep(
        topics,
        logs,
        removals,
        foreign,
        cluster,
        clock,
        interval_s=rules.interval_s,
        grace_s=rules.grace_s,
        search_topic=search_topic,
    )
    compactions = Compactions(
        topics, logs, clock, rules.compaction, count_compaction, interval_s=rules.interval_s
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
    return UpkeepParts(log_upkeep, compactions, removals, checkpoints)
