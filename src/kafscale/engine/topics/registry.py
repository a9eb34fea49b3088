"""Topics: creating, finding, deleting. The bucket's descriptors are the truth.

Here: a topic's life. A descriptor is written to the bucket first, the metadata store learns of
it second, so that a crash in between leaves a topic that can be taken up, never one that
exists in name only. A name used again gets a folder of its own: nothing of its predecessor can
ever be seen there.
Next door: opening a topic's logs (logs.py), removing its objects (housekeeping.py).
"""

import asyncio
from collections.abc import Callable, Iterator, Mapping

import msgspec
import structlog

from kafscale.engine.topics import removals
from kafscale.engine.topics.records import descriptor_of, record_of
from kafscale.engine.topics.rules import TopicRules
from kafscale.engine.topics.topic import Resident, Residents, Topic
from kafscale.log.catalog.descriptors import Descriptors, Wish
from kafscale.log.catalog.lane_allotment import SharedLogs
from kafscale.log.formats import keys, places
from kafscale.log.moves import end_of_topic
from kafscale.metadata import keys as metadata_keys
from kafscale.metadata.store import Compare, Entry, MetadataStore, Put, Remove
from kafscale.model.clock import Clock, Dice
from kafscale.model.errors import (
    CorruptObject,
    InvalidPartitionCount,
    InvalidTopicName,
    MetadataConflict,
    StoreError,
    TopicExists,
    UnknownTopic,
    UnknownTopicId,
)
from kafscale.model.names import check_topic_name, collides, fresh_topic_id
from kafscale.model.topics import LaneRange, Layout, TopicDescriptor, iso_time
from kafscale.objects.store import ObjectStore

logger = structlog.get_logger()

Change = Callable[[TopicDescriptor], TopicDescriptor]


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
        self._shared = SharedLogs(store, rules.namespace)
        self._tools = end_of_topic.Tools(store, clock, dice)
        self._residents = Residents()
        self.metadata = metadata
        self._rules = rules
        self._clock = clock
        self._dice = dice
        self._by_name: dict[str, Topic] = {}
        self._by_id: dict[bytes, Topic] = {}
        self._changing = asyncio.Lock()
        self.revision = 0  # rises with every change: answers built from topics can be cached
        self._seen: dict[str, int] = {}  # the metadata store's version that each name is known by
        self.broker_count: Callable[[], int] = lambda: 1
        self.has_others = False  # who hear late of what we do
        self.on_changed: Callable[[Topic], None] = lambda topic: None
        self.on_gone: Callable[[Topic], None] = lambda topic: None

    async def load(self) -> None:
        """Read all topics from the metadata store, once changes cut short have reached it."""
        for entry in await self.metadata.find(metadata_keys.CHANGES):
            change = metadata_keys.decode(metadata_keys.ChangeNote, entry.value)
            try:
                await self.finish_change(change.name)
            except (StoreError, CorruptObject) as problem:
                # Nobody was told that it happened; the next change, or the next start, finds it.
                logger.warning("change_postponed", topic=change.name, error=str(problem))
        for entry in await self.metadata.find(metadata_keys.TOPICS):
            if metadata_keys.topic_named_by(entry.key) is not None:
                row = metadata_keys.decode(metadata_keys.TopicRow, entry.value)
                self._know(descriptor_of(row), entry.version)

    def _know(self, descriptor: TopicDescriptor, seen: int = 0) -> Topic:
        topic = Topic(descriptor, self._rules.defaults)
        self._seen[topic.name] = max(seen, self._seen.get(topic.name, 0))
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

    def version_of(self, name: str) -> int:
        """Of the metadata store's entry for the topic, as we know it; 0: there is none."""
        return self._seen[name] if name in self._by_name else 0

    def all(self) -> list[Topic]:
        """Every topic, by name."""
        return [self._by_name[name] for name in sorted(self._by_name)]

    def log_folders(self) -> Iterator[tuple[str, Topic | None]]:
        """Every log there is, with the topic it belongs to; None if it is shared by many."""
        for topic in self.all():
            if not topic.uses_shared_logs:
                yield from ((folder, topic) for folder in places.own_folders(topic.descriptor))
        yield from ((folder, None) for folder in self._lanes())

    def residents(self, folder: str) -> Mapping[int, Resident]:
        """The partitions that have lanes of a shared log, by lane."""
        return self._lanes().get(folder, {})

    def _lanes(self) -> dict[str, dict[int, Resident]]:
        return self._residents.lanes(self.all, self.revision)

    # -- creating ----------------------------------------------------------------------------

    def check(self, name: str, partitions: int, configs: Mapping[str, str | None]) -> None:
        """Raise what is wrong with a wish for a new topic."""
        check_topic_name(name)
        if name in self._by_name:
            raise TopicExists(f"topic {name!r} exists already")
        for other in self._by_name:
            if collides(name, other):
                raise InvalidTopicName(f"{name!r} collides with {other!r} ('.' and '_' are one)")
        self._rules.check(name, partitions, configs)

    def partition_count(self, name: str, asked: int) -> int:
        """-1 means: as many as the configuration says."""
        return self._rules.partition_count(name, asked)

    def default_configs(self, topic: Topic | None = None) -> dict[str, str]:
        """Every setting a topic has, with what it is for topics, or for this one, without it."""
        defaults = self._rules.defaults.configs()
        return defaults if topic is None else defaults | self._rules.default_place(topic.descriptor)

    async def create(self, name: str, partitions: int, configs: Mapping[str, str | None]) -> Topic:
        """Make a topic that did not exist, or take up an unfinished creation in the bucket."""
        self.check(name, partitions, configs)
        given = {key: value for key, value in configs.items() if value is not None}
        logs = self._rules.lay_out(name, partitions, given)
        shared: tuple[LaneRange, ...] = ()
        if given.get("storage.placement") == "shared":
            shared = (await self.allot(partitions),)
        fresh_id, created_at = fresh_topic_id(self._dice).hex(), iso_time(self._clock.now_ms())
        wish = Wish(name, fresh_id, partitions, given, created_at, logs=logs, shared=shared)
        version, descriptor = await self._descriptors.create(wish, self._end)
        seen = await self._register(descriptor, version)
        topic = self.find(name)  # another broker's, heard of meanwhile
        if topic is None or topic.topic_id.hex() != descriptor.topic_id:
            topic = self._know(descriptor, seen)
        if (descriptor.partitions, descriptor.configs) != (partitions, given):
            raise TopicExists(f"topic {name!r} exists already in the bucket")
        return topic

    async def _end(self, gone: TopicDescriptor) -> None:
        """Let no broker take a record for it, however late. Who is alone has closed its logs."""
        if self.has_others:
            await end_of_topic.end_topic(self._tools, gone)

    def new_folder(self, name: str, token: str) -> str:
        """A folder for logs of that topic, in which nobody has ever written."""
        return keys.topic_folder(self._rules.namespace, name, token)

    def laid_out(
        self, topic: TopicDescriptor, configs: Mapping[str, str], *, anew: bool
    ) -> tuple[Layout, int]:
        """The layout, and the number of own logs, that other settings of a topic ask for."""
        return self._rules.laid_out(topic, configs, anew=anew)

    async def allot(self, count: int) -> LaneRange:
        """Lanes of shared logs that nobody has ever had."""
        return await self._shared.allot(count, self._rules.shared_logs or self.broker_count())

    async def _register(self, descriptor: TopicDescriptor, version: int) -> int:
        """Enter a topic; gives the entry's version."""
        key = metadata_keys.topic_config(descriptor.name)
        record = metadata_keys.encode(record_of(descriptor, version, self._rules.defaults))
        try:
            return await self.metadata.commit([Put(key, record)], [Compare(key, 0)])
        except MetadataConflict:
            # By another broker, or by our own earlier attempt whose answer was lost.
            found = await self.metadata.get(key)
            known = metadata_keys.decode(metadata_keys.TopicRow, found.value) if found else None
            if found is None or known is None or known.topic_id != descriptor.topic_id:
                raise TopicExists(f"topic {descriptor.name!r} exists already") from None
            return found.version

    # -- taking up ---------------------------------------------------------------------------

    async def names_in_bucket(self) -> list[str]:
        """Every name that has, or had, a topic of this namespace."""
        return await self._descriptors.names()

    async def is_in_bucket(self, topic: Topic) -> bool:
        """Whether this very topic lives, by its descriptor."""
        _, newest = await self._descriptors.newest(topic.name)
        return newest is not None and _is_alive(newest, topic.descriptor.topic_id)

    async def adopt(self, name: str) -> Topic | None:
        """Take up a topic that came into the bucket without a broker; None if there is none.

        By the note before it, one that is deleted between our look and our entry stays away.
        """
        version, newest = await self._descriptors.newest(name)
        if newest is None or newest.deleted or name in self._by_name:
            return self.find(name)
        note = metadata_keys.encode(metadata_keys.ChangeNote(name=name))
        await self.metadata.commit([Put(metadata_keys.change(name), note)])
        await self._register(newest, version)
        await self.finish_change(name)
        found = await self.metadata.get(metadata_keys.topic_config(name))
        if found is None or name in self._by_name:
            return self.find(name)
        row = metadata_keys.decode(metadata_keys.TopicRow, found.value)
        return self._know(descriptor_of(row), found.version)

    # -- what other brokers do -----------------------------------------------------------------

    def hear_of(self, entry: Entry) -> None:
        """Another broker has made or changed a topic, or we have, and it comes back to us."""
        name = metadata_keys.topic_named_by(entry.key)
        if name is not None and entry.version > self._seen.get(name, 0):
            row = metadata_keys.decode(metadata_keys.TopicRow, entry.value)
            self._take_over(descriptor_of(row), entry.version)

    def hear_of_end(self, name: str, version: int) -> None:
        """Another broker has deleted a topic."""
        topic = self._by_name.get(name)
        if topic is not None and version > self._seen.get(name, 0):
            self._lose(topic, version)
            self.on_gone(topic)

    async def look_at(self, name: str) -> None:
        """Ask what has become of a topic, without waiting until it is told."""
        found = await self.metadata.get(metadata_keys.topic_config(name))
        topic = self._by_name.get(name)
        if found is not None:
            self.hear_of(found)
        elif topic is not None:
            self._lose(topic, 0)
            self.on_gone(topic)

    def _take_over(self, descriptor: TopicDescriptor, version: int) -> None:
        topic = self._by_name.get(descriptor.name)
        if topic is not None and topic.descriptor.topic_id == descriptor.topic_id:
            topic.become(descriptor, self._rules.defaults)
            self._seen[topic.name] = version
            self.revision += 1
        else:
            if topic is not None:
                self._lose(topic, version)
                self.on_gone(topic)
            topic = self._know(descriptor, version)
        self.on_changed(topic)

    def _lose(self, topic: Topic, version: int) -> None:
        if self._by_name.get(topic.name) is topic:
            del self._by_name[topic.name]
        self._by_id.pop(topic.topic_id, None)
        self._seen[topic.name] = max(version, self._seen.get(topic.name, 0))
        self.revision += 1

    # -- changing ----------------------------------------------------------------------------

    def check_partitions(self, topic: Topic, count: int) -> None:
        """Raise what is wrong with a wish for more partitions."""
        if count <= topic.partitions:
            there = f"{topic.name} has {topic.partitions} partitions already"
            raise InvalidPartitionCount(f"{there}, and they never get fewer")
        self._rules.check_count(count, is_virtual=topic.descriptor.layout != "ordinary")

    async def change(self, name: str, change: Change) -> Topic:
        """Give a topic another descriptor: in the bucket, here, then in the metadata store.

        `change` makes the new descriptor of the newest one there is, or raises. A note goes before
        it all: a start after a crash looks into the bucket again for topics that have one.
        """
        async with self._changing:
            topic = self.get(name)
            change(topic.descriptor)  # what is wrong is said before anything is written
            note = metadata_keys.encode(metadata_keys.ChangeNote(name=name))
            await self.metadata.commit([Put(metadata_keys.change(name), note)])
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
            seen = await self._take_up(wanted, version)
            self._seen[name] = max(seen, self._seen.get(name, 0))
            return topic

    async def finish_change(self, name: str) -> None:
        """Let the metadata store know what the bucket says, whatever was cut short."""
        version, newest = await self._descriptors.newest(name)
        if newest is not None and not newest.deleted:
            await self._take_up(newest, version)
            return
        found = await self.metadata.get(metadata_keys.topic_config(name))
        row = metadata_keys.decode(metadata_keys.TopicRow, found.value) if found else None
        if newest is not None and row is not None and row.topic_id == newest.topic_id:
            await self._forget(newest)  # a deletion that did not reach the store
        await self.metadata.commit([Remove(metadata_keys.change(name))])

    async def _take_up(self, descriptor: TopicDescriptor, version: int) -> int:
        """Let the metadata store know; gives the version it has this by, 0 if it has not."""
        key = metadata_keys.topic_config(descriptor.name)
        done = Remove(metadata_keys.change(descriptor.name))
        record = metadata_keys.encode(record_of(descriptor, version, self._rules.defaults))
        while True:
            found = await self.metadata.get(key)
            row = metadata_keys.decode(metadata_keys.TopicRow, found.value) if found else None
            if found is None or row is None or row.topic_id != descriptor.topic_id:
                await self.metadata.commit([done])  # deleted meanwhile
                return 0
            writes: list[Put | Remove] = [done]
            if row.version <= version:
                writes.append(Put(key, record))
                writes += removals.of_old_home(descriptor_of(row), descriptor, self._clock.now_ms())
            try:
                seen = await self.metadata.commit(writes, [Compare(key, found.version)])
            except MetadataConflict:
                continue
            if row.version <= version:
                return seen
            if descriptor.name in self._by_name:  # somebody has changed it once more
                self._take_over(descriptor_of(row), found.version)
            return 0

    # -- deleting ----------------------------------------------------------------------------

    async def delete(self, name: str) -> Topic:
        """End a topic: from here on nobody can find it. Its objects go in the background."""
        topic = self.get(name)
        gone = topic.descriptor
        while True:
            version, newest = await self._descriptors.newest(name)
            if newest is None or not _is_alive(newest, topic.descriptor.topic_id):
                break
            gone = newest  # a change cut short may have added logs
            tombstone = msgspec.structs.replace(newest, deleted=True)
            if await self._descriptors.put(tombstone, version + 1):
                break
        self._lose(topic, await self._forget(gone))
        return topic

    async def _forget(self, gone: TopicDescriptor) -> int:
        """Take a topic out of the metadata store and note that its objects must go.

        Gives the version by which it is gone, 0 if others had deleted it, and perhaps made anew.
        """
        key = metadata_keys.topic_config(gone.name)
        notes = removals.of_topic(gone, self._clock.now_ms())
        while True:
            found = await self.metadata.get(key)
            row = metadata_keys.decode(metadata_keys.TopicRow, found.value) if found else None
            try:
                if found is None or row is None or row.topic_id != gone.topic_id:
                    await self.metadata.commit(notes)
                    return 0
                left = removals.of_old_home(descriptor_of(row), gone, self._clock.now_ms())
                return await self.metadata.commit(
                    [Remove(key), *notes, *left], [Compare(key, found.version)]
                )
            except MetadataConflict:
                continue


def _is_alive(descriptor: TopicDescriptor, topic_id: str) -> bool:
    return not descriptor.deleted and descriptor.topic_id == topic_id
