"""Reading: whole batches for many partitions at once, with a wait for new ones if asked to.

Here: sharing a byte budget between partitions, and the long poll. Commits wake waiting readers;
nothing polls. Each partition is resolved once between two awaits, and handed down from there.
Next door: what a reader may see (visibility.py), one partition for a door that pushes
(subscriptions.py), recent batches (log/writer/lane.py), old ones (log/reader/reader.py).
"""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import msgspec

from kafscale.engine.partitions.long_poll import LongPoll
from kafscale.engine.partitions.open_logs import OpenLogs, OpenPartition
from kafscale.engine.partitions.visibility import (
    READ_COMMITTED,
    IsolationLevel,
    filter_for,
    filter_of_slow_read,
    visible_end,
    visible_ends,
)
from kafscale.engine.topics.topic import Topic
from kafscale.log.reader.reader import SPANS_AT_ONCE, Reader
from kafscale.log.writer.lane import Lane
from kafscale.log.writer.log import Log
from kafscale.log.writer.states import LogState
from kafscale.model.clock import Clock
from kafscale.model.errors import (
    FencedLeaderEpoch,
    KafscaleError,
    NotTheOwner,
    NotWritten,
    OffsetOutOfRange,
    StoreUnavailable,
    UnknownLeaderEpoch,
)


class PartitionRead(msgspec.Struct):
    """What a reader asks of one partition. `topic` may be the error of looking it up."""

    topic: Topic | KafscaleError
    partition: int
    offset: int
    max_bytes: int
    leader_epoch: int = -1
    isolation: IsolationLevel = READ_COMMITTED


class ReadResult(msgspec.Struct):
    """What was read from one partition, or why nothing could be."""

    error: KafscaleError | None
    high: int  # high watermark
    last_stable: int  # last stable offset
    start: int  # log start
    batches: Sequence[memoryview]
    size: int
    from_memory: bool = True
    read_s: float = 0.0  # how long reading took, without the wait for new data


# A partition of a request: open here, the reason why it cannot be read, or None: not open yet.
Resolved = OpenPartition | KafscaleError | None

_OPEN: Final = (
    LogState.OPEN
)  # looking a member up costs more than all else in a loop of comparisons
MOST_AT_ONCE: Final = 2_000  # partitions that are read without a pause
_PART: Final = 500  # of more than that; one that does not exist takes ten times as long
_NOTHING_OPEN: Final[Mapping[int, OpenPartition]] = {}


class Reads:
    """The one way out of a log."""

    def __init__(self, logs: OpenLogs, reader: Reader, clock: Clock) -> None:
        """Read from open logs, old data through `reader`."""
        self._turns = reader.turns
        self._clock = clock
        self._logs = logs
        self._reader = reader

    def fetch_now(
        self, reads: Iterable[PartitionRead], max_bytes: int, min_bytes: int, sent: int = 0
    ) -> list[ReadResult] | None:
        """Answer at once if memory has enough to answer with; None if `fetch` has to be asked.

        `sent`: how much of `max_bytes` an earlier part of the answer takes.
        """
        results: list[ReadResult] = []
        room, total = max_bytes - sent, sent
        topic: Topic | KafscaleError | None = None
        open_partitions = _NOTHING_OPEN
        # Consumers name a thousand partitions each time, and few of them have news: the loop calls
        # as little as possible for each.
        for read in reads:
            if read.topic is not topic:
                topic = read.topic
                open_partitions = _NOTHING_OPEN
                if isinstance(topic, Topic) and not topic.is_being_sealed:
                    open_partitions = self._logs.resolved(topic)
            opened = open_partitions.get(read.partition)
            if opened is not None:
                log, lane = opened
                start, offset, epoch = lane.start, read.offset, read.leader_epoch
                high, stable = visible_ends(lane)
                end = stable if read.isolation is READ_COMMITTED else high
                if (
                    start <= offset <= end
                    and log.state is _OPEN
                    and (epoch < 0 or epoch == log.newest_epoch)
                ):
                    if offset == end or (room <= 0 and total):
                        results.append(ReadResult(None, high, stable, start, (), 0))
                        continue
                    if offset < lane.high and filter_for(lane, read.isolation) is None:
                        limit = min(read.max_bytes, room)
                        found = lane.recent.read(offset, limit, at_least_one=not total)
                        if found is None:
                            return None
                        batches, size = found
                        results.append(ReadResult(None, high, stable, start, batches, size))
                        total += size
                        room -= size
                        continue
            limit = min(read.max_bytes, room)
            resolved = opened or self._resolve(read)
            result = self._from_memory(read, resolved, limit, at_least_one=not total)
            if result is None:
                return None
            results.append(result)
            total += result.size
            room -= result.size
            if result.error is not None:
                min_bytes = 0
        return results if total >= min_bytes else None

    async def fetch(
        self, reads: Sequence[PartitionRead], max_bytes: int, min_bytes: int, max_wait_s: float
    ) -> list[ReadResult]:
        """Answer when there are `min_bytes`, an error, or `max_wait_s` have passed."""
        if len(reads) > MOST_AT_ONCE:
            return await self._fetch_in_parts(reads, max_bytes, min_bytes, max_wait_s)
        partitions = await self._open_all(reads)
        loop = asyncio.get_running_loop()
        deadline = loop.time() + max_wait_s
        # Watching begins before reading, so no commit can slip in between.
        with LongPoll([_lane(opened) for opened in partitions]) as poll:
            results = await self._read_all(reads, partitions, max_bytes)
            while True:
                left = deadline - loop.time()
                total = sum(result.size for result in results)
                if left <= 0 or total >= min_bytes or any(result.error for result in results):
                    return results
                news = await poll.wait(left)
                # What was found before the wait may not be handed out by now: it is read again.
                if total or not news or not self._read_news(reads, results, news, max_bytes):
                    partitions = await self._open_all(reads)
                    results = await self._read_all(reads, partitions, max_bytes)

    async def _fetch_in_parts(
        self, reads: Sequence[PartitionRead], max_bytes: int, min_bytes: int, max_wait_s: float
    ) -> list[ReadResult]:
        """The same for very many partitions: others use the event loop between two parts."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + max_wait_s
        with LongPoll(()) as poll:
            while True:
                results: list[ReadResult] = []
                sent = 0
                for begin in range(0, len(reads), _PART):
                    part = reads[begin : begin + _PART]
                    partitions = await self._open_all(part)
                    poll.watch([_lane(opened) for opened in partitions])
                    some = await self._read_all(part, partitions, max_bytes, sent)
                    sent += sum(result.size for result in some)
                    results += some
                    await self._turns.next()
                left = deadline - loop.time()
                if left <= 0 or sent >= min_bytes or any(result.error for result in results):
                    return results
                await poll.wait(left)

    # -- which log and lane ------------------------------------------------------------------

    def _resolve(self, read: PartitionRead) -> Resolved:
        if isinstance(read.topic, KafscaleError):
            return read.topic
        try:
            return self._logs.resolve(read.topic, read.partition)
        except KafscaleError as problem:
            return problem

    async def _open_all(self, reads: Sequence[PartitionRead]) -> list[Resolved]:
        """Resolve every partition, after opening the logs that are not open."""
        partitions = self._resolve_all(reads)
        closed = [number for number, opened in enumerate(partitions) if opened is None]
        if not closed:
            return partitions
        failed: dict[int, Resolved] = {}
        for number in closed:
            read = reads[number]
            assert isinstance(read.topic, Topic)
            try:
                await self._logs.open(read.topic, read.partition)
            except KafscaleError as problem:
                failed[number] = problem
        # Opening takes time: a log that was open before may have been closed meanwhile.
        partitions = self._resolve_all(reads)
        for number, reason in failed.items():
            partitions[number] = reason
        return partitions

    def _resolve_all(self, reads: Sequence[PartitionRead]) -> list[Resolved]:
        topic: Topic | KafscaleError | None = None
        open_partitions = _NOTHING_OPEN
        partitions: list[Resolved] = []
        for read in reads:
            if read.topic is not topic:
                topic = read.topic
                open_partitions = _NOTHING_OPEN
                if isinstance(topic, Topic):
                    open_partitions = self._logs.resolved(topic)
            partitions.append(open_partitions.get(read.partition) or self._resolve(read))
        return partitions

    # -- what they hold ----------------------------------------------------------------------

    def _read_news(
        self,
        reads: Sequence[PartitionRead],
        results: list[ReadResult],
        news: Sequence[int],
        max_bytes: int,
    ) -> bool:
        """Read some of the partitions, none of which had anything; False if memory lacks it."""
        room = max_bytes
        for number in news:
            read = reads[number]
            limit = min(read.max_bytes, room)
            opened = self._resolve(read)
            result = self._from_memory(read, opened, limit, at_least_one=room == max_bytes)
            if result is None:
                return False
            results[number] = result
            room -= result.size
        return True

    async def _read_all(
        self,
        reads: Sequence[PartitionRead],
        partitions: Sequence[Resolved],
        max_bytes: int,
        sent: int = 0,
    ) -> list[ReadResult]:
        """Read every partition, from memory or else from the store.

        Old data of several partitions is read side by side, and no more of it than the answer has
        room for. The other partitions' turn comes with the client's next request.
        """
        in_memory = self.fetch_now(reads, max_bytes, 0, sent)
        if in_memory is not None:
            return in_memory
        results: list[ReadResult | None] = []
        cold: list[int] = []
        room = max_bytes - sent
        for number, (read, opened) in enumerate(zip(reads, partitions, strict=True)):
            is_first = room == max_bytes and not cold
            limit = min(read.max_bytes, room)
            result = self._from_memory(read, opened, limit, at_least_one=is_first)
            if result is None and opened is not None:
                assert isinstance(opened, tuple)
                if room <= 0 and not is_first:
                    result = _nothing(opened[1])
                else:
                    room -= _old_bytes(read, opened[1])
            if result is None:
                cold.append(number)
            else:
                room -= result.size
            results.append(result)
        if cold:
            work = (self._from_store(reads[at], partitions[at], max_bytes) for at in cold)
            for number, result in zip(cold, await asyncio.gather(*work), strict=True):
                results[number] = result
        return _fit([result for result in results if result is not None], max_bytes, sent)

    def _from_memory(
        self, read: PartitionRead, opened: Resolved, limit: int, *, at_least_one: bool
    ) -> ReadResult | None:
        """Read one partition without waiting; None if that needs the store."""
        if opened is None:
            return None
        if isinstance(opened, KafscaleError):
            return _failed(opened)
        log, lane = opened
        try:
            log.require_open()
            check_epoch(log, read.leader_epoch)
        except KafscaleError as problem:
            return _failed(problem)
        end = visible_end(lane, read.isolation)
        if read.offset > end and log.late_writes.is_due():
            return None
        if not lane.start <= read.offset <= end:
            return _out_of_range(read, lane, end)
        if read.offset == end and lane.producers.is_sealed:
            # The partition may already continue in another log that this broker has not heard of.
            return _failed(NotTheOwner(f"lane {lane.number} of {log.folder} is sealed"))
        if read.offset == end or (limit <= 0 and not at_least_one):
            return _nothing(lane)
        if read.offset >= lane.high:
            batches: list[memoryview] | None = log.read_pending(lane, read.offset, limit)
        else:
            batches = lane.read_memory(read.offset, limit, at_least_one=at_least_one)
        if batches and (committed := filter_for(lane, read.isolation)) is not None:
            batches = committed(batches)
        return None if batches is None else _result(lane, batches)

    async def _from_store(
        self, read: PartitionRead, opened: Resolved, max_bytes: int
    ) -> ReadResult:
        began_s = self._clock.elapsed_s()
        try:
            if opened is None:
                assert isinstance(read.topic, Topic)
                opened = await self._logs.open(read.topic, read.partition)
            assert isinstance(opened, tuple)
            log, lane = opened
            log.require_open()
            check_epoch(log, read.leader_epoch)
            if read.offset > visible_end(lane, read.isolation):
                await log.late_writes.catch_up()
                log.require_open()
            limit = min(read.max_bytes, max_bytes)
            result = self._from_memory(read, opened, limit, at_least_one=True)
            if result is not None:
                return result
            visible = filter_of_slow_read(lane, read.isolation)
            batches = await self._reader.read(log, lane, read.offset, limit, at_least_one=True)
            batches = visible(batches)
        except KafscaleError as problem:
            return _failed(problem)
        read_s = self._clock.elapsed_s() - began_s
        return _result(lane, batches, from_memory=False, read_s=read_s)


def check_epoch(log: Log, leader_epoch: int) -> None:
    """Refuse a client that knows another epoch than the newest, even if the leader has stayed.

    A client that learns a new epoch asks where its own one ends. Were its older requests still
    given data meanwhile, it would be beyond that end when it hears of it, take the log for
    truncated, and pass over records it had been sent (librdkafka does).
    """
    if leader_epoch < 0 or leader_epoch == log.newest_epoch:
        return
    if leader_epoch < log.newest_epoch:
        raise FencedLeaderEpoch(f"the leader epoch is {log.newest_epoch}, not {leader_epoch}")
    raise UnknownLeaderEpoch(f"the leader epoch is {log.newest_epoch}, not yet {leader_epoch}")


def _lane(opened: Resolved) -> Lane | None:
    return opened[1] if isinstance(opened, tuple) else None


def _result(
    lane: Lane, batches: Sequence[memoryview], *, from_memory: bool = True, read_s: float = 0.0
) -> ReadResult:
    return ReadResult(
        None,
        *visible_ends(lane),
        lane.start,
        batches,
        sum(map(len, batches)),
        from_memory,
        read_s,
    )


def _nothing(lane: Lane) -> ReadResult:
    return _result(lane, ())


def _failed(problem: KafscaleError) -> ReadResult:
    if isinstance(problem, StoreUnavailable):
        problem = NotWritten(f"old data cannot be read now: {problem}")
    return ReadResult(problem, -1, -1, -1, (), 0)


def _out_of_range(read: PartitionRead, lane: Lane, end: int) -> ReadResult:
    result = _nothing(lane)
    result.error = OffsetOutOfRange(f"offset {read.offset} is not in {lane.start} … {end}")
    return result


def _old_bytes(read: PartitionRead, lane: Lane) -> int:
    """What a partition's old data may take of an answer: no more than a read gives."""
    size = 0
    for span, _ in lane.spans_at(read.offset, SPANS_AT_ONCE):
        size += span.length
        if size >= read.max_bytes:
            return max(1, read.max_bytes)
    return max(1, size)


def _fit(results: list[ReadResult], max_bytes: int, sent: int) -> list[ReadResult]:
    """Keep the answer within the budget: at least one batch, then every batch that fits whole."""
    fitting = []
    total = sent
    for result in results:
        if total and total + result.size > max_bytes:
            kept: list[memoryview] = []
            size = 0
            for piece in result.batches:
                if total + size + len(piece) > max_bytes:
                    break
                kept.append(piece)
                size += len(piece)
            result = msgspec.structs.replace(result, batches=kept, size=size)
        total += result.size
        fitting.append(result)
    return fitting
