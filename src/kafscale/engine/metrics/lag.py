"""How far groups are behind, for those who scrape: kept in memory, bounded, no store asked.

Here: the last committed offset of each group and partition, compared with the log's end when
somebody looks. Next door: committing (offsets.py), the series' names (probe.py).

Only the broker that has a partition knows its end, and only a group's coordinator hears of its
commits at once. So in a fleet the former shows the lag, of all groups, and reads now and then in
the metadata store what they have committed: the end is of the moment, and the offset of a group
that another broker coordinates is up to `LOOK_EVERY_S` old. A group that goes forward is never
shown closer to the end than it is.

A partition whose log has not been opened since the start has no row: opening it only to be counted
would cost a request per partition. Whoever must know asks the broker (`kafscale groups describe`).
"""

import asyncio
from collections.abc import Callable, Iterator, Sequence
from typing import Final, NamedTuple

from kafscale.engine.partitions.open_logs import OpenLogs
from kafscale.engine.topics.registry import TopicRegistry
from kafscale.engine.topics.topic import Topic
from kafscale.metadata import keys
from kafscale.metadata.store import Entry, MetadataStore
from kafscale.model.errors import CorruptObject

MOST_ROWS: Final = 10_000
LOOK_EVERY_S: Final = 30.0
_PAGE: Final = 500

_Key = tuple[str, str, str]  # group, topic, partition: the labels


class _Noted(NamedTuple):
    offset: int
    topic_id: bytes
    partition: int


class Lag:
    """The committed offsets of at most `most_rows` partitions of groups."""

    def __init__(
        self,
        metadata: MetadataStore,
        topics: TopicRegistry,
        logs: OpenLogs,
        most_rows: int = MOST_ROWS,
    ) -> None:
        """Know none yet."""
        self._metadata = metadata
        self._topics = topics
        self._logs = logs
        self._most_rows = most_rows
        self._noted: dict[_Key, _Noted] = {}
        self.untracked = 0  # commits that found no room
        self.has_peers = False  # there may be other brokers
        self.is_ours: Callable[[str], bool] = lambda group_id: True  # we hear of its commits

    def note(self, group_id: str, name: str, partition: int, offset: int) -> None:
        """A group has come so far; -1: what it had committed is gone."""
        key = (group_id, name, str(partition))
        topic = self._topics.find(name)
        if offset < 0 or topic is None or not self._is_here(topic, partition):
            self._noted.pop(key, None)
        elif key in self._noted or len(self._noted) < self._most_rows:
            self._noted[key] = _Noted(offset, topic.topic_id, partition)
        else:
            self.untracked += 1

    def _is_here(self, topic: Topic, partition: int) -> bool:
        """Whether the row would be shown by us; a broker alone opens the log when it is used."""
        return (
            not self.has_peers or self._logs.resolve(topic, partition, mark_used=False) is not None
        )

    async def recall(self) -> None:
        """Take up what has been committed without our hearing of it, as far as there is room.

        Of the groups that are ours that is what was committed before this broker started, or
        before it had the partition.
        """
        seen: set[_Key] = set()
        ours: dict[str, bool] = {}
        after = ""
        while rows := await self._metadata.find(keys.CONSUMERS, after=after, limit=_PAGE):
            for row in rows:
                self._take_up(row, seen, ours)
            after = rows[-1].key
            await asyncio.sleep(0)  # there may be very many
        if self.has_peers:
            self._drop_unseen(seen)

    def _take_up(self, row: Entry, seen: set[_Key], ours: dict[str, bool]) -> None:
        place, group_id = keys.place_committed_by(row.key), keys.group_named_by(row.key)
        topic = self._topics.find(place[0]) if place else None
        if place is None or group_id is None or topic is None or place[1] >= topic.partitions:
            return
        key = (group_id, place[0], str(place[1]))
        if not self._is_here(topic, place[1]):
            return
        if key not in self._noted and len(self._noted) >= self._most_rows:
            return
        if group_id not in ours:
            ours[group_id] = self.is_ours(group_id)
        if key not in self._noted or not ours[group_id]:
            try:
                value = keys.decode(keys.CommittedOffset, row.value)
            except CorruptObject:
                return  # whoever reads it is told why
            if value.topic_id not in ("", topic.descriptor.topic_id):
                return
            self._noted[key] = _Noted(value.offset, topic.topic_id, place[1])
        seen.add(key)

    def _drop_unseen(self, seen: set[_Key]) -> None:
        """Of other brokers' groups what is not in the store, of all what has left us.

        What a group of ours has committed while we read we know better than that.
        """
        for key in [key for key in self._noted if key not in seen]:
            topic = self._topics.find(key[1])
            if topic is None or not self._is_here(topic, int(key[2])) or not self.is_ours(key[0]):
                del self._noted[key]

    def rows(self) -> Iterator[tuple[Sequence[str], float]]:
        """Group, topic, partition, and how many records are not consumed yet."""
        gone: list[_Key] = []
        for key, noted in self._noted.items():
            topic = self._topics.find(key[1])
            if topic is None or topic.topic_id != noted.topic_id:
                gone.append(key)
                continue
            found = self._logs.resolve(topic, noted.partition, mark_used=False)
            if found is not None:
                yield key, max(found[1].high - noted.offset, 0)
        for key in gone:
            del self._noted[key]
