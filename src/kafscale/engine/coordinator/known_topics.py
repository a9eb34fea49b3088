"""The topics that this broker knows, as consumer groups see them.

Next door: the topics (engine/topics/registry.py), who asks (groups/consumer/machine.py).
"""

from kafscale.engine.topics.registry import TopicRegistry
from kafscale.groups.consumer.assigned import TopicDirectory
from kafscale.groups.consumer.assignors import TopicPartitions


class KnownTopics(TopicDirectory):
    """Answers from the registry."""

    def __init__(self, registry: TopicRegistry) -> None:
        self._registry = registry

    @property
    def revision(self) -> int:
        """Another number after every change."""
        return self._registry.revision

    def partitions_of(self, name: str) -> TopicPartitions | None:
        """The topic of that name, if there is one."""
        topic = self._registry.find(name)
        return None if topic is None else TopicPartitions(topic.topic_id, topic.partitions)
