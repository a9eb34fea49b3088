"""Reading: whole batches for many partitions at once, waiting for new ones if asked to.

Here: sharing a byte budget between partitions, and the long poll. Waiting readers are woken by
commits; nobody polls. Next door: recent batches (log/writer/lane.py), old ones
(log/reader/reader.py).
"""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import msgspec

from kafscale.engine.partitions.long_poll import LongPoll
from kafscale.engine.partitions.open_logs import OpenLogs
from kafscale.engine.topics.topic import Topic
from kafscale.log.reader.reader import Reader
from kafscale.log.writer.lane import Lane, Watcher
from kafscale.log.writer.log import Log
from kafscale.log.writer.states import LogState
from kafscale.model.clock import Clock
from kafscale.model.errors import (
    FencedLeaderEpoch,
    KafscaleError,
    NotWritten,
    OffsetOutOfRange,
    StoreUnavailable,
    UnknownLeaderEpoch,
)


class PartitionRead(msgspec.Struct):
    """One partition's part of a fetch. `topic` may be the error of looking it up."""

    topic: Topic | KafscaleError
    partition: int
    offset: int
    max_bytes: int
    leader_epoch: int = -1


class ReadResult(msgspec.Struct):
    """One partition's part of the answer."""

    error: KafscaleError | None
    high: int
    start: int
    batches: Sequence[memoryview]
    size: int
    from_memory: bool = True
    read_s: float = 0.0  # how long reading took, without the wait for new data


_NO_PLACES: Final[Mapping[int, tuple[Log, Lane]]] = {}


class Reads:
    """The one way out of a log."""

    def __init__(self, logs: OpenLogs, reader: Reader, clock: Clock) -> None:
        """Read from open logs, old data through `reader`."""
        self._clock = clock
        self._logs = logs
        self._reader = reader

    def fetch_now(
        self, wanted: Iterable[PartitionRead], max_bytes: int, min_bytes: int
    ) -> list[ReadResult] | None:
        """Answer at once if memory has enough to answer with; else None, and `fetch` is due."""
        return self._at_once(wanted, max_bytes, min_bytes)

    def _at_once(
        self, wanted: Iterable[PartitionRead], max_bytes: int, min_bytes: int
    ) -> list[ReadResult] | None:
        parts: list[ReadResult] = []
        room, total = max_bytes, 0
        topic: Topic | KafscaleError | None = None
        places = _NO_PLACES
        # Consumers name a thousand partitions each time, and few of them have news: whatever is
        # done here for every one of them is done without a call.
        for one in wanted:
            if one.topic is not topic:
                topic = one.topic
                places = self._logs.found(topic) if isinstance(topic, Topic) else _NO_PLACES
            place = places.get(one.partition)
            if place is not None:
                log, lane = place
                start, high, offset, epoch = lane.start, lane.high, one.offset, one.leader_epoch
                if (
                    start <= offset <= high
                    and log.state is LogState.OPEN
                    and (epoch < 0 or epoch == log.newest_epoch)
                    and not lane.rules.fetch_buffered
                ):
                    if offset == high or (room <= 0 and total):
                        parts.append(ReadResult(None, high, start, (), 0))
                        continue
                    limit = min(one.max_bytes, room)
                    found = lane.recent.read(offset, limit, at_least_one=not total)
                    if found is None:
                        return None
                    batches, size = found
                    parts.append(ReadResult(None, high, start, batches, size))
                    total += size
                    room -= size
                    continue
            part = self._from_memory(one, min(one.max_bytes, room), at_least_one=not total)
            if part is None:
                return None
            parts.append(part)
            total += part.size
            room -= part.size
            if part.error is not None:
                min_bytes = 0
        return parts if total >= min_bytes else None

    async def fetch(
        self, wanted: Sequence[PartitionRead], max_bytes: int, min_bytes: int, max_wait_s: float
    ) -> list[ReadResult]:
        """Answer when there are `min_bytes`, an error, or `max_wait_s` have passed."""
        await self._open_all(wanted)
        loop = asyncio.get_running_loop()
        deadline = loop.time() + max_wait_s
        # Watching begins before looking, so no commit can slip in between.
        with LongPoll(self._lanes(wanted)) as poll:
            parts = await self._look(wanted, max_bytes)
            while True:
                left = deadline - loop.time()
                total = sum(part.size for part in parts)
                if left <= 0 or total >= min_bytes or any(part.error for part in parts):
                    return parts
                news = await poll.wait(left)
                # What was found before the wait may not be handed out by now: it is read again.
                if total or not news or not self._look_again(wanted, parts, news, max_bytes):
                    parts = await self._look(wanted, max_bytes)

    def watch(self, one: PartitionRead, watcher: Watcher) -> Lane | None:
        """Have `watcher` called with news of a partition that has no more to give than was wanted.

        Gives the lane it watches then; None if there is something to answer already, or if this
        is no partition to wait for without a look now and then.
        """
        place = (
            self._logs.found(one.topic).get(one.partition) if isinstance(one.topic, Topic) else None
        )
        if place is None:
            return None
        log, lane = place
        is_fenced = one.leader_epoch not in (-1, log.newest_epoch)
        is_at_its_end = one.offset == lane.high and not lane.rules.fetch_buffered
        if is_fenced or not is_at_its_end or log.state is not LogState.OPEN:
            return None
        lane.watchers.add(watcher)
        return lane

    def _look_again(
        self,
        wanted: Sequence[PartitionRead],
        parts: list[ReadResult],
        news: Sequence[int],
        max_bytes: int,
    ) -> bool:
        """Look at some of the partitions, none of which had anything; False if memory lacks it."""
        room = max_bytes
        for at in news:
            limit = min(wanted[at].max_bytes, room)
            part = self._from_memory(wanted[at], limit, at_least_one=room == max_bytes)
            if part is None:
                return False
            parts[at] = part
            room -= part.size
        return True

    def _found(self, wanted: Sequence[PartitionRead]) -> list[tuple[Log, Lane] | None]:
        """The places that are known already."""
        topic: Topic | KafscaleError | None = None
        places, found = _NO_PLACES, []
        for one in wanted:
            if one.topic is not topic:
                topic = one.topic
                places = self._logs.found(topic) if isinstance(topic, Topic) else _NO_PLACES
            found.append(places.get(one.partition))
        return found

    async def _open_all(self, wanted: Sequence[PartitionRead]) -> None:
        for one, place in zip(wanted, self._found(wanted), strict=True):
            if place is not None or isinstance(one.topic, KafscaleError):
                continue
            try:
                await self._logs.open(one.topic, one.partition)
            except KafscaleError:
                continue  # met again, and reported, when its part is read

    def _lanes(self, wanted: Sequence[PartitionRead]) -> list[Lane | None]:
        """Of each; None where there is none to wait for."""
        lanes: list[Lane | None] = []
        for one, place in zip(wanted, self._found(wanted), strict=True):
            try:
                place = place or self._place(one)
            except KafscaleError:
                place = None
            lanes.append(place and place[1])
        return lanes

    async def _look(self, wanted: Sequence[PartitionRead], max_bytes: int) -> list[ReadResult]:
        """One look at every partition."""
        parts = self._at_once(wanted, max_bytes, 0)
        return await self._collect(wanted, max_bytes) if parts is None else parts

    async def _collect(self, wanted: Sequence[PartitionRead], max_bytes: int) -> list[ReadResult]:
        """The same where memory is not enough; old data of several is read side by side.

        Of old data no more is read than the answer has room for; the others' turn comes when
        this one has been taken.
        """
        parts: list[ReadResult | None] = []
        cold: list[int] = []
        room = max_bytes
        for at, one in enumerate(wanted):
            is_first = room == max_bytes and not cold
            part = self._from_memory(one, min(one.max_bytes, room), at_least_one=is_first)
            if part is None and room <= 0 and not is_first:
                part = self._another_time(one)
            if part is None:
                cold.append(at)
            room -= self._at_most(one) if part is None else part.size
            parts.append(part)
        if cold:
            found = await asyncio.gather(*(self._from_store(wanted[at], max_bytes) for at in cold))
            for at, part in zip(cold, found, strict=True):
                parts[at] = part
        return _fit([part for part in parts if part is not None], max_bytes)

    def _at_most(self, one: PartitionRead) -> int:
        """What a partition's old data may take of an answer: no more than there is."""
        place = self._place(one)
        if place is None:
            return max(1, one.max_bytes)
        size = 0
        for span, _ in place[1].spans_at(one.offset):
            size += span.length
            if size >= one.max_bytes:
                return max(1, one.max_bytes)
        return max(1, size)

    def _another_time(self, one: PartitionRead) -> ReadResult | None:
        """A part without data for a partition that has some; None if its log is not open."""
        place = self._place(one)
        return place and ReadResult(None, place[1].high, place[1].start, [], 0)

    def _place(self, one: PartitionRead) -> tuple[Log, Lane] | None:
        if isinstance(one.topic, KafscaleError):
            raise one.topic
        place = self._logs.find(one.topic, one.partition)
        if place is not None:
            place[0].require_open()
            check_epoch(place[0], one.leader_epoch)
        return place

    def _from_memory(
        self, one: PartitionRead, limit: int, *, at_least_one: bool
    ) -> ReadResult | None:
        """A partition's part without waiting; None if it needs the store."""
        try:
            place = self._place(one)
            if place is None:
                return None
            log, lane = place
            end = _visible_end(one, lane)
            if one.offset > end and log.late_writes.is_due():
                return None
            if not lane.start <= one.offset <= end:
                return ReadResult(_out_of_range(one, lane, end), end, lane.start, [], 0)
            if one.offset == end or (limit <= 0 and not at_least_one):
                return ReadResult(None, end, lane.start, [], 0)
            if one.offset >= lane.high:
                found: list[memoryview] | None = log.read_pending(lane, one.offset, limit)
            else:
                found = lane.read_memory(one.offset, limit, at_least_one=at_least_one)
        except KafscaleError as problem:
            return ReadResult(problem, -1, -1, [], 0)
        if found is None:
            return None
        return ReadResult(None, end, lane.start, found, sum(map(len, found)))

    async def _from_store(self, one: PartitionRead, max_bytes: int) -> ReadResult:
        began_s = self._clock.elapsed_s()
        try:
            assert not isinstance(one.topic, KafscaleError)
            log, lane = await self._logs.open(one.topic, one.partition)
            log.require_open()
            check_epoch(log, one.leader_epoch)
            if one.offset > lane.high:
                await log.late_writes.catch_up()
                log.require_open()
            if not lane.start <= one.offset <= lane.high:
                return ReadResult(_out_of_range(one, lane, lane.high), lane.high, lane.start, [], 0)
            if one.offset == lane.high:
                return ReadResult(None, lane.high, lane.start, [], 0)
            limit = min(one.max_bytes, max_bytes)
            found = lane.read_memory(one.offset, limit, at_least_one=True)
            from_memory = found is not None
            if found is None:
                found = await self._reader.read(log, lane, one.offset, limit, at_least_one=True)
        except StoreUnavailable as problem:
            return ReadResult(NotWritten(f"old data cannot be read now: {problem}"), -1, -1, [], 0)
        except KafscaleError as problem:
            return ReadResult(problem, -1, -1, [], 0)
        return ReadResult(
            None,
            lane.high,
            lane.start,
            found,
            sum(map(len, found)),
            from_memory,
            self._clock.elapsed_s() - began_s,
        )


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


def _visible_end(one: PartitionRead, lane: Lane) -> int:
    """The offset after the last record a reader may see: committed, unless the topic says so."""
    if isinstance(one.topic, Topic) and one.topic.settings.fetch_buffered:
        return lane.end
    return lane.high


def _out_of_range(one: PartitionRead, lane: Lane, end: int) -> OffsetOutOfRange:
    return OffsetOutOfRange(f"offset {one.offset} is not in {lane.start} … {end}")


def _fit(parts: list[ReadResult], max_bytes: int) -> list[ReadResult]:
    """Keep the answer within the budget: at least one batch, then whatever fits whole."""
    fitting = []
    total = 0
    for part in parts:
        if total and total + part.size > max_bytes:
            kept: list[memoryview] = []
            size = 0
            for piece in part.batches:
                if total + size + len(piece) > max_bytes:
                    break
                kept.append(piece)
                size += len(piece)
            part = msgspec.structs.replace(part, batches=kept, size=size)
        total += part.size
        fitting.append(part)
    return fitting
