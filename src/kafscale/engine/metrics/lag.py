"""How far groups are behind the ends of partitions, for scrapes: in memory and bounded.

Here: the last committed offset of each group and partition, compared with the partition's end at
each scrape. No store is asked then. Next door: committing (coordinator/offsets.py), the names of
the series (series.py).

Only the broker that has a partition knows its end, and only a group's coordinator hears of its
commits at once. So in a fleet the owner of a partition shows the lag of all groups, and reads the
committed offsets from the metadata store now and then: the end is of the moment, and the offset of
a group that another broker coordinates is up to `REFRESH_EVERY_S` old. A group that goes forward is
never shown closer to the end than it is.

A partition whose log has not been opened since the start has no row: opening it only to be counted
would cost a request per partition. `kafscale groups describe` asks the brokers instead.
"""

import asyncio
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

import structlog

from kafscale.engine.cluster.membership import Membership
from kafscale.engine.coordinator.offsets import OffsetEvents
from kafscale.engine.partitions.open_logs import OpenLogs
from kafscale.engine.topics.registry import TopicRegistry
from kafscale.engine.topics.topic import Topic
from kafscale.metadata import keys
from kafscale.metadata.store import Entry, MetadataStore
from kafscale.model.errors import CorruptObject, KafscaleError

logger = structlog.get_logger()

MOST_ROWS: Final = 10_000
REFRESH_EVERY_S: Final = 30.0
_PAGE: Final = 500

_Key = tuple[str, str, str]  # group, topic, partition: the labels


class _Committed(NamedTuple):
    offset: int
    topic_id: bytes
    partition: int


class ConsumerLag(OffsetEvents):
    """The committed offsets of at most `most_rows` partitions of groups."""

    def __init__(
        self,
        metadata: MetadataStore,
        topics: TopicRegistry,
        logs: OpenLogs,
        cluster: Membership,
        most_rows: int = MOST_ROWS,
    ) -> None:
        self._metadata = metadata
        self._topics = topics
        self._logs = logs
        self._cluster = cluster
        self._most_rows = most_rows
        self._committed: dict[_Key, _Committed] = {}
        self.untracked = 0  # commits that found no room

    def offset_committed(self, group_id: str, topic: str, partition: int, offset: int) -> None:
        """A group has committed this offset; -1: its committed offset was removed."""
        key = (group_id, topic, str(partition))
        known = self._topics.find(topic)
        if offset < 0 or known is None or not self._is_here(known, partition):
            self._committed.pop(key, None)
        elif key in self._committed or len(self._committed) < self._most_rows:
            self._committed[key] = _Committed(offset, known.topic_id, partition)
        else:
            self.untracked += 1

    def _is_here(self, topic: Topic, partition: int) -> bool:
        """Whether this broker shows the row; without peers every partition is its own."""
        if not self._cluster.has_peers:
            return True
        return self._logs.resolve(topic, partition) is not None

    async def run(self) -> None:
        """Read the committed offsets: once, and in a fleet again and again."""
        while True:
            try:
                await self.refresh()
            except KafscaleError as problem:
                logger.warning("lag_not_recalled", error=str(problem))
            if not self._cluster.has_peers:
                return
            await asyncio.sleep(REFRESH_EVERY_S)

    async def refresh(self) -> None:
        """Read offsets that were committed without this broker hearing of it, up to the bound.

        Groups that this broker coordinates have such offsets, too: they were committed before the
        broker started, or before it had the partition.
        """
        seen: set[_Key] = set()
        ours: dict[str, bool] = {}
        after = ""
        while entries := await self._metadata.find(keys.CONSUMERS, after=after, limit=_PAGE):
            for entry in entries:
                self._read_entry(entry, seen, ours)
            after = entries[-1].key
            await asyncio.sleep(0)  # there may be very many
        if self._cluster.has_peers:
            self._drop_unseen(seen)

    def _read_entry(self, entry: Entry, seen: set[_Key], ours: dict[str, bool]) -> None:
        place, group_id = keys.place_committed_by(entry.key), keys.group_named_by(entry.key)
        topic = self._topics.find(place[0]) if place else None
        if place is None or group_id is None or topic is None or place[1] >= topic.partitions:
            return
        key = (group_id, place[0], str(place[1]))
        if not self._is_here(topic, place[1]):
            return
        if key not in self._committed and len(self._committed) >= self._most_rows:
            return
        if group_id not in ours:
            ours[group_id] = self._cluster.may_coordinate(group_id)
        if key not in self._committed or not ours[group_id]:
            try:
                value = keys.decode(keys.CommittedOffset, entry.value)
            except CorruptObject:
                return  # a client that reads this offset is told why
            if value.topic_id not in ("", topic.descriptor.topic_id):
                return
            self._committed[key] = _Committed(value.offset, topic.topic_id, place[1])
        seen.add(key)

    def _drop_unseen(self, seen: set[_Key]) -> None:
        """Drop rows of other brokers' groups that the store lacks, and of partitions that left.

        Groups that this broker coordinates may have committed while the store was read: their rows
        stay.
        """
        for key in [key for key in self._committed if key not in seen]:
            topic = self._topics.find(key[1])
            if (
                topic is None
                or not self._is_here(topic, int(key[2]))
                or not self._cluster.may_coordinate(key[0])
            ):
                del self._committed[key]

    def rows(self) -> Iterator[tuple[Sequence[str], float]]:
        """Group, topic, partition, and how many records are not consumed yet."""
        gone: list[_Key] = []
        for key, committed in self._committed.items():
            topic = self._topics.find(key[1])
            if topic is None or topic.topic_id != committed.topic_id:
                gone.append(key)
                continue
            resolved = self._logs.resolve(topic, committed.partition)
            if resolved is not None:
                yield key, max(resolved[1].high - committed.offset, 0)
        for key in gone:
            del self._committed[key]
