"""Committed offsets: how far each group has come in each partition.

Here: what a group may commit, writing it, reading it, forgetting it with its topic. A committed
offset names its topic by id as well: it counts no more from the moment the topic is deleted, and
never for a later topic of the same name.
Next door: key names and JSON (metadata/keys.py), when deleted topics are removed (housekeeping.py).
Never here: members and generations.
"""

import asyncio
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from kafscale.engine.topics import Topics
from kafscale.metadata import keys
from kafscale.metadata.keys import CommittedOffset
from kafscale.metadata.store import MAX_OPERATIONS, Compare, Entry, MetadataStore, Put, Remove
from kafscale.model.clock import Clock
from kafscale.model.errors import (
    CorruptObject,
    InvalidGroupId,
    KafscaleError,
    MetadataConflict,
    MetadataUnavailable,
    OffsetMetadataTooLarge,
    UnknownTopic,
)
from kafscale.model.topics import iso_time

LONGEST_GROUP_ID: Final = 1000
LARGEST_METADATA_BYTES: Final = 4096

Place = tuple[str, int]  # topic name, partition


class Wish(NamedTuple):
    """One partition's offset as a group wants it remembered."""

    topic: str
    partition: int
    offset: int
    leader_epoch: int = -1
    metadata: str = ""


@dataclass(slots=True)
class _Round:
    """Writes that go to the store together."""

    writes: dict[str, Put] = field(default_factory=dict)
    is_over: bool = False
    problem: KafscaleError | None = None


class Offsets:
    """The committed offsets of all groups, kept in the metadata store."""

    def __init__(self, metadata: MetadataStore, topics: Topics, clock: Clock) -> None:
        """Remember nothing here: every answer is read from the store."""
        self._metadata = metadata
        self._topics = topics
        self._clock = clock
        self._gathering = _Round()
        self._writing = asyncio.Lock()

    async def commit(self, group_id: str, wishes: Sequence[Wish]) -> list[KafscaleError | None]:
        """Remember offsets; give back, wish by wish, why it was refused, None if it was not."""
        check_group_id(group_id)
        now = iso_time(self._clock.now_ms())
        problems: list[KafscaleError | None] = []
        writes: dict[str, Put] = {}
        for wish in wishes:
            try:
                value = self._value_of(wish, now)
            except (UnknownTopic, OffsetMetadataTooLarge) as problem:
                problems.append(problem)
                continue
            problems.append(None)
            key = keys.group_offset(group_id, wish.topic, wish.partition)
            writes[key] = Put(key, keys.encode(value))
        if writes:
            await self._write(writes)
        return problems

    def _value_of(self, wish: Wish, now: str) -> CommittedOffset:
        topic = self._topics.get(wish.topic)
        topic.place(wish.partition)
        if len(wish.metadata.encode()) > LARGEST_METADATA_BYTES:
            raise OffsetMetadataTooLarge(f"more than {LARGEST_METADATA_BYTES} bytes of metadata")
        return CommittedOffset(
            offset=wish.offset,
            metadata=wish.metadata,
            committed_at=now,
            leader_epoch=wish.leader_epoch,
            topic_id=topic.descriptor.topic_id,
        )

    async def _write(self, writes: Mapping[str, Put]) -> None:
        """Write together with all who come while the store is busy, later values last.

        The lock lets callers in by order of arrival, and the first of a round writes for all of
        it. If that one is cancelled the next one writes the same again.
        """
        mine = self._gathering
        mine.writes.update(writes)
        async with self._writing:
            if not mine.is_over:
                if self._gathering is mine:
                    self._gathering = _Round()
                await self._carry_out(mine)
        if mine.problem is not None:
            raise MetadataUnavailable(f"offsets not committed: {mine.problem}") from mine.problem

    async def _carry_out(self, mine: _Round) -> None:
        writes = list(mine.writes.values())
        try:
            for at in range(0, len(writes), MAX_OPERATIONS):
                await self._metadata.commit(writes[at : at + MAX_OPERATIONS])
        except KafscaleError as problem:
            mine.problem = problem
        mine.is_over = True

    async def committed(
        self, group_id: str, wanted: Collection[Place] | None = None
    ) -> dict[Place, CommittedOffset]:
        """What a group has committed, all of it or for these places, in order of key."""
        found = {}
        for entry in await self._metadata.find(keys.group_offsets(group_id)):
            place = keys.place_committed_by(entry.key)
            if place is None or (wanted is not None and place not in wanted):
                continue
            topic = self._topics.find(place[0])
            value = keys.decode(CommittedOffset, entry.value)
            if topic is not None and value.topic_id in ("", topic.descriptor.topic_id):
                found[place] = value
        return found

    async def forget(self, name: str, topic_id: str) -> None:
        """Remove what any group has committed for a topic that was deleted."""
        while True:
            rows = await self._metadata.find(keys.CONSUMERS)
            doomed = [row for row in rows if _is_about(row, name, topic_id)]
            try:
                for at in range(0, len(doomed), MAX_OPERATIONS):
                    some = doomed[at : at + MAX_OPERATIONS]
                    await self._metadata.commit(
                        [Remove(row.key) for row in some],
                        [Compare(row.key, row.version) for row in some],
                    )
                return
            except MetadataConflict:
                continue  # committed meanwhile, for a new topic of that name: look again


def check_group_id(group_id: str) -> None:
    """Raise InvalidGroupId for what is no name of a group."""
    if not 0 < len(group_id) <= LONGEST_GROUP_ID:
        raise InvalidGroupId(f"a group id has 1 to {LONGEST_GROUP_ID} characters")


def _is_about(row: Entry, name: str, topic_id: str) -> bool:
    place = keys.place_committed_by(row.key)
    if place is None or place[0] != name:
        return False
    try:
        return keys.decode(CommittedOffset, row.value).topic_id == topic_id
    except CorruptObject:
        return False  # whose it is nobody can tell; those who read it are told
