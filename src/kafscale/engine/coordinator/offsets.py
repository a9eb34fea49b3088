"""Committed offsets: how far each group has come in each partition.

Here: what a group may commit, writing it, reading it, removing it with its topic. A committed
offset also has the id of its topic: it ends with the topic, and it never counts for a later topic
of the same name. Every write compares the claim of its group: a broker that has lost a group cannot
commit for it. In a fleet a write also compares the versions of its topics: a broker that has not
heard of a deletion yet cannot commit for the deleted topic.
Next door: claims (claims.py), key names and JSON (metadata/keys.py), when deleted topics are
removed (upkeep/removals.py), when offsets expire (expiry.py).
Never here: members and generations.
"""

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Collection, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple, Protocol

import msgspec

from kafscale.engine.cluster.membership import Membership
from kafscale.engine.coordinator.claims import Claims
from kafscale.engine.coordinator.listing import each_group
from kafscale.engine.topics.registry import TopicRegistry
from kafscale.groups.classic.states import GroupState
from kafscale.metadata import keys
from kafscale.metadata.keys import CommittedOffset
from kafscale.metadata.store import (
    MAX_OPERATIONS,
    Compare,
    Entry,
    Listing,
    MetadataStore,
    Put,
    Remove,
    pages,
)
from kafscale.model.clock import Clock
from kafscale.model.errors import (
    CorruptObject,
    GroupSubscribed,
    InvalidGroupId,
    KafscaleError,
    MetadataConflict,
    MetadataUnavailable,
    OffsetMetadataTooLarge,
    UnknownMember,
    UnknownTopic,
)
from kafscale.model.topics import iso_time

LONGEST_GROUP_ID: Final = 1000
LARGEST_METADATA_BYTES: Final = 4096

_ATTEMPTS: Final = 4

CommittedPartition = tuple[str, int]  # topic name, partition
_Guarded = tuple[Put | Remove, Compare]  # by the claim of its group


class OffsetEvents(Protocol):
    """What offsets tell the rest of the broker."""

    def offset_committed(self, group_id: str, topic: str, partition: int, offset: int) -> None:
        """A group has committed this offset; -1: its committed offset was removed."""


class OffsetCommit(NamedTuple):
    """An offset that a group commits for one partition."""

    topic: str
    partition: int
    offset: int
    leader_epoch: int = -1
    metadata: str = ""


class OffsetNews(NamedTuple):
    """What a group has committed for one partition; None: it is gone."""

    group_id: str
    topic: str
    partition: int
    committed: CommittedOffset | None


@dataclass(slots=True)
class _Round:
    """Writes that go to the store together, each with the guard of its group."""

    writes: dict[str, tuple[Put | Remove, Compare]] = field(default_factory=dict)
    has_writer: bool = False
    writer_ended: asyncio.Event = field(default_factory=asyncio.Event)
    is_over: bool = False
    problems: dict[Compare, KafscaleError] = field(default_factory=dict)


class Offsets:
    """The committed offsets of all groups, kept in the metadata store."""

    def __init__(
        self,
        metadata: MetadataStore,
        topics: TopicRegistry,
        cluster: Membership,
        claims: Claims,
        clock: Clock,
        events: OffsetEvents,
    ) -> None:
        self._metadata = metadata
        self._claims = claims
        self._topics = topics
        self._cluster = cluster
        self._clock = clock
        self._gathering = _Round()
        self._writing = asyncio.Lock()
        self._events = events

    async def follow(self) -> AsyncGenerator[list[OffsetNews], None]:
        """All committed offsets, then every change of them, whichever broker writes it."""
        async with contextlib.aclosing(self._metadata.watch(keys.CONSUMERS)) as watch:
            async for news in watch:
                if isinstance(news, Listing):
                    written, removed = news.entries, list[str]()
                else:
                    written, removed = news.written, news.removed
                rows = [_news(entry.key, entry.value) for entry in written]
                rows += [_news(key, None) for key in removed]
                found = [row for row in rows if row is not None]
                if found:
                    yield found

    def is_claimed(self, group_id: str) -> bool:
        """Whether this broker has claimed the group, so that commits need not wait for that."""
        return self._claims.guard(group_id) is not None

    async def claim(self, group_id: str) -> None:
        """Claim the group before a commit. Raises NotTheCoordinator."""
        await self._claims.claim(group_id)

    async def commit(
        self, group_id: str, commits: Sequence[OffsetCommit]
    ) -> list[KafscaleError | None]:
        """Write offsets; gives the error of each commit, None where it was written."""
        check_group_id(group_id)
        # For a claimed group there is no wait here: commits are written in their order.
        guard = self._claims.guard(group_id) or await self._claims.claim(group_id)
        now = iso_time(self._clock.now_ms())
        problems: list[KafscaleError | None] = []
        writes: dict[str, tuple[Put | Remove, Compare]] = {}
        for commit in commits:
            try:
                value = self._value_of(commit, now)
            except (UnknownTopic, OffsetMetadataTooLarge) as problem:
                problems.append(problem)
                continue
            problems.append(None)
            key = keys.group_offset(group_id, commit.topic, commit.partition)
            writes[key] = Put(key, keys.encode(value)), guard
        if writes:
            await self._write(group_id, writes, guard)
            for commit, refusal in zip(commits, problems, strict=True):
                if refusal is None:
                    self._events.offset_committed(
                        group_id, commit.topic, commit.partition, commit.offset
                    )
        return problems

    async def commit_from_outside(self, group_id: str, commit: OffsetCommit) -> None:
        """Commit for a group without members that another broker coordinates.

        Raises UnknownMember if the group has members: then they alone commit.
        """
        check_group_id(group_id)
        key = keys.group_offset(group_id, commit.topic, commit.partition)
        value = self._value_of(commit, iso_time(self._clock.now_ms()))
        await self._write_from_outside(group_id, Put(key, keys.encode(value)))

    async def delete_from_outside(self, group_id: str, partition: CommittedPartition) -> None:
        """Delete what such a group has committed for a partition, if anything."""
        key = keys.group_offset(group_id, *partition)
        await self._write_from_outside(group_id, Remove(key))

    async def _write_from_outside(self, group_id: str, write: Put | Remove) -> None:
        """Write under the claim of the coordinator, as long as the group has no members.

        The coordinator keeps no offsets in memory, so that it need not hear of it.
        """
        claim_key, record_key = keys.group_coordinator(group_id), keys.group_metadata(group_id)
        for _ in range(_ATTEMPTS):
            claim = await self._metadata.get(claim_key)
            record = await self._metadata.get(record_key)
            if record is not None and not _has_no_members(record):
                raise UnknownMember(f"group {group_id!r} has members: they alone commit")
            guards = [
                Compare(claim_key, claim.version if claim else 0),
                Compare(record_key, record.version if record else 0),
            ]
            topics = self._versions([(write, guards[0])])
            guards += [Compare(keys.topic_config(name), v) for name, v in topics.items()]
            try:
                await self._metadata.commit([write], guards)
                return
            except MetadataConflict:
                for name in topics:
                    await self._topics.refresh(name)
                write = self._with_topic_id(write)
        raise MetadataUnavailable("the group or its topics change all the time")

    async def delete(self, group_id: str, partitions: Collection[CommittedPartition]) -> None:
        """Delete what a group has committed for these partitions, if anything."""
        guard = self._claims.guard(group_id) or await self._claims.claim(group_id)
        doomed = (keys.group_offset(group_id, *partition) for partition in partitions)
        await self._write(group_id, {key: (Remove(key), guard) for key in doomed}, guard)
        for topic, partition in partitions:
            self._events.offset_committed(group_id, topic, partition, -1)

    async def delete_unless_read(
        self, group_id: str, partitions: Sequence[CommittedPartition], read_topics: Collection[str]
    ) -> dict[CommittedPartition, KafscaleError]:
        """Delete offsets, except those of `read_topics`; gives the errors of what was kept."""
        problems: dict[CommittedPartition, KafscaleError] = {}
        for name, partition in partitions:
            try:
                self._topics.get(name).place(partition)
                if name in read_topics:
                    raise GroupSubscribed(f"the group reads {name!r}")
            except (UnknownTopic, GroupSubscribed) as problem:
                problems[name, partition] = problem
        doomed = [partition for partition in partitions if partition not in problems]
        if doomed:
            await self.delete(group_id, doomed)
        return problems

    def value_of(self, commit: OffsetCommit) -> CommittedOffset:
        """What is written for a commit. Raises UnknownTopic or OffsetMetadataTooLarge."""
        return self._value_of(commit, iso_time(self._clock.now_ms()))

    async def claim_guard(self, group_id: str) -> Compare:
        """The guard of a write about a group, from outside this room. Raises NotTheCoordinator."""
        check_group_id(group_id)
        return self._claims.guard(group_id) or await self._claims.claim(group_id)

    def _value_of(self, commit: OffsetCommit, now: str) -> CommittedOffset:
        topic = self._topics.get(commit.topic)
        topic.place(commit.partition)
        if len(commit.metadata.encode()) > LARGEST_METADATA_BYTES:
            raise OffsetMetadataTooLarge(f"more than {LARGEST_METADATA_BYTES} bytes of metadata")
        return CommittedOffset(
            offset=commit.offset,
            metadata=commit.metadata,
            committed_at=now,
            leader_epoch=commit.leader_epoch,
            topic_id=topic.descriptor.topic_id,
        )

    async def _write(
        self, group_id: str, writes: dict[str, tuple[Put | Remove, Compare]], guard: Compare
    ) -> None:
        """Write, together with all other calls that come while the store is busy.

        The lock lets rounds in by order of arrival. The first caller of a round writes for the
        whole round, later values last, and then wakes the others, all at once. If it is cancelled,
        the next caller writes the same again.
        """
        mine = self._gathering
        mine.writes.update(writes)
        if mine.has_writer:
            await mine.writer_ended.wait()
        if not mine.is_over:
            mine.has_writer = True
            try:
                async with self._writing:
                    if not mine.is_over:
                        if self._gathering is mine:
                            self._gathering = _Round()
                        await self._write_round(mine)
            finally:
                mine.writer_ended.set()
        problem = mine.problems.get(guard)
        if isinstance(problem, MetadataConflict):
            raise self._claims.lost(group_id, guard)
        if problem is not None:
            raise MetadataUnavailable(f"offsets not committed: {problem}") from problem

    async def _write_round(self, mine: _Round) -> None:
        writes = list(mine.writes.values())
        # One guard for each group and one for each topic; a commit has a bound for guards, too.
        guards = len({guard for _, guard in writes}) + len(self._versions(writes))
        most = MAX_OPERATIONS if guards <= MAX_OPERATIONS else MAX_OPERATIONS // 2
        for page in pages([write for write, _ in writes], most):
            await self._commit(writes[page], mine.problems)
        mine.is_over = True

    async def _commit(
        self, writes: Sequence[_Guarded], problems: dict[Compare, KafscaleError]
    ) -> None:
        guards = {guard: None for _, guard in writes}
        try:
            for _ in range(_ATTEMPTS):
                known = self._versions(writes)
                topics = [Compare(keys.topic_config(name), v) for name, v in known.items()]
                try:
                    await self._metadata.commit([write for write, _ in writes], [*guards, *topics])
                    return
                except MetadataConflict as problem:
                    if len(guards) > 1:
                        break
                    for name in known:
                        await self._topics.refresh(name)
                    if self._versions(writes) == known:
                        raise MetadataConflict(f"the group is lost: {problem}") from None
                    writes = [(self._with_topic_id(write), guard) for write, guard in writes]
            else:
                raise MetadataUnavailable("the topics change all the time")
            for guard in guards:  # one group is lost: each group's writes are tried on their own
                own = [write for write in writes if write[1] == guard]
                await self._commit(own, problems)
        except KafscaleError as problem:
            problems |= dict.fromkeys(guards, problem)

    def _versions(self, writes: Sequence[_Guarded]) -> dict[str, int]:
        """The versions, as this broker knows them, of the topics that offsets are written for."""
        if not self._cluster.has_peers:
            return {}
        places = [keys.place_committed_by(put.key) for put, _ in writes if isinstance(put, Put)]
        return {place[0]: self._topics.version_of(place[0]) for place in places if place}

    def _with_topic_id(self, write: Put | Remove) -> Put | Remove:
        """The same write for the topic that has the name now: clients commit by name."""
        place = keys.place_committed_by(write.key)
        topic = self._topics.find(place[0]) if place else None
        if topic is None or isinstance(write, Remove):
            return write
        value = keys.decode(CommittedOffset, write.value)
        named = msgspec.structs.replace(value, topic_id=topic.descriptor.topic_id)
        return Put(write.key, keys.encode(named))

    async def committed(
        self, group_id: str, wanted: Collection[CommittedPartition] | None = None
    ) -> dict[CommittedPartition, CommittedOffset]:
        """What a group has committed, for all partitions or for `wanted`, in order of key."""
        committed = {}
        asked: dict[str, str | None] = {}
        for entry in await self._metadata.find(keys.group_offsets(group_id)):
            place = keys.place_committed_by(entry.key)
            if place is None or (wanted is not None and place not in wanted):
                continue
            value = keys.decode(CommittedOffset, entry.value)
            topic = self._topics.find(place[0])
            is_known = topic is not None and value.topic_id in ("", topic.descriptor.topic_id)
            if not is_known and place[0] not in asked:
                asked[place[0]] = await self._id_in_store(place[0])
            if is_known or (asked[place[0]] and value.topic_id in ("", asked[place[0]])):
                committed[place] = value
        return committed

    async def _id_in_store(self, name: str) -> str | None:
        """The id of a topic that this broker may not have heard of yet.

        A group that is told that it has committed nothing would start from its reset position.
        """
        entry = await self._metadata.get(keys.topic_config(name))
        return None if entry is None else keys.decode(keys.TopicRow, entry.value).topic_id

    async def remove(
        self, group_id: str, offsets: Sequence[Entry], unchanged: Sequence[Entry]
    ) -> None:
        """Remove offsets; raises MetadataConflict if they or `unchanged` were written meanwhile."""
        step = MAX_OPERATIONS - len(unchanged)
        for first in range(0, len(offsets), step):
            page = offsets[first : first + step]
            guards = [Compare(entry.key, entry.version) for entry in (*page, *unchanged)]
            await self._metadata.commit([Remove(entry.key) for entry in page], guards)
            for entry in page:
                if (place := keys.place_committed_by(entry.key)) is not None:
                    self._events.offset_committed(group_id, *place, -1)

    async def remove_topic(self, name: str, topic_id: str) -> None:
        """Remove what any group has committed for a topic that was deleted."""
        async for group_id in each_group(self._metadata):
            await self._remove_topic(group_id, name, topic_id)

    async def _remove_topic(self, group_id: str, name: str, topic_id: str) -> None:
        while True:
            entries = await self._metadata.find(keys.group_topic_offsets(group_id, name))
            doomed = [entry for entry in entries if _is_of(entry, topic_id)]
            try:
                await self.remove(group_id, doomed, ())
                return
            except MetadataConflict:
                continue  # committed meanwhile, for a new topic of that name: read again


def check_group_id(group_id: str) -> None:
    """Raise InvalidGroupId if this cannot be the id of a group."""
    if not 0 < len(group_id) <= LONGEST_GROUP_ID:
        raise InvalidGroupId(f"a group id has 1 to {LONGEST_GROUP_ID} characters")


def _has_no_members(record: Entry) -> bool:
    state = keys.decode(keys.GroupHead, record.value).state
    return state in (GroupState.EMPTY.value, GroupState.DEAD.value)


def _is_of(entry: Entry, topic_id: str) -> bool:
    try:
        return keys.decode(CommittedOffset, entry.value).topic_id == topic_id
    except CorruptObject:
        return False  # its topic is unknown; a client that reads it gets the error


def _news(key: str, value: bytes | None) -> OffsetNews | None:
    """What a key of the store says of a committed offset; None if it is about anything else."""
    place, group_id = keys.place_committed_by(key), keys.group_named_by(key)
    if place is None or group_id is None:
        return None
    committed = None if value is None else keys.decode(CommittedOffset, value)
    return OffsetNews(group_id, *place, committed)
