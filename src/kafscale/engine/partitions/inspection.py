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
from kafscale.engine.partitions.visibility import (
    READ_COMMITTED,
    READ_UNCOMMITTED,
    IsolationLevel,
    visible_end,
)
from kafscale.engine.topics.topic import Topic
from kafscale.log.formats.producers import ProducerSnapshot
from kafscale.log.formats.transactions import LaneTransactions
from kafscale.log.reader import time_lookup
from kafscale.log.reader.reader import Reader
from kafscale.log.upkeep import retention
from kafscale.log.writer.lane import Lane
from kafscale.log.writer.types import wait_for_commit
from kafscale.model.errors import NotTheOwner, OffsetOutOfRange, OutcomeUnknown
from kafscale.tasks import Tasks

HIGH_WATERMARK: Final = -1
_ATTEMPTS: Final = 8


class PartitionBounds(NamedTuple):
    """Where a partition's visible records begin and end, and its leader epoch."""

    start: int
    end: int
    leader_epoch: int


class KnownProducer(NamedTuple):
    """A producer that has written to a partition."""

    producer_id: int
    epoch: int
    last_sequence: int
    last_ms: int
    last_turn: int  # of its last marker; -1: it has had none
    open_first: int  # where its open transaction begins; -1: it has none


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
        isolation: IsolationLevel = READ_COMMITTED,
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
        self,
        topic: Topic,
        partition: int,
        timestamp_ms: int,
        isolation: IsolationLevel = READ_COMMITTED,
    ) -> tuple[int, int] | None:
        """First (offset, timestamp) at or after a time, among the records that may be seen."""
        log, lane = await self._logs.open(topic, partition)
        record = await time_lookup.find_time(self._reader, log, lane, timestamp_ms)
        if record is None and self._cluster.has_peers and log.late_writes.is_due():
            await log.late_writes.catch_up()
            record = await time_lookup.find_time(self._reader, log, lane, timestamp_ms)
        return _if_visible(record, lane, isolation)

    async def newest_by_time(
        self, topic: Topic, partition: int, isolation: IsolationLevel = READ_COMMITTED
    ) -> tuple[int, int] | None:
        """The (offset, timestamp) with the greatest timestamp."""
        log, lane = await self._logs.open(topic, partition)
        record = await time_lookup.find_max_time(self._reader, log, lane)
        return _if_visible(record, lane, isolation)

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

    async def producers_of(self, topic: Topic, partition: int) -> list[KnownProducer]:
        """The idempotent producers a partition remembers, as of its last committed record."""
        log, lane = await self._logs.open(topic, partition)
        log.require_open()
        snapshots = lane.producers.snapshot(lane.high)
        known = {one.producer_id: one for one in snapshots if one.producer_id >= 0}
        transactions = lane.transactions
        return [
            _known_producer(number, known.get(number), transactions)
            for number in dict.fromkeys((*known, *transactions.markers, *transactions.open))
        ]

    async def last_sequence(self, topic: Topic, partition: int, producer: int) -> int:
        """The last sequence id of a producer known by name, after its commit; -1: none is known."""
        log, lane = await self._logs.open(topic, partition)
        while mark := lane.producers.last_of_name(producer):
            committed = log.commit_of(lane, mark.first_offset)
            if committed is None:
                return mark.last_sequence
            await wait_for_commit(committed)
        return -1

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


def _known_producer(
    number: int, known: ProducerSnapshot | None, transactions: LaneTransactions
) -> KnownProducer:
    marker, opened = transactions.markers.get(number), transactions.open.get(number)
    return KnownProducer(
        number,
        max(known.epoch if known else -1, marker.epoch if marker else -1),
        known.marks[-1].last_sequence if known else -1,
        max(known.last_ms if known else -1, marker.at_ms if marker else -1),
        transactions.last_turn(number),
        opened.first if opened else -1,
    )


def _if_visible(
    record: tuple[int, int] | None, lane: Lane, isolation: IsolationLevel
) -> tuple[int, int] | None:
    """A record that was found by its time, unless it lies beyond the end that the reader sees."""
    return None if record is None or record[0] >= visible_end(lane, isolation) else record
