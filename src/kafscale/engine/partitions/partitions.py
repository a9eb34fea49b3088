"""The facade of this sub-room: what a door may do with partitions.

Here: the parts put together, and their verbs. A door names a topic and a partition; it never gets
a log or a lane.
Next door: the parts (appends.py, reads.py, subscriptions.py, inspection.py, producer_ids.py).
"""

from collections.abc import Callable, Coroutine

from kafscale.engine.cluster.membership import Membership
from kafscale.engine.partitions.appends import Appends
from kafscale.engine.partitions.inspection import Inspection
from kafscale.engine.partitions.open_logs import OpenLogs
from kafscale.engine.partitions.opener import Opener
from kafscale.engine.partitions.producer_ids import ProducerIds
from kafscale.engine.partitions.reads import PartitionRead, Reads
from kafscale.engine.partitions.subscriptions import Subscription
from kafscale.engine.topics.registry import TopicRegistry
from kafscale.engine.topics.topic import Topic
from kafscale.log.reader.reader import Reader
from kafscale.model.clock import Clock
from kafscale.tasks import Tasks


class Partitions:
    """Appending to partitions, reading from them, and questions about them."""

    def __init__(
        self,
        topics: TopicRegistry,
        logs: OpenLogs,
        appends: Appends,
        producer_ids: ProducerIds,
        reader: Reader,
        cluster: Membership,
        clock: Clock,
        tasks: Tasks,
    ) -> None:
        reads = Reads(logs, reader, clock)
        inspection = Inspection(logs, reader, cluster, tasks)
        self._logs = logs
        self._appends = appends
        self._reads = reads
        self._opener = Opener(topics, logs, cluster)
        # The verbs are the parts' own methods, bound here: no further call for each batch.
        self.append = appends.append
        self.check = appends.check
        self.limits_of = appends.limits_of
        self.highest_sequence = appends.highest_sequence
        self.note_refused = appends.note_refused
        self.list_closed = logs.list_closed
        self.fresh_producer_id = producer_ids.fresh
        self.fetch_now = reads.fetch_now
        self.fetch = reads.fetch
        self.bounds = inspection.bounds
        self.offset_at = inspection.offset_at
        self.newest_by_time = inspection.newest_by_time
        self.epoch_end = inspection.epoch_end
        self.size_of = inspection.size_of
        self.producers_of = inspection.producers_of
        self.last_sequence = inspection.last_sequence
        self.delete_records = inspection.delete_records

    async def open(self, topic: Topic, partition: int) -> None:
        """Open the log of a partition, so that `append` can be called."""
        await self._logs.open(topic, partition)

    def subscribe(self, position: PartitionRead, wake: Callable[[], None]) -> Subscription:
        """Have `wake` called when there is something to read at a position; see Subscription."""
        return Subscription(self._logs, self._reads, position, wake)

    # -- for the engine ----------------------------------------------------------------------

    def run_opener(self) -> Coroutine[None, None, None]:
        """Open the logs that this broker owns, whenever there may be more of them."""
        return self._opener.run()

    def wake_opener(self) -> None:
        """There may be more logs to open."""
        self._opener.wake()

    def topic_changed(self, topic: Topic) -> None:
        """Follow a topic to its present settings and to where it lies now."""
        self._appends.discard_limits(topic)
        self._logs.adjust(topic)
        self._logs.leave(topic)
        self._opener.wake()

    async def close_topic(self, topic: Topic) -> None:
        """Close a deleted topic's logs without writing anything more."""
        await self._logs.close_topic(topic)
        self._appends.discard_limits(topic)
