"""How the parts of this sub-room are put together. Next door: the verbs (groups.py, offsets.py)."""

from collections.abc import Callable
from dataclasses import dataclass

from kafscale.engine.cluster.membership import Membership
from kafscale.engine.coordinator.expiry import Expiry, ExpiryRules
from kafscale.engine.coordinator.group_configs import GroupConfigs
from kafscale.engine.coordinator.groups import Groups
from kafscale.engine.coordinator.known_topics import KnownTopics
from kafscale.engine.coordinator.offsets import OffsetEvents, Offsets
from kafscale.engine.coordinator.records import GroupRecords, MemberDataReader
from kafscale.engine.topics.registry import TopicRegistry
from kafscale.groups.rules import GroupRules
from kafscale.metadata.store import MetadataStore
from kafscale.model.clock import Clock, Dice
from kafscale.tasks import Tasks


@dataclass(frozen=True, slots=True)
class CoordinatorParts:
    """What this sub-room is made of."""

    groups: Groups
    offsets: Offsets
    expiry: Expiry


def build_coordinator(
    group_rules: GroupRules,
    expiry_rules: ExpiryRules,
    metadata: MetadataStore,
    topics: TopicRegistry,
    cluster: Membership,
    member_data: MemberDataReader,
    events: OffsetEvents,
    clock: Clock,
    dice: Dice,
    tasks: Tasks,
    *,
    on_rebalanced: Callable[[], None],
) -> CoordinatorParts:
    """Put the parts together. `on_rebalanced` counts rebalances."""
    records = GroupRecords(member_data)
    directory = KnownTopics(topics)
    groups = Groups(
        metadata,
        records,
        group_rules,
        clock,
        dice,
        tasks,
        cluster,
        directory,
        GroupConfigs(metadata),
        on_rebalanced,
    )
    offsets = Offsets(metadata, topics, cluster, groups.claims, clock, events)
    expiry = Expiry(metadata, records, groups, offsets, expiry_rules, clock, cluster)
    return CoordinatorParts(groups, offsets, expiry)
