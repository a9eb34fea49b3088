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
    """A group as the store had it, and the guard once this broker has claimed it."""

    found: Entry | None
    record_version: int
    guard: Compare | None = None
    wanted: bytes = b""
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

        The claim is read first: a record written in between makes our claim fail, not stale.
        """
        found = await self._metadata.get(keys.group_coordinator(group_id))
        record = await self._metadata.get(keys.group_metadata(group_id))
        self._claims[group_id] = _Claim(found, record.version if record else 0)
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
        # Asked after the read: a group lost since then must not be taken from its new owner.
        if not self._cluster.may_coordinate(group_id):
            raise NotTheCoordinator(f"group {group_id!r} is not this broker's")
        key, found = keys.group_coordinator(group_id), claim.found
        # The same bytes in every attempt: they show whether an attempt without answer succeeded.
        claim.wanted = claim.wanted or self._wanted(found)
        guards = [
            Compare(key, found.version if found else 0),
            Compare(keys.group_metadata(group_id), claim.record_version),
        ]
        try:
            version = await self._metadata.commit([Put(key, claim.wanted)], guards)
        except MetadataConflict as problem:
            there = await self._metadata.get(key)
            if there is None or there.value != claim.wanted:
                raise NotTheCoordinator(f"group {group_id!r} has been taken: {problem}") from None
            version = there.version
        return Compare(key, version)

    def _wanted(self, found: Entry | None) -> bytes:
        epoch = 1
        if found is not None:
            try:
                epoch += keys.decode(keys.CoordinatorRow, found.value).epoch
            except CorruptObject as problem:  # its version is what counts
                logger.error("claim_unreadable", key=found.key, error=str(problem))
        return keys.encode(
            keys.CoordinatorRow(
                broker_id=self._cluster.identity.broker_id,
                broker_epoch=self._cluster.identity.epoch,
                epoch=epoch,
                claimed_at=iso_time(self._clock.now_ms()),
            )
        )

    def lost(self, group_id: str, guard: Compare) -> NotTheCoordinator:
        """The store has refused this guard: another broker has the group. Gives the error."""
        claim = self._claims.get(group_id)
        if claim is not None and claim.guard == guard:
            self._drop(group_id, claim)
        return NotTheCoordinator(f"group {group_id!r} has been taken by another broker")

    def _drop(self, group_id: str, claim: _Claim) -> None:
        if self._claims.get(group_id) is claim:
            del self._claims[group_id]
            logger.warning("group_lost", group=group_id)
            self._events.claim_lost(group_id)

    def forget(self, group_id: str) -> None:
        """Drop what is known about the claim of a group."""
        self._claims.pop(group_id, None)
