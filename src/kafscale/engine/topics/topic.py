"""A topic as this broker knows it: its descriptor, read once for many requests.

Next door: all topics (registry.py), what layouts mean (log/formats/places.py).
"""

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from kafscale.engine.topics.rules import place_of_topic
from kafscale.log.formats import places
from kafscale.log.formats.places import LanePlace
from kafscale.log.writer.lane import LaneRules
from kafscale.model.errors import UnknownTopic
from kafscale.model.names import TopicId, topic_id_from_hex
from kafscale.model.topics import TopicDefaults, TopicDescriptor, TopicSettings
from kafscale.virtual.arithmetic import place_of


class Topic:
    """A topic as this broker knows it."""

    __slots__ = (
        "_folders",
        "appended_bytes",
        "appended_records",
        "descriptor",
        "fetched_bytes",
        "is_being_sealed",
        "lane_rules",
        "name",
        "partitions",
        "settings",
        "topic_id",
        "uses_shared_logs",
        "version",
    )

    def __init__(self, descriptor: TopicDescriptor, version: int, defaults: TopicDefaults) -> None:
        """`version`: of the descriptor."""
        self.name = descriptor.name
        self.topic_id: TopicId = topic_id_from_hex(descriptor.topic_id)
        self.version = 0
        # What clients of this broker wrote and read: plain numbers, read at each scrape.
        self.appended_bytes = self.appended_records = self.fetched_bytes = 0
        self.replace_descriptor(descriptor, version, defaults)

    def replace_descriptor(
        self, descriptor: TopicDescriptor, version: int, defaults: TopicDefaults
    ) -> None:
        """Take over a descriptor of the same topic; all holders of the topic see it."""
        self.version = version
        self.descriptor = descriptor
        self.partitions = descriptor.partitions
        self.uses_shared_logs = descriptor.layout == "shared"
        self.is_being_sealed = descriptor.moving is not None and descriptor.moving.sealing
        self._folders = places.own_folders(descriptor)
        self.settings = TopicSettings.of(descriptor.configs, defaults)
        self.lane_rules = LaneRules(
            offset_range=self.settings.offset_range,
            # Producers of a topic that was deleted and created again go on counting.
            accepts_unknown_sequences=descriptor.incarnation > 1,
            deduplicates=self.settings.deduplication,
            fetch_buffered=self.settings.fetch_buffered,
            buffers_transactions=self.settings.transactions_buffered,
        )

    def own_configs(self, defaults: Mapping[str, str]) -> dict[str, str]:
        """Its own settings, and those of its place where the place is not the default one."""
        place = place_of_topic(self.descriptor)
        implied = {name: value for name, value in place.items() if value != defaults[name]}
        return implied | self.descriptor.configs

    def place(self, partition: int) -> LanePlace:
        """Log and lane of a partition."""
        if not 0 <= partition < self.partitions:
            raise UnknownTopic(f"{self.name} has no partition {partition}")
        if self.uses_shared_logs:
            return places.place(self.descriptor, partition)
        log, lane = place_of(partition, len(self._folders))
        return LanePlace(self._folders[log], lane)

    def folder(self, partition: int) -> str:
        """Where a partition's log lies."""
        return self.place(partition).folder


class Resident(NamedTuple):
    """The partition that has a lane of a shared log."""

    topic: Topic
    partition: int


class Residents:
    """The partitions that have the lanes of shared logs; computed again when topics change."""

    def __init__(self) -> None:
        self._by_folder: dict[str, dict[int, Resident]] = {}
        self._revision = -1  # the registry's, when this was computed

    def lanes(
        self, topics: Callable[[], Iterable[Topic]], revision: int
    ) -> dict[str, dict[int, Resident]]:
        """Residents by the log's folder and the lane."""
        if self._revision != revision:
            self._by_folder = {}
            for topic in topics():
                if topic.uses_shared_logs:
                    for partition, (folder, lane) in places.each_place(topic.descriptor):
                        lanes = self._by_folder.setdefault(folder, {})
                        lanes[lane] = Resident(topic, partition)
            self._revision = revision
        return self._by_folder
