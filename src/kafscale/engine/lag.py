"""How far groups are behind, for those who scrape: kept in memory, bounded, no store asked.

Here: the last committed offset of each group and partition, compared with the log's end when
somebody looks. Next door: committing (offsets.py), the series' names (probe.py).

A partition whose log has not been opened since the start has no row: opening it only to be counted
would cost a request per partition. Whoever must know asks the broker (`kafscale groups describe`).
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Final, NamedTuple

from kafscale.engine.group_list import each_group
from kafscale.engine.logs import Logs
from kafscale.engine.offsets import Offsets
from kafscale.engine.topics import Topics
from kafscale.metadata.store import MetadataStore
from kafscale.model.errors import KafscaleError

MOST_ROWS: Final = 10_000

_Key = tuple[str, str, str]  # group, topic, partition: the labels


class _Noted(NamedTuple):
    offset: int
    topic_id: bytes
    partition: int


class Lag:
    """The committed offsets of at most `most_rows` partitions of groups."""

    def __init__(
        self, metadata: MetadataStore, topics: Topics, logs: Logs, most_rows: int = MOST_ROWS
    ) -> None:
        """Know none yet."""
        self._metadata = metadata
        self._topics = topics
        self._logs = logs
        self._most_rows = most_rows
        self._noted: dict[_Key, _Noted] = {}
        self.untracked = 0  # commits that found no room
        self.is_ours: Callable[[str], bool] = lambda group_id: True  # others' commits pass us by

    def note(self, group_id: str, name: str, partition: int, offset: int) -> None:
        """A group has come so far; -1: what it had committed is gone."""
        key = (group_id, name, str(partition))
        topic = self._topics.find(name)
        if offset < 0 or topic is None:
            self._noted.pop(key, None)
        elif key in self._noted or len(self._noted) < self._most_rows:
            self._noted[key] = _Noted(offset, topic.topic_id, partition)
        else:
            self.untracked += 1

    async def recall(self, offsets: Offsets) -> None:
        """Take up what was committed before this broker started, as far as there is room."""
        async for group_id in each_group(self._metadata):
            if not self.is_ours(group_id):
                continue
            try:
                committed = await offsets.committed(group_id)
            except KafscaleError:
                continue  # whoever reads them is told why
            for (name, partition), row in committed.items():
                if len(self._noted) >= self._most_rows:
                    return
                if (group_id, name, str(partition)) not in self._noted:
                    self.note(group_id, name, partition, row.offset)

    def rows(self) -> Iterator[tuple[Sequence[str], float]]:
        """Group, topic, partition, and how many records are not consumed yet."""
        gone: list[_Key] = []
        for key, noted in self._noted.items():
            topic = self._topics.find(key[1])
            if topic is None or topic.topic_id != noted.topic_id or not self.is_ours(key[0]):
                gone.append(key)
                continue
            found = self._logs.peek(topic, noted.partition)
            if found is not None:
                yield key, max(found[1].high - noted.offset, 0)
        for key in gone:
            del self._noted[key]
