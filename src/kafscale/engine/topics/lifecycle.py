"""Creating, adopting and deleting topics. The bucket's descriptors are the truth.

Here: the order of writes. A descriptor is written to the bucket first and to the metadata store
second. A crash in between leaves a topic in the bucket that a broker can adopt; it never leaves a
name without a topic. A name that is used again gets a new folder, so that nothing of the deleted
topic is ever seen there.
Next door: changing topics (changes.py), opening a topic's logs (partitions/open_logs.py), removing
its objects (upkeep/removals.py).
"""

from collections.abc import Mapping

import msgspec

from kafscale.engine.cluster.membership import Membership
from kafscale.engine.topics.changes import TopicChanges, is_alive
from kafscale.engine.topics.records import TopicRecords
from kafscale.engine.topics.registry import TopicRegistry
from kafscale.engine.topics.topic import Topic
from kafscale.log.catalog.descriptors import Descriptors, TopicSpec
from kafscale.log.moves import end_of_topic
from kafscale.model.clock import Clock, Dice
from kafscale.model.errors import InvalidTopicName, TopicExists
from kafscale.model.names import check_topic_name, collides, fresh_topic_id, is_internal
from kafscale.model.topics import LaneRange, TopicDescriptor, iso_time
from kafscale.objects.store import ObjectStore


class TopicLifecycle:
    """Creates, adopts and deletes topics."""

    def __init__(
        self,
        registry: TopicRegistry,
        records: TopicRecords,
        descriptors: Descriptors,
        changes: TopicChanges,
        store: ObjectStore,
        cluster: Membership,
        clock: Clock,
        dice: Dice,
    ) -> None:
        self._registry = registry
        self._records = records
        self._descriptors = descriptors
        self._changes = changes
        self._tools = end_of_topic.Tools(store, clock, dice)
        self._cluster = cluster
        self._clock = clock
        self._dice = dice

    def check(
        self,
        name: str,
        partitions: int,
        configs: Mapping[str, str | None],
        *,
        is_own: bool = False,
    ) -> None:
        """Raise what is wrong with a request for a new topic; `is_own`: a broker asks for it."""
        check_topic_name(name)
        if self._registry.find(name) is not None:
            raise TopicExists(f"topic {name!r} exists already")
        if is_internal(name) and not is_own:
            raise InvalidTopicName(f"{name!r} is the name of a topic that only brokers create")
        for other in self._registry.names():
            if collides(name, other):
                raise InvalidTopicName(f"{name!r} collides with {other!r} ('.' and '_' are one)")
        self._registry.rules.check(name, partitions, configs)

    async def create(
        self,
        name: str,
        partitions: int,
        configs: Mapping[str, str | None],
        *,
        is_own: bool = False,
    ) -> Topic:
        """Create a topic, or finish a creation that was cut short and is in the bucket."""
        self.check(name, partitions, configs, is_own=is_own)
        given = {key: value for key, value in configs.items() if value is not None}
        logs = self._registry.rules.lay_out(name, partitions, given)
        shared: tuple[LaneRange, ...] = ()
        if given.get("storage.placement") == "shared":
            shared = (await self._changes.allot(partitions),)
        fresh_id, created_at = fresh_topic_id(self._dice).hex(), iso_time(self._clock.now_ms())
        wish = TopicSpec(name, fresh_id, partitions, given, created_at, logs=logs, shared=shared)
        version, descriptor = await self._descriptors.create(wish, self._end)
        entry_version = await self._records.insert(
            descriptor, version, self._registry.rules.defaults
        )
        topic = self._registry.find(name)  # the watch may have told of it meanwhile
        if topic is None or topic.topic_id.hex() != descriptor.topic_id:
            topic = self._registry.add(descriptor, version, entry_version)
            if self._cluster.has_peers:  # its share is opened early, as on all other brokers
                self._registry.announce_change(topic)
        if (descriptor.partitions, descriptor.configs) != (partitions, given):
            raise TopicExists(f"topic {name!r} exists already in the bucket")
        return topic

    async def _end(self, gone: TopicDescriptor) -> None:
        """Let no broker accept a record for a deleted topic, however late it hears of its end.

        A broker without peers has closed the topic's logs itself.
        """
        if self._cluster.has_peers:
            await end_of_topic.end_topic(self._tools, gone)

    async def list_names_in_bucket(self) -> list[str]:
        """Every name that has, or had, a topic of this namespace."""
        return await self._descriptors.names()

    async def is_in_bucket(self, topic: Topic) -> bool:
        """Whether the newest descriptor of that name is this topic, and it is not deleted."""
        _, newest = await self._descriptors.newest(topic.name)
        return newest is not None and is_alive(newest, topic.descriptor.topic_id)

    async def adopt(self, name: str) -> Topic | None:
        """Register a topic that came into the bucket without a broker; None if there is none.

        The change note is written first, so that a topic deleted between the read and the insert
        is not brought back.
        """
        version, newest = await self._descriptors.newest(name)
        if newest is None or newest.deleted or self._registry.find(name) is not None:
            return self._registry.find(name)
        await self._records.note_change(name)
        await self._records.insert(newest, version, self._registry.rules.defaults)
        await self._changes.finish(name)
        stored = await self._records.read(name)
        if stored is None or self._registry.find(name) is not None:
            return self._registry.find(name)
        return self._registry.add(*stored)

    async def delete(self, name: str) -> Topic:
        """End a topic: from here on no client finds it. Its objects go in the background."""
        topic = self._registry.get(name)
        gone = topic.descriptor
        while True:
            version, newest = await self._descriptors.newest(name)
            if newest is None or not is_alive(newest, topic.descriptor.topic_id):
                break
            gone = newest  # a change cut short may have added logs
            tombstone = msgspec.structs.replace(newest, deleted=True)
            if await self._descriptors.put(tombstone, version + 1):
                break
        self._registry.remove(topic, await self._records.remove(gone))
        return topic
