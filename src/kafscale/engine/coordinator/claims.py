"""Which broker may write about a group: a claim in the metadata store, taken with a rising epoch.

Here: taking groups, and the guard that every write about a group carries. A broker that does not
know yet that it has lost a group is told so by the store itself, whatever it believes.
Next door: who uses the guards (groups.py, offsets.py). Never here: who should have a group.

A group is not claimed when it is looked at but before the first write about it, so that questions
about groups nobody knows leave nothing behind. The claim also compares the group's record with
the one that was read: what others have written since then is never overwritten unseen.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field

import structlog

from kafscale.engine.cluster.identity import Identity
from kafscale.metadata import keys
from kafscale.metadata.store import Compare, Entry, MetadataStore, Put
from kafscale.model.clock import Clock
from kafscale.model.errors import CorruptObject, MetadataConflict, NotTheCoordinator
from kafscale.model.topics import iso_time

logger = structlog.get_logger()


@dataclass(slots=True)
class _Claim:
    """A group as it was found, and the guard once it is ours."""

    found: Entry | None
    record_version: int
    guard: Compare | None = None
    wanted: bytes = b""
    taking: asyncio.Lock = field(default_factory=asyncio.Lock)


class Claims:
    """The groups this broker has taken."""

    def __init__(self, metadata: MetadataStore, identity: Identity, clock: Clock) -> None:
        """Begin with none."""
        self._metadata = metadata
        self._identity = identity
        self._clock = clock
        self._claims: dict[str, _Claim] = {}
        self.on_lost: Callable[[str], None] = lambda group_id: None
        self.may_take: Callable[[str], bool] = lambda group_id: True

    async def look(self, group_id: str) -> Entry | None:
        """Read a group's record, remembering what it was when this broker last looked.

        Who coordinates is read first: a record written in between makes the claim fail, not stale.
        """
        found = await self._metadata.get(keys.group_coordinator(group_id))
        record = await self._metadata.get(keys.group_metadata(group_id))
        self._claims[group_id] = _Claim(found, record.version if record else 0)
        return record

    def guard(self, group_id: str) -> Compare | None:
        """The guard of a group that was taken; None if it must be taken first."""
        claim = self._claims.get(group_id)
        return None if claim is None else claim.guard

    async def take(self, group_id: str) -> Compare:
        """The group's guard, taking the group if need be. Raises NotTheCoordinator."""
        claim = self._claims.get(group_id)
        if claim is None:
            await self.look(group_id)
            claim = self._claims[group_id]
        async with claim.taking:
            if claim.guard is None:
                try:
                    claim.guard = await self._take(group_id, claim)
                except NotTheCoordinator:
                    self._drop(group_id, claim)
                    raise
        return claim.guard

    async def _take(self, group_id: str, claim: _Claim) -> Compare:
        # Asked after the look: what has been lost since is not taken back from who has it now.
        if not self.may_take(group_id):
            raise NotTheCoordinator(f"group {group_id!r} is not this broker's")
        key, found = keys.group_coordinator(group_id), claim.found
        # The same bytes in every attempt: one that was not heard of is known again by them.
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
                broker_id=self._identity.broker_id,
                broker_epoch=self._identity.epoch,
                epoch=epoch,
                claimed_at=iso_time(self._clock.now_ms()),
            )
        )

    def lost(self, group_id: str, guard: Compare) -> NotTheCoordinator:
        """The store has refused this guard: the group is another broker's. Gives what to say."""
        claim = self._claims.get(group_id)
        if claim is not None and claim.guard == guard:
            self._drop(group_id, claim)
        return NotTheCoordinator(f"group {group_id!r} has been taken by another broker")

    def _drop(self, group_id: str, claim: _Claim) -> None:
        if self._claims.get(group_id) is claim:
            del self._claims[group_id]
            logger.warning("group_lost", group=group_id)
            self.on_lost(group_id)

    def forget(self, group_id: str) -> None:
        """Nothing about this group is kept in memory any more."""
        self._claims.pop(group_id, None)
