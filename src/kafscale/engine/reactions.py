"""What a broker does when topics change, and when the cluster gives or takes logs.

Here: the one implementation of `TopicEvents` and `ClusterEvents`. Every reaction names the parts
that must hear of an event, in order.
Next door: who raises the events (topics/registry.py, cluster/).
"""

import asyncio
from collections.abc import Callable, Coroutine

import structlog

from kafscale.engine.cluster.machine import HAND_OVER_S
from kafscale.engine.cluster.membership import ClusterEvents, Membership
from kafscale.engine.coordinator.groups import Groups
from kafscale.engine.metrics.series import BrokerMetrics
from kafscale.engine.moves.moves import Moves
from kafscale.engine.partitions.open_logs import OpenLogs
from kafscale.engine.partitions.partitions import Partitions
from kafscale.engine.subscriptions.subscriptions import Subscriptions
from kafscale.engine.topics.lifecycle import TopicLifecycle
from kafscale.engine.topics.registry import TopicEvents
from kafscale.engine.topics.topic import Topic
from kafscale.engine.upkeep.removals import Removals
from kafscale.log.moves import end_of_topic
from kafscale.model.errors import KafscaleError
from kafscale.tasks import Tasks

logger = structlog.get_logger()


class Reactions(TopicEvents, ClusterEvents):
    """Tells the parts of one broker what concerns them."""

    def __init__(
        self,
        cluster: Membership,
        lifecycle: TopicLifecycle,
        logs: OpenLogs,
        partitions: Partitions,
        groups: Groups,
        subscriptions: Subscriptions,
        moves: Moves,
        removals: Removals,
        metrics: BrokerMetrics,
        tasks: Tasks,
    ) -> None:
        self._cluster = cluster
        self._lifecycle = lifecycle
        self._logs = logs
        self._partitions = partitions
        self._groups = groups
        self._subscriptions = subscriptions
        self._moves = moves
        self._removals = removals
        self._metrics = metrics
        self._tasks = tasks
        self.watchers: dict[Callable[[], None], None] = {}  # in the order they came

    def _tell_watchers(self) -> None:
        """What clients are told of the cluster may be another by now."""
        for wake in list(self.watchers):
            wake()

    # -- topics ------------------------------------------------------------------------------

    def topics_changed(self) -> None:
        """What clients are told of topics has changed."""
        self._tell_watchers()

    def topic_changed(self, topic: Topic) -> None:
        """A topic is new here, or has other settings, partitions or another place."""
        self._partitions.topic_changed(topic)
        self._moves.wake()

    def topic_gone(self, topic: Topic) -> "asyncio.Task[None]":
        """A topic has been deleted. The task ends when its logs are closed on this broker."""
        self._subscriptions.topic_gone(topic)
        return self._tasks.spawn(self._close_topic(topic), f"end of {topic.name}")

    async def _close_topic(self, topic: Topic) -> None:
        await self._partitions.close_topic(topic)
        if self._cluster.has_peers and end_of_topic.has_lanes(topic.descriptor):
            self._tasks.spawn(self._seal_lanes(topic), f"seals of {topic.name}")
        self._metrics.forget_topic(topic.name)
        self._tasks.spawn(self._removals.try_to_remove(), f"removal of {topic.name}")

    async def _seal_lanes(self, topic: Topic) -> None:
        """Seal a deleted topic's lanes, if the bucket also says that the topic is deleted.

        A topic that only the metadata store has lost is recovered from the bucket.
        """
        try:
            if not await self._lifecycle.is_in_bucket(topic):
                self._logs.seal(topic)
        except KafscaleError as problem:
            # The broker that creates a topic of this name seals them.
            logger.warning("lanes_not_sealed", topic=topic.name, error=str(problem))

    # -- the cluster -------------------------------------------------------------------------

    def ownership_changed(self) -> "asyncio.Task[None]":
        """Stop serving, now, what has become another broker's; the task flushes and saves it."""
        self._tell_watchers()
        logs = self._logs.release(HAND_OVER_S)
        groups = self._groups.release()
        subscriptions = self._subscriptions.release()
        return self._tasks.spawn(_gather(groups, subscriptions, logs), "hand-over")

    def lease_lost(self) -> None:
        """Stop serving everything: the lease is lost, and nothing may be promised any more."""
        self._tell_watchers()
        self._logs.drop()
        self._groups.drop()
        self._subscriptions.drop()

    def logs_ready(self) -> None:
        """Open owned logs that are not open yet."""
        self._partitions.wake_opener()
        self._tell_watchers()

    def brokers_changed(self) -> None:
        """A broker has come, gone or moved to another address."""
        self._tell_watchers()


async def _gather(*parts: Coroutine[None, None, None]) -> None:
    await asyncio.gather(*parts)
