"""A topic as this broker knows it: its descriptor, read once for the many who ask.

Next door: a topic's life (topics.py), what layouts mean (log/formats/places.py).
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
        "descriptor",
        "lane_rules",
        "name",
        "partitions",
        "settings",
        "topic_id",
        "uses_shared_logs",
    )

    def __init__(self, descriptor: TopicDescriptor, defaults: TopicDefaults) -> None:
        """Read a descriptor once, for the many who ask."""
        self.name = descriptor.name
        self.topic_id: TopicId = topic_id_from_hex(descriptor.topic_id)
        self.become(descriptor, defaults)

    def become(self, descriptor: TopicDescriptor, defaults: TopicDefaults) -> None:
        """Take up a newer descriptor of the same topic; whoever holds the topic sees it at once."""
        self.descriptor = descriptor
        self.partitions = descriptor.partitions
        self.uses_shared_logs = descriptor.layout == "shared"
        self._folders = places.own_folders(descriptor)
        self.settings = TopicSettings.of(descriptor.configs, defaults)
        self.lane_rules = LaneRules(
            offset_range=self.settings.offset_range,
            # Producers of a topic that was deleted and created again go on counting.
            accepts_unknown_sequences=descriptor.incarnation > 1,
            fetch_buffered=self.settings.fetch_buffered,
        )

    def own_configs(self, defaults: Mapping[str, str]) -> dict[str, str]:
        """Its own settings; also, where it lies is one if that is not what the defaults say."""
        place = place_of_topic(self.descriptor)
        unsaid = {name: value for name, value in place.items() if value != defaults[name]}
        return unsaid | self.descriptor.configs

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
    """Whose a lane of a shared log is."""

    topic: Topic
    partition: int


class Residents:
    """Whose the lanes of all shared logs are, looked up again only when topics have changed."""

    def __init__(self) -> None:
        """Know nothing yet."""
        self._found: dict[str, dict[int, Resident]] = {}
        self._revision = -1  # of topics, that they were found in

    def lanes(
        self, topics: Callable[[], Iterable[Topic]], revision: int
    ) -> dict[str, dict[int, Resident]]:
        """By the logs' folders and lanes."""
        if self._revision != revision:
            self._found = {}
            for topic in topics():
                if topic.uses_shared_logs:
                    for partition, (folder, lane) in places.each_place(topic.descriptor):
                        lanes = self._found.setdefault(folder, {})
                        lanes[lane] = Resident(topic, partition)
            self._revision = revision
        return self._found
