"""Topics: creating, finding, deleting. The bucket's descriptors are the truth.

Here: a topic's life. A descriptor is written to the bucket first, the metadata store learns of
it second, so that a crash in between leaves a topic that can be taken up, never one that
exists in name only. A name used again gets a folder of its own: nothing of its predecessor can
ever be seen there.
Next door: opening a topic's logs (logs.py), removing its objects (housekeeping.py).
"""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import msgspec
import structlog

from kafscale.engine.descriptors import descriptor_of, record_of
from kafscale.log.descriptors import Descriptors, Wish
from kafscale.metadata import keys as metadata_keys
from kafscale.metadata.store import Compare, MetadataStore, Put, Remove
from kafscale.model.clock import Clock, Dice
from kafscale.model.errors import (
    CorruptObject,
    InvalidPartitionCount,
    InvalidTopicConfig,
    InvalidTopicName,
    MetadataConflict,
    StoreError,
    TopicExists,
    UnknownTopic,
    UnknownTopicId,
)
from kafscale.model.names import (
    TopicId,
    check_topic_name,
    collides,
    fresh_topic_id,
    topic_id_from_hex,
)
from kafscale.model.topics import (
    TopicDefaults,
    TopicDescriptor,
    TopicSettings,
    iso_time,
    validate_configs,
)
from kafscale.objects.store import ObjectStore
from kafscale.virtual.arithmetic import place_of
from kafscale.virtual.rules import LayoutRules

logger = structlog.get_logger()

Change = Callable[[TopicDescriptor], TopicDescriptor]


class Topic:
    """A topic as this broker knows it."""

    __slots__ = ("descriptor", "logs", "name", "partitions", "settings", "topic_id")

    def __init__(self, descriptor: TopicDescriptor, defaults: TopicDefaults) -> None:
        """Read a descriptor once, for the many who ask."""
        self.name = descriptor.name
        self.topic_id: TopicId = topic_id_from_hex(descriptor.topic_id)
        self.become(descriptor, defaults)

    def become(self, descriptor: TopicDescriptor, defaults: TopicDefaults) -> None:
        """Take up a newer descriptor of the same topic; whoever holds the topic sees it at once."""
        self.descriptor = descriptor
        self.partitions = descriptor.partitions
        self.logs = descriptor.logs
        self.settings = TopicSettings.of(descriptor.configs, defaults)

    def place(self, partition: int) -> tuple[int, int]:
        """Log and lane of a partition."""
        if not 0 <= partition < self.partitions:
            raise UnknownTopic(f"{self.name} has no partition {partition}")
        return place_of(partition, self.logs)


@dataclass(frozen=True, slots=True)
class TopicRules:
    """What the configuration says about topics."""

    namespace: str
    defaults: TopicDefaults
    default_partitions: int
    max_partitions: int  # where each has its own log; else the most logs
    max_virtual_partitions: int
    layouts: LayoutRules = field(default_factory=LayoutRules)


class Topics:
    """All topics of the cluster."""

    def __init__(
        self,
        store: ObjectStore,
        metadata: MetadataStore,
        rules: TopicRules,
        clock: Clock,
        dice: Dice,
    ) -> None:
        """Know none yet; `load` reads them."""
        self._descriptors = Descriptors(store, rules.namespace)
        self._metadata = metadata
        self._rules = rules
        self._clock = clock
        self._dice = dice
        self._by_name: dict[str, Topic] = {}
        self._by_id: dict[bytes, Topic] = {}
        self._changing = asyncio.Lock()
        self.revision = 0  # rises with every change: answers built from topics can be cached

    async def load(self) -> None:
        """Read all topics from the metadata store, once changes cut short have reached it."""
        for entry in await self._metadata.find(metadata_keys.CHANGES):
            change = metadata_keys.decode(metadata_keys.Change, entry.value)
            try:
                await self._finish_change(change.name)
            except (StoreError, CorruptObject) as problem:
                # Nobody was told that it happened; the next change, or the next start, finds it.
                logger.warning("change_postponed", topic=change.name, error=str(problem))
        for entry in await self._metadata.find(metadata_keys.TOPICS):
            if metadata_keys.topic_named_by(entry.key) is not None:
                self._know(descriptor_of(metadata_keys.decode(metadata_keys.Topic, entry.value)))

    def _know(self, descriptor: TopicDescriptor) -> Topic:
        topic = Topic(descriptor, self._rules.defaults)
        self._by_name[topic.name] = topic
        self._by_id[topic.topic_id] = topic
        self.revision += 1
        return topic

    # -- finding -----------------------------------------------------------------------------

    def find(self, name: str) -> Topic | None:
        """The topic of that name, if there is one."""
        return self._by_name.get(name)

    def get(self, name: str) -> Topic:
        """The topic of that name, or UnknownTopic."""
        topic = self._by_name.get(name)
        if topic is None:
            raise UnknownTopic(f"there is no topic {name!r}")
        return topic

    def get_by_id(self, topic_id: bytes) -> Topic:
        """The topic of that id, or UnknownTopicId."""
        topic = self._by_id.get(topic_id)
        if topic is None:
            raise UnknownTopicId("no topic has this id")
        return topic

    def all(self) -> list[Topic]:
        """Every topic, by name."""
        return [self._by_name[name] for name in sorted(self._by_name)]

    # -- creating ----------------------------------------------------------------------------

    def check(self, name: str, partitions: int, configs: Mapping[str, str | None]) -> None:
        """Raise what is wrong with a wish for a new topic."""
        check_topic_name(name)
        if name in self._by_name:
            raise TopicExists(f"topic {name!r} exists already")
        for other in self._by_name:
            if collides(name, other):
                raise InvalidTopicName(f"{name!r} collides with {other!r} ('.' and '_' are one)")
        validate_configs(configs)
        logs = self._logs_of(name, partitions, configs)
        self._check_count(partitions, logs)
        if logs is not None and logs > min(partitions, self._rules.max_partitions):
            raise InvalidTopicConfig(
                f"physical.partitions: {logs} logs are more than {partitions} partitions "
                f"or the limit of {self._rules.max_partitions}"
            )

    def _check_count(self, partitions: int, logs: int | None) -> None:
        rules = self._rules
        most = rules.max_partitions if logs is None else rules.max_virtual_partitions
        if not 1 <= partitions <= most:
            raise InvalidPartitionCount(f"a topic has 1 to {most} partitions, not {partitions}")

    def _logs_of(self, name: str, partitions: int, configs: Mapping[str, str | None]) -> int | None:
        """On how many logs a new topic's partitions lie; None for one each."""
        asked = int(configs.get("physical.partitions") or -1)
        if asked != -1:
            return asked
        planned = self._rules.layouts.layout_of(name).physical_partitions
        return None if planned is None else min(planned, max(partitions, 1))

    def partition_count(self, name: str, asked: int) -> int:
        """-1 means: as many as the configuration says."""
        if asked != -1:
            return asked
        planned = self._rules.layouts.layout_of(name).virtual_partitions
        return planned or self._rules.default_partitions

    def default_configs(self) -> dict[str, str]:
        """Every setting a topic has, with what it is for topics that say nothing."""
        return self._rules.defaults.configs()

    async def create(self, name: str, partitions: int, configs: Mapping[str, str | None]) -> Topic:
        """Make a topic that did not exist."""
        self.check(name, partitions, configs)
        given = {key: value for key, value in configs.items() if value is not None}
        logs = self._logs_of(name, partitions, given)
        if logs is not None:  # a topic says itself what it is made of
            given["physical.partitions"] = str(logs)
            planned = self._rules.layouts.layout_of(name).offset_range
            given.setdefault("offset.range", str(planned))
        version, descriptor = await self._describe(name, partitions, given, logs)
        await self._register(descriptor, version)
        topic = self._know(descriptor)
        if (descriptor.partitions, descriptor.configs) != (partitions, given):
            raise TopicExists(f"topic {name!r} exists already in the bucket")
        return topic

    async def _describe(
        self, name: str, partitions: int, configs: dict[str, str], logs: int | None
    ) -> tuple[int, TopicDescriptor]:
        """Write the descriptor; an unfinished creation found in the bucket is taken up."""
        return await self._descriptors.create(
            Wish(
                name,
                fresh_topic_id(self._dice).hex(),
                partitions,
                configs,
                iso_time(self._clock.now_ms()),
                logs=logs,
            )
        )

    async def _register(self, descriptor: TopicDescriptor, version: int) -> None:
        key = metadata_keys.topic_config(descriptor.name)
        record = record_of(descriptor, version, self._rules.defaults)
        try:
            await self._metadata.commit([Put(key, metadata_keys.encode(record))], [Compare(key, 0)])
        except MetadataConflict:
            # By another broker, or by our own earlier attempt whose answer was lost.
            found = await self._metadata.get(key)
            known = metadata_keys.decode(metadata_keys.Topic, found.value) if found else None
            if known is None or known.topic_id != descriptor.topic_id:
                raise TopicExists(f"topic {descriptor.name!r} exists already") from None

    # -- taking up ---------------------------------------------------------------------------

    async def names_in_bucket(self) -> list[str]:
        """Every name that has, or had, a topic of this namespace."""
        return await self._descriptors.names()

    async def adopt(self, name: str) -> Topic | None:
        """Take up a topic that came into the bucket without a broker; None if there is none.

        The note that goes before it makes sure of the one thing that could go wrong: a topic
        deleted by another broker between our look and our entry must not come back.
        """
        version, newest = await self._descriptors.newest(name)
        if newest is None or newest.deleted or name in self._by_name:
            return self.find(name)
        note = metadata_keys.encode(metadata_keys.Change(name=name))
        await self._metadata.commit([Put(metadata_keys.change(name), note)])
        await self._register(newest, version)
        await self._finish_change(name)
        found = await self._metadata.get(metadata_keys.topic_config(name))
        if found is None or name in self._by_name:
            return self.find(name)
        return self._know(descriptor_of(metadata_keys.decode(metadata_keys.Topic, found.value)))

    # -- changing ----------------------------------------------------------------------------

    def check_partitions(self, topic: Topic, count: int) -> None:
        """Raise what is wrong with a wish for more partitions."""
        if count <= topic.partitions:
            raise InvalidPartitionCount(
                f"{topic.name} has {topic.partitions} partitions already, and they never get fewer"
            )
        is_virtual = topic.descriptor.layout == "virtual"
        self._check_count(count, topic.logs if is_virtual else None)

    async def change(self, name: str, change: Change) -> Topic:
        """Give a topic another descriptor: in the bucket, here, then in the metadata store.

        `change` makes the new descriptor of the newest one there is, or raises. A note in the
        metadata store goes before it all: a start after a crash looks into the bucket again for
        the topics that have one, and for no others.
        """
        async with self._changing:
            topic = self.get(name)
            change(topic.descriptor)  # what is wrong is said before anything is written
            note = metadata_keys.encode(metadata_keys.Change(name=name))
            await self._metadata.commit([Put(metadata_keys.change(name), note)])
            while True:
                version, newest = await self._descriptors.newest(name)
                if newest is None or not _is_alive(newest, topic.descriptor.topic_id):
                    raise UnknownTopic(f"topic {name!r} has been deleted")
                wanted = change(newest)
                if wanted == newest:
                    break
                version += 1
                if await self._descriptors.put(wanted, version):
                    break
            topic.become(wanted, self._rules.defaults)
            self.revision += 1
            await self._take_up(wanted, version)
            return topic

    async def _finish_change(self, name: str) -> None:
        """Let the metadata store know what the bucket says, whatever was cut short."""
        version, newest = await self._descriptors.newest(name)
        if newest is not None and not newest.deleted:
            await self._take_up(newest, version)
            return
        found = await self._metadata.get(metadata_keys.topic_config(name))
        row = metadata_keys.decode(metadata_keys.Topic, found.value) if found else None
        if newest is not None and row is not None and row.topic_id == newest.topic_id:
            await self._forget(newest, newest.logs)  # a deletion that did not reach the store
        await self._metadata.commit([Remove(metadata_keys.change(name))])

    async def _take_up(self, descriptor: TopicDescriptor, version: int) -> None:
        key = metadata_keys.topic_config(descriptor.name)
        done = Remove(metadata_keys.change(descriptor.name))
        record = metadata_keys.encode(record_of(descriptor, version, self._rules.defaults))
        while True:
            found = await self._metadata.get(key)
            row = metadata_keys.decode(metadata_keys.Topic, found.value) if found else None
            if found is None or row is None or row.topic_id != descriptor.topic_id:
                await self._metadata.commit([done])  # deleted meanwhile
                return
            writes: list[Put | Remove] = [done]
            if row.version <= version:
                writes.append(Put(key, record))
            try:
                await self._metadata.commit(writes, [Compare(key, found.version)])
            except MetadataConflict:
                continue
            return

    # -- deleting ----------------------------------------------------------------------------

    async def delete(self, name: str) -> Topic:
        """End a topic: from here on nobody can find it. Its objects go in the background."""
        topic = self.get(name)
        logs = topic.descriptor.logs
        while True:
            version, newest = await self._descriptors.newest(name)
            if newest is None or not _is_alive(newest, topic.descriptor.topic_id):
                break
            logs = max(logs, newest.logs)  # a change cut short may have added some
            tombstone = msgspec.structs.replace(newest, deleted=True)
            if await self._descriptors.put(tombstone, version + 1):
                break
        await self._forget(topic.descriptor, logs)
        self._by_name.pop(name, None)
        self._by_id.pop(topic.topic_id, None)
        self.revision += 1
        return topic

    async def _forget(self, descriptor: TopicDescriptor, logs: int) -> None:
        """Take a topic out of the metadata store and note that its objects must go."""
        removal = metadata_keys.Removal(
            folder=descriptor.folder,
            logs=logs,
            deleted_ms=self._clock.now_ms(),
            name=descriptor.name,
            topic_id=descriptor.topic_id,
        )
        await self._metadata.commit(
            [
                Remove(metadata_keys.topic_config(descriptor.name)),
                Put(metadata_keys.removal(descriptor.folder), metadata_keys.encode(removal)),
            ]
        )


def _is_alive(descriptor: TopicDescriptor, topic_id: str) -> bool:
    return not descriptor.deleted and descriptor.topic_id == topic_id
