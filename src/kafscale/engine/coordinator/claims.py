"""Which broker may write about a group: a claim in the metadata store, with a rising epoch.

Here: claiming groups, and the guard that every write about a group carries. The metadata store
refuses the writes of a broker that has lost a group and does not know it yet.
Next door: who uses the guards (groups.py, offsets.py). Never here: which broker should have a
group (cluster/placement.py).

A broker claims a group before the first write about it, not when it reads it, so that questions
about unknown groups leave nothing behind. The claim also compares the group's record with the one
that was read: what other brokers have written since then is never overwritten.
"""

import asyncio
from dataclasses import dataclass, field
from typing import Protocol

import structlog

from kafscale.engine.cluster.membership import Membership
from kafscale.metadata import keys
from kafscale.metadata.store import Compare, Entry, MetadataStore, Put
from kafscale.model.clock import Clock
from kafscale.model.errors import CorruptObject, MetadataConflict, NotTheCoordinator
from kafscale.model.topics import iso_time

logger = structlog.get_logger()


class ClaimEvents(Protocol):
    """What claims tell the groups of this broker."""

    def claim_lost(self, group_id: str) -> None:
        """Another broker coordinates this group now."""


@dataclass(slots=True)
class _Claim:
    """The claim of a group as the store had it, and the guard once this broker has its own."""

    previous: Entry | None
    record_version: int
    guard: Compare | None = None
    value: bytes = b""  # of the claim that this broker writes
    writing: asyncio.Lock = field(default_factory=asyncio.Lock)


class Claims:
    """The groups that this broker has claimed."""

    def __init__(
        self, metadata: MetadataStore, cluster: Membership, clock: Clock, events: ClaimEvents
    ) -> None:
        self._metadata = metadata
        self._cluster = cluster
        self._clock = clock
        self._events = events
        self._claims: dict[str, _Claim] = {}

    async def load(self, group_id: str) -> Entry | None:
        """Read a group's record, and remember its version and the present claim.

        The claim is read first. If another broker writes the record in between, this broker's claim
        fails instead of being stale.
        """
        previous = await self._metadata.get(keys.group_coordinator(group_id))
        record = await self._metadata.get(keys.group_metadata(group_id))
        self._claims[group_id] = _Claim(previous, record.version if record else 0)
        return record

    def guard(self, group_id: str) -> Compare | None:
        """The guard of a claimed group; None if the group must be claimed first."""
        claim = self._claims.get(group_id)
        return None if claim is None else claim.guard

    async def claim(self, group_id: str) -> Compare:
        """The group's guard, claiming the group if need be. Raises NotTheCoordinator."""
        claim = self._claims.get(group_id)
        if claim is None:
            await self.load(group_id)
            claim = self._claims[group_id]
        async with claim.writing:
            if claim.guard is None:
                try:
                    claim.guard = await self._write(group_id, claim)
                except NotTheCoordinator:
                    self._drop(group_id, claim)
                    raise
        return claim.guard

    async def _write(self, group_id: str, claim: _Claim) -> Compare:
        # After the read: this broker must not claim a group that it has lost since then.
        if not self._cluster.may_coordinate(group_id):
            raise NotTheCoordinator(f"group {group_id!r} belongs to another broker")
        key, previous = keys.group_coordinator(group_id), claim.previous
        # The same bytes in every attempt: they show whether an attempt without answer succeeded.
        claim.value = claim.value or self._encode_claim(previous)
        guards = [
            Compare(key, previous.version if previous else 0),
            Compare(keys.group_metadata(group_id), claim.record_version),
        ]
        try:
            version = await self._metadata.commit([Put(key, claim.value)], guards)
        except MetadataConflict as problem:
            stored = await self._metadata.get(key)
            if stored is None or stored.value != claim.value:
                raise NotTheCoordinator(f"group {group_id!r} has been taken: {problem}") from None
            version = stored.version
        return Compare(key, version)

    def _encode_claim(self, previous: Entry | None) -> bytes:
        epoch = 1
        if previous is not None:
            try:
                epoch += keys.decode(keys.CoordinatorRow, previous.value).epoch
            except CorruptObject as problem:  # its version is enough to replace it
                logger.error("claim_unreadable", key=previous.key, error=str(problem))
        return keys.encode(
            keys.CoordinatorRow(
                broker_id=self._cluster.identity.broker_id,
                broker_epoch=self._cluster.identity.epoch,
                epoch=epoch,
                claimed_at=iso_time(self._clock.now_ms()),
            )
        )

    def lost(self, group_id: str, guard: Compare) -> NotTheCoordinator:
        """Drop a claim whose guard the store has refused. Gives the error for the caller."""
        claim = self._claims.get(group_id)
        if claim is not None and claim.guard == guard:
            self._drop(group_id, claim)
        return NotTheCoordinator(f"group {group_id!r} has been taken by another broker")

    def _drop(self, group_id: str, claim: _Claim) -> None:
        if self._claims.get(group_id) is claim:
            del self._claims[group_id]
            logger.warning("group_lost", group=group_id)
            self._events.claim_lost(group_id)

    def discard(self, group_id: str) -> None:
        """Drop what is known about the claim of a group."""
        self._claims.pop(group_id, None)
