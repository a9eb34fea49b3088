"""The topics that this broker knows, by name and by id.

Here: finding topics, and keeping up with what the metadata store says about them. The registry
raises the events of `TopicEvents`.
Next door: creating and deleting (lifecycle.py), changing (changes.py), the watch (discovery.py),
what the engine does about the events (engine/reactions.py).
Never here: the bucket.
"""

import asyncio
from collections.abc import Iterable, Iterator, Mapping
from typing import Protocol

from kafscale.engine.topics.rules import TopicRules
from kafscale.engine.topics.topic import Resident, Residents, Topic
from kafscale.log.formats import places
from kafscale.metadata import keys
from kafscale.metadata.store import Entry, MetadataStore
from kafscale.metadata.topic_rows import descriptor_of
from kafscale.model.errors import UnknownTopic, UnknownTopicId
from kafscale.model.topics import TopicDescriptor


class TopicEvents(Protocol):
    """What the registry tells the rest of the broker."""

    def topics_changed(self) -> None:
        """Something that clients are told of topics has changed, by this broker or another one."""

    def topic_changed(self, topic: Topic) -> None:
        """A topic is new here, or has other settings, partitions or another place."""

    def topic_gone(self, topic: Topic) -> "asyncio.Task[None]":
        """A topic has been deleted. The task ends when its logs are closed on this broker."""


class TopicRegistry:
    """All topics of the cluster, as far as this broker has heard of them."""

    def __init__(self, metadata: MetadataStore, rules: TopicRules) -> None:
        self._metadata = metadata
        self.rules = rules
        self._by_name: dict[str, Topic] = {}
        self._by_id: dict[bytes, Topic] = {}
        self._residents = Residents()
        self._versions: dict[str, int] = {}  # of the metadata store's entries, by topic name
        self._events: TopicEvents | None = None
        self.revision = 0  # rises with every change: answers built from topics can be cached

    async def load(self, events: TopicEvents) -> None:
        """Read all topics from the metadata store; from now on tell `events` what changes."""
        self._events = events
        for entry in await self._metadata.find(keys.TOPICS):
            if keys.topic_named_by(entry.key) is not None:
                row = keys.decode(keys.TopicRow, entry.value)
                self.add(descriptor_of(row), row.version, entry.version)

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
        """The version of the topic's entry in the metadata store; 0: no topic is known here."""
        return self._versions[name] if name in self._by_name else 0

    def all(self) -> list[Topic]:
        """Every topic, by name."""
        return [self._by_name[name] for name in sorted(self._by_name)]

    def names(self) -> Iterable[str]:
        """The names of all topics, in no order."""
        return self._by_name.keys()

    def log_folders(self) -> Iterator[tuple[str, Topic | None]]:
        """The folder of every log, with the topic that owns the log; None for shared logs."""
        for topic in self.all():
            if not topic.uses_shared_logs:
                yield from ((folder, topic) for folder in places.own_folders(topic.descriptor))
        yield from ((folder, None) for folder in self._lanes())

    def residents(self, folder: str) -> Mapping[int, Resident]:
        """The partitions that have lanes of a shared log, by lane."""
        return self._lanes().get(folder, {})

    def _lanes(self) -> dict[str, dict[int, Resident]]:
        return self._residents.lanes(self.all, self.revision)

    # -- what this broker does ---------------------------------------------------------------

    def add(self, descriptor: TopicDescriptor, version: int, entry_version: int) -> Topic:
        """Know a topic. The versions are the descriptor's and the metadata store's entry's."""
        topic = Topic(descriptor, version, self.rules.defaults)
        self.note_version(topic.name, entry_version)
        self._by_name[topic.name] = topic
        self._by_id[topic.topic_id] = topic
        self._count_change()
        return topic

    def replace(self, topic: Topic, descriptor: TopicDescriptor, version: int) -> None:
        """Give a topic a newer descriptor, perhaps before the metadata store has it.

        An older one changes nothing. The watch tells late of entries that were written before the
        descriptor that this broker has, and a topic that went back to its former place would show
        clients an end of the partition that lies before acknowledged records.
        """
        if version >= topic.version:
            topic.replace_descriptor(descriptor, version, self.rules.defaults)
            self._count_change()

    def note_version(self, name: str, entry_version: int) -> None:
        """The metadata store has written this topic's entry with this version."""
        self._versions[name] = max(entry_version, self._versions.get(name, 0))

    def remove(self, topic: Topic, entry_version: int) -> None:
        """Know a topic no longer. `entry_version`: the metadata store's, by which it is gone."""
        if self._by_name.get(topic.name) is topic:
            del self._by_name[topic.name]
        self._by_id.pop(topic.topic_id, None)
        self.note_version(topic.name, entry_version)
        self._count_change()

    def _count_change(self) -> None:
        self.revision += 1
        if self._events is not None:
            self._events.topics_changed()

    def announce_change(self, topic: Topic) -> None:
        """Tell the rest of the broker that a topic has changed."""
        if self._events is not None:
            self._events.topic_changed(topic)

    def announce_end(self, topic: Topic) -> "asyncio.Task[None] | None":
        """Tell the rest of the broker that a topic is gone."""
        return self._events.topic_gone(topic) if self._events is not None else None

    # -- what other brokers do ---------------------------------------------------------------

    def apply_entry(self, entry: Entry) -> None:
        """The metadata store's entry of a topic is new or has changed."""
        name = keys.topic_named_by(entry.key)
        if name is not None and entry.version > self._versions.get(name, 0):
            row = keys.decode(keys.TopicRow, entry.value)
            self.apply(descriptor_of(row), row.version, entry.version)

    def apply_removal(self, name: str, version: int) -> None:
        """The metadata store has removed the entry of a topic."""
        topic = self._by_name.get(name)
        if topic is not None and version > self._versions.get(name, 0):
            self.remove(topic, version)
            self.announce_end(topic)

    def apply(self, descriptor: TopicDescriptor, version: int, entry_version: int) -> None:
        """Take over a descriptor that the metadata store has in an entry of this version."""
        topic = self._by_name.get(descriptor.name)
        if topic is not None and topic.descriptor.topic_id == descriptor.topic_id:
            self.replace(topic, descriptor, version)
            self.note_version(topic.name, entry_version)
        else:
            if topic is not None:
                self.remove(topic, entry_version)
                self.announce_end(topic)
            topic = self.add(descriptor, version, entry_version)
        self.announce_change(topic)

    async def refresh(self, name: str) -> None:
        """Read a topic from the metadata store now, without waiting for the watch."""
        entry = await self._metadata.get(keys.topic_config(name))
        topic = self._by_name.get(name)
        if entry is not None:
            self.apply_entry(entry)
        elif topic is not None:
            self.remove(topic, 0)
            self.announce_end(topic)
