"""When committed offsets and groups expire, by Kafka's rules.

Here: visiting every group now and then. Offsets of a group without members expire when the group
has been empty, and the offset unchanged, for the retention time. Offsets of a group that never had
members expire by the time of their commit. Offsets of a group at work never expire, unless no
member subscribes to the topic any more. A group without members and offsets is deleted. How far
a subscription has come (engine/subscriptions) never expires.
Next door: offsets of deleted topics (upkeep/removals.py), deleting on request (groups.py).

Only times in the store count, so a restart of the broker changes nothing. Every removal compares
the keys with what was read: a commit or a new member that comes meanwhile wins.
"""

import asyncio
from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from typing import Final

import structlog

from kafscale.engine.cluster.membership import Membership
from kafscale.engine.coordinator.groups import Groups
from kafscale.engine.coordinator.listing import each_group
from kafscale.engine.coordinator.offsets import Offsets
from kafscale.engine.coordinator.records import GroupRecords
from kafscale.groups.classic.states import GroupState
from kafscale.groups.machines import GroupMachine
from kafscale.metadata import keys
from kafscale.metadata.store import Entry, MetadataStore
from kafscale.model.clock import Clock
from kafscale.model.errors import (
    CorruptObject,
    KafscaleError,
    MetadataConflict,
    NotTheCoordinator,
)

logger = structlog.get_logger()

# What members of a classic group read is decided by the rebalance.
_UNDECIDED: Final = (GroupState.PREPARING, GroupState.COMPLETING)


@dataclass(frozen=True, slots=True)
class ExpiryRules:
    """What the configuration says."""

    retention_s: float
    interval_s: float


@dataclass(frozen=True, slots=True)
class _StoredGroup:
    """A group as the store has it."""

    heads: tuple[Entry, ...]  # claim and record: nothing is removed once they have changed
    record: keys.GroupRow | None
    offsets: tuple[Entry, ...]


class Expiry:
    """Removes offsets and groups that have not been used for long."""

    def __init__(
        self,
        metadata: MetadataStore,
        records: GroupRecords,
        groups: Groups,
        offsets: Offsets,
        rules: ExpiryRules,
        clock: Clock,
        cluster: Membership,
    ) -> None:
        self._cluster = cluster
        self._metadata = metadata
        self._records = records
        self._groups = groups
        self._offsets = offsets
        self._rules = rules
        self._clock = clock

    async def run(self) -> None:
        """One pass at each interval; runs until it is cancelled."""
        while True:
            await asyncio.sleep(self._rules.interval_s)
            try:
                await self.expire()
            except KafscaleError as problem:
                logger.warning("expiry_postponed", error=str(problem))

    async def expire(self) -> None:
        """One pass over all groups that this broker coordinates."""
        async for group_id in each_group(self._metadata):
            if not self._cluster.may_coordinate(group_id):
                continue
            try:
                await self._visit(group_id)
            except (MetadataConflict, NotTheCoordinator):
                pass  # the group is in use: the next pass visits it again
            except CorruptObject as problem:
                logger.error("group_unreadable", group=group_id, error=str(problem))

    async def _visit(self, group_id: str) -> None:
        stored = _parse(group_id, await self._metadata.find(keys.group(group_id)))
        if not await self._groups.is_saved(group_id):
            return  # the times that were read are outdated: the next pass visits it again
        machine = self._groups.in_memory(group_id)
        if machine is None and stored.record is not None and stored.record.members:
            # Members from before a restart: once loaded, they expire if they send no heartbeats.
            await self._groups.load(group_id)
            return
        expired = [
            entry
            for entry in self._expired(stored, machine)
            if not await self._is_of_subscription(group_id, entry)
        ]
        if expired:
            await self._offsets.remove(group_id, expired, stored.heads)
            logger.info("offsets_expired", group=group_id, offsets=len(expired))
        if len(expired) == len(stored.offsets) and (machine is None or machine.is_idle):
            await self._groups.discard_bare(group_id)

    async def _is_of_subscription(self, group_id: str, entry: Entry) -> bool:
        """Whether this is how far a subscription has come: it stays until it is deleted."""
        place = keys.place_committed_by(entry.key)
        assert place is not None
        key = keys.subscription(place[0], group_id, place[1])
        return await self._metadata.get(key) is not None

    def _expired(self, stored: _StoredGroup, machine: GroupMachine | None) -> list[Entry]:
        """The offsets that have expired."""
        kept: Collection[str] = ()
        since_ms = 0
        if machine is not None and not machine.is_idle:
            subscribed = self._records.subscribed_topics(machine)
            if machine.state in _UNDECIDED or subscribed is None:
                return []
            kept = subscribed
        elif stored.record is not None and stored.record.protocol_type:
            since_ms = _ms(stored.record.state_at)
        oldest_ms = self._clock.now_ms() - self._rules.retention_s * 1000
        if since_ms > oldest_ms:
            return []
        return [entry for entry in stored.offsets if _is_old(entry, oldest_ms, kept)]


def _parse(group_id: str, entries: list[Entry]) -> _StoredGroup:
    metadata, coordinator = keys.group_metadata(group_id), keys.group_coordinator(group_id)
    record = next((entry for entry in entries if entry.key == metadata), None)
    return _StoredGroup(
        tuple(entry for entry in entries if entry.key in (metadata, coordinator)),
        None if record is None else keys.decode_group(record.value),
        tuple(entry for entry in entries if keys.place_committed_by(entry.key) is not None),
    )


def _is_old(entry: Entry, oldest_ms: float, kept: Collection[str]) -> bool:
    place = keys.place_committed_by(entry.key)
    assert place is not None
    value = keys.decode(keys.CommittedOffset, entry.value)
    return place[0] not in kept and _ms(value.committed_at) <= oldest_ms


def _ms(text: str) -> int:
    """A time in the store as Unix milliseconds; 0 where an older version wrote none."""
    try:
        return round(datetime.fromisoformat(text).timestamp() * 1000)
    except ValueError:
        return 0
