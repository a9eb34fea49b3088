"""Where a share group reads on in each partition: what tools show and change.

Here: reading, setting and removing it, on the group's coordinator. The owner of a partition writes
the same rows. It notices a change when it saves next, and begins anew with what is there.
Next door: the rows (cursors.py), who serves them (subscriptions.py).
"""

from collections.abc import AsyncIterator
from typing import Final, NamedTuple

from kafscale.engine.partitions.partitions import Partitions
from kafscale.engine.subscriptions.cursors import Cursor, Cursors
from kafscale.engine.subscriptions.ports import SubscriptionName
from kafscale.engine.topics.registry import TopicRegistry
from kafscale.engine.topics.topic import Topic
from kafscale.metadata import keys
from kafscale.metadata.store import MetadataStore
from kafscale.model.errors import KafscaleError, UnknownTopic
from kafscale.subscriptions.snapshot import CursorSnapshot

_PAGE: Final = 500
UNKNOWN_LAG: Final = -1


class ShareStart(NamedTuple):
    """How far a share group is in a partition."""

    topic: Topic
    partition: int
    start: int  # everything before this offset is acknowledged
    lag: int  # records that are not acknowledged; UNKNOWN_LAG where another broker knows the end


class ShareStarts:
    """The starts of share groups."""

    def __init__(
        self,
        metadata: MetadataStore,
        topics: TopicRegistry,
        cursors: Cursors,
        partitions: Partitions,
    ) -> None:
        self._metadata = metadata
        self._topics = topics
        self._cursors = cursors
        self._partitions = partitions

    async def each(self, group_id: str) -> AsyncIterator[ShareStart]:
        """All partitions that a group has begun to read."""
        after, prefix = "", keys.group_offsets(group_id)
        while entries := await self._metadata.find(prefix, after=after, limit=_PAGE):
            for entry in entries:
                place = keys.place_committed_by(entry.key)
                topic = None if place is None else self._topics.find(place[0])
                if place is None or topic is None:
                    continue
                loaded = await self._cursors.peek(SubscriptionName(group_id, topic, place[1]))
                if loaded is not None:
                    _, saved = loaded
                    lag = await self._lag(topic, place[1], saved)
                    yield ShareStart(topic, place[1], saved.acknowledged_to, lag)
            after = entries[-1].key

    async def _lag(self, topic: Topic, partition: int, saved: CursorSnapshot) -> int:
        try:
            bounds = await self._partitions.bounds(topic, partition, -1)
        except KafscaleError:
            return UNKNOWN_LAG  # another broker has the partition, or it cannot be opened now
        done = sum(after - first for first, after in saved.spans)
        return max(0, bounds.end - max(saved.acknowledged_to, bounds.start) - done)

    async def set(self, group_id: str, topic_name: str, partition: int, offset: int) -> None:
        """Have a group read on from an offset. Raises UnknownTopic."""
        topic = self._topics.find(topic_name)
        if topic is None or not 0 <= partition < topic.partitions:
            raise UnknownTopic(f"there is no partition {topic_name}-{partition}")
        await self._cursors.overwrite(SubscriptionName(group_id, topic, partition), offset)

    async def remove(self, group_id: str, topic_name: str) -> None:
        """Have a group forget a topic. Raises UnknownTopic if there is no such topic."""
        topic = self._topics.find(topic_name)
        if topic is None:
            raise UnknownTopic(f"there is no topic {topic_name!r}")
        prefix = keys.group_topic_offsets(group_id, topic_name)
        for entry in await self._metadata.find(prefix):
            place = keys.place_committed_by(entry.key)
            if place is not None:
                name = SubscriptionName(group_id, topic, place[1])
                await self._cursors.remove(Cursor(name, "", {}))
