"""Questions about one partition, and deleting its records.

Here: bounds, offsets by time, where leader epochs end, sizes, known producers, delete records.
Next door: fetching (reads.py), how a log start moves (log/upkeep/retention.py).
Never here: topics as a whole (topics/changes.py).
"""

import asyncio
from typing import Final, NamedTuple

from kafscale.engine.cluster.membership import Membership
from kafscale.engine.partitions.open_logs import OpenLogs
from kafscale.engine.partitions.reads import check_epoch
from kafscale.engine.partitions.visibility import READ_UNCOMMITTED, IsolationLevel, visible_end
from kafscale.engine.topics.topic import Topic
from kafscale.log.formats.producers import ProducerSnapshot
from kafscale.log.reader import time_lookup
from kafscale.log.reader.reader import Reader
from kafscale.log.upkeep import retention
from kafscale.model.errors import NotTheOwner, OffsetOutOfRange, OutcomeUnknown
from kafscale.tasks import Tasks

HIGH_WATERMARK: Final = -1
_ATTEMPTS: Final = 8


class PartitionBounds(NamedTuple):
    """Where a partition's visible records begin and end, and its leader epoch."""

    start: int
    end: int
    leader_epoch: int


class Inspection:
    """Answers questions about single partitions."""

    def __init__(self, logs: OpenLogs, reader: Reader, cluster: Membership, tasks: Tasks) -> None:
        self._logs = logs
        self._reader = reader
        self._cluster = cluster
        self._tasks = tasks

    async def bounds(
        self,
        topic: Topic,
        partition: int,
        leader_epoch: int,
        isolation: IsolationLevel = READ_UNCOMMITTED,
    ) -> PartitionBounds:
        """Where a partition begins and ends. `leader_epoch`: the one that the client knows."""
        log, lane = await self._logs.open(topic, partition)
        log.require_open()
        if lane.producers.is_sealed:
            # The partition may already continue in another log that this broker has not
            # heard of. Then the end of this lane is not the end of the partition.
            raise NotTheOwner(f"{topic.name}-{partition} is moving")
        check_epoch(log, leader_epoch)
        return PartitionBounds(lane.start, visible_end(lane, isolation), log.epoch)

    async def offset_at(
        self, topic: Topic, partition: int, timestamp_ms: int
    ) -> tuple[int, int] | None:
        """First (offset, timestamp) at or after a time."""
        log, lane = await self._logs.open(topic, partition)
        record = await time_lookup.find_time(self._reader, log, lane, timestamp_ms)
        if record is None and self._cluster.has_peers and log.late_writes.is_due():
            await log.late_writes.catch_up()
            record = await time_lookup.find_time(self._reader, log, lane, timestamp_ms)
        return record

    async def newest_by_time(self, topic: Topic, partition: int) -> tuple[int, int] | None:
        """The (offset, timestamp) with the greatest timestamp."""
        log, lane = await self._logs.open(topic, partition)
        return await time_lookup.find_max_time(self._reader, log, lane)

    async def epoch_end(
        self, topic: Topic, partition: int, epoch: int, current: int
    ) -> tuple[int, int]:
        """The newest epoch not above `epoch`, and the offset it ends at; (-1, -1): unknown."""
        log, lane = await self._logs.open(topic, partition)
        log.require_open()
        check_epoch(log, current)
        end = visible_end(lane, READ_UNCOMMITTED)
        known = list(lane.epochs)
        if not known or known[-1][0] < log.epoch:
            known.append((log.epoch, end))  # nothing has been written under it yet
        if known[-1][0] <= epoch <= max(log.newest_epoch, known[-1][0]):
            return epoch, end
        later = [first for other, first in known if other > epoch]
        if epoch < 0 or not later:
            return -1, -1
        floor = max((other for other, _ in known if other <= epoch), default=epoch)
        return floor, max(later[0], lane.start)

    async def size_of(self, topic: Topic, partition: int) -> int:
        """Bytes a partition takes in the bucket, headers of objects not counted."""
        _, lane = await self._logs.open(topic, partition)
        return sum(span.length for span, _ in lane.spans)

    async def producers_of(self, topic: Topic, partition: int) -> list[ProducerSnapshot]:
        """The idempotent producers a partition remembers, as of its last committed record."""
        log, lane = await self._logs.open(topic, partition)
        log.require_open()
        return lane.producers.snapshot(lane.high)

    async def delete_records(self, topic: Topic, partition: int, before: int) -> int:
        """Delete what lies before an offset, or before the high watermark; gives the log start.

        The work continues when the caller is cancelled: it must not leave a manifest half written.
        """
        work = self._delete_records(topic, partition, before)
        task = self._tasks.spawn(work, f"deleting records of {topic.name}", awaited=True)
        return await asyncio.shield(task)

    async def _delete_records(self, topic: Topic, partition: int, before: int) -> int:
        log, lane = await self._logs.open(topic, partition)
        log.require_open()
        start = lane.high if before == HIGH_WATERMARK else before
        if start > lane.high:
            await log.late_writes.catch_up()
        if not 0 <= start <= lane.high:
            raise OffsetOutOfRange(f"{start} is beyond the high watermark {lane.high}")
        for _ in range(_ATTEMPTS):
            if lane.producers.is_sealed:  # perhaps since this began: the copy has the records still
                raise NotTheOwner(f"{topic.name} is moving to another place; try again later")
            if lane.start >= start:
                return lane.start
            # False: a roll-up or another writer's manifest came first. Try again.
            await retention.raise_starts(log, {lane.number: start})
            log.require_open()
        raise OutcomeUnknown(f"the log start of {topic.name}-{partition} could not be moved")
