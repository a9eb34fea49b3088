"""One physical partition of the upstream, opened for its virtual ones.

Here: the order of appends, and finding out what is true after anything went wrong. A batch is
answered when the upstream has it at the very place behind the last known one: then nothing came
between, and it counts. In every other case no batch is sent until all are answered; then the log
is read to its end, and what it holds decides. So two proxies that both write lose nothing: each
sees the other's batches before it answers a client.
Next door: what counts (state/lanes.py), sending (upstream/appending.py), reading for clients
(reading.py), which partitions are open (open_partitions.py).
"""

import asyncio
from collections import deque
from enum import Enum
from typing import Final

import structlog

from kafscale.gateways.workers import Workers, WorkQueue
from kafscale.log.formats.producers import ProducerTable
from kafscale.model.buffers import Buffer
from kafscale.model.clock import Clock, Dice
from kafscale.model.errors import BadBatch, BadSequence, BatchTooLarge, KafscaleError
from kafscale.proxy.partitions.tail import NewestBatches
from kafscale.proxy.state.lanes import Applied, PhysicalLog, PlaceMark
from kafscale.proxy.state.tags import (
    MOST_NUMBERS,
    Tag,
    TaggedProducer,
    read_tag,
    with_definition,
    write_tag,
)
from kafscale.proxy.upstream.appending import LOST, Appender, AppendOutcome
from kafscale.proxy.upstream.cluster import Leader, Upstream
from kafscale.proxy.upstream.fetching import EARLIEST, LATEST, Block, fetch_block, list_offset
from kafscale.proxy.upstream.link import UpstreamLost
from kafscale.records.batch import (
    MAX_SEQUENCE,
    BatchHeader,
    read_header,
    stamp,
    stamp_append_time,
    walk,
)
from kafscale.tasks import Tasks
from kafscale.wire.kafka.errors import ErrorCode

logger = structlog.get_logger()

MOST_UNPACKED: Final = 64 << 20
QUICK_UNPACKED: Final = 64 << 10  # what is larger is packed anew on another thread
_MOST_UNDER_WAY: Final = 5
_PAUSE_S: Final = 0.1
_REACH_S: Final = 10.0
_REACH_PAUSE_S: Final = 0.01
# Answers after which the batch may be sent again, once the log has been read to its end.
_SENT_AGAIN: Final = frozenset(
    {
        LOST,
        ErrorCode.NONE,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
    }
)


class BatchRefused(Exception):
    """A client's batch is not stored; the code says why."""

    def __init__(self, code: int, text: str = "") -> None:
        self.code = code
        super().__init__(text or ErrorCode(code).name)


class State(Enum):
    """How far a partition is."""

    OPENING = "opening"
    READY = "ready"
    TROUBLED = "troubled"  # batches under way are awaited, then the log is read
    CLOSED = "closed"


class AwaitedBatch:
    """A client's batch, until it is answered."""

    __slots__ = (
        *("batch", "code", "deadline_s", "defined", "done", "header", "is_doubted", "lane"),
        *("original", "tag"),
    )

    def __init__(
        self, lane: int, batch: memoryview, header: BatchHeader, deadline_s: float
    ) -> None:
        self.lane = lane
        self.original = batch
        self.batch: Buffer = batch
        self.header = header
        self.deadline_s = deadline_s
        self.code: int = LOST
        self.tag: Tag | None = None
        self.defined: bytearray | None = None  # the batch with its producer's definition
        self.is_doubted = False  # its sequence did not fit what was known
        self.done: asyncio.Future[int] = asyncio.get_running_loop().create_future()

    @property
    def producer(self) -> TaggedProducer:
        """Who sent it."""
        return TaggedProducer(self.header.producer_id, self.header.producer_epoch)

    def refuse(self, code: int, text: str = "") -> None:
        """Tell the client that its batch is not stored, or may not be."""
        if not self.done.done():
            self.done.set_exception(BatchRefused(code, text))
            self.done.exception()  # the client may have gone


class PhysicalPartition:
    """Implements upstream.appending.Source."""

    def __init__(
        self,
        topic: str,
        index: int,
        upstream: Upstream,
        appender: Appender,
        tail: NewestBatches,
        clock: Clock,
        dice: Dice,
        tasks: Tasks,
        work: WorkQueue | None = None,
    ) -> None:
        self.topic = topic
        self.index = index
        self.log = PhysicalLog()
        self.state = State.OPENING
        self.opened: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.waiters: dict[int, list[asyncio.Future[None]]] = {}
        self.is_troubled_often = 0
        self._upstream = upstream
        self._appender = appender
        self._tail = tail
        self._clock = clock
        self._dice = dice
        self._tasks = tasks
        self._work = Workers().new_queue() if work is None else work
        self._is_packing = False  # the first that arrived is packed anew, and the others wait
        self._leader = Leader(-1, -1)
        self._arrived: deque[AwaitedBatch] = deque()  # not planned yet
        self._queue: deque[AwaitedBatch] = deque()
        self._under_way: deque[AwaitedBatch] = deque()
        self._unsettled: list[AwaitedBatch] = []
        self._doubles: dict[tuple[int, int], list[AwaitedBatch]] = {}
        self._new_numbers: dict[TaggedProducer, int] = {}

    # -- appending ----------------------------------------------------------------------------

    def append(
        self, lane: int, batch: memoryview, header: BatchHeader, timeout_s: float
    ) -> "asyncio.Future[int]":
        """Store a sound batch; gives its virtual offset, or Refused. The memory is taken over."""
        entry = AwaitedBatch(lane, batch, header, self._clock.elapsed_s() + timeout_s)
        if self.state is State.CLOSED:
            entry.refuse(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        else:
            self._plan_or_wait(entry)
        return entry.done

    def _plan_or_wait(self, entry: AwaitedBatch) -> None:
        if self.state is State.READY and not self._is_packing:
            self._plan(entry)
        else:
            self._arrived.append(entry)

    def _plan(self, entry: AwaitedBatch) -> None:
        lane = self.log.lane(entry.lane)
        header = entry.header
        if not self.log.has_room(lane, header.record_count):
            entry.refuse(ErrorCode.POLICY_VIOLATION, "the partition has used up its offsets")
            return
        try:
            if header.producer_id < 0:
                tag = self._tag_of_chance(entry, lane.planned)
            else:
                if lane.producers is None:
                    lane.producers = ProducerTable()
                earlier = lane.producers.judge(header)
                if earlier is not None:
                    self._answer_double(entry, earlier)
                    return
                if self._packs_first(entry):
                    return
                tag = self._tag_of_producer(entry, lane.planned)
                lane.producers.remember(header, lane.planned, self._clock.now_ms(), lane.next)
        except BadSequence as problem:
            if entry.is_doubted:
                entry.refuse(_CODES_OF_SEQUENCES[type(problem).__name__], str(problem))
            else:  # another proxy may have stored what is missing here
                entry.is_doubted = True
                self._arrived.append(entry)
                self.look_again()
            return
        except BadBatch as problem:
            entry.refuse(ErrorCode.INVALID_RECORD, str(problem))
            return
        entry.tag = tag
        write_tag(entry.batch, tag)  # type: ignore[arg-type]
        lane.planned += header.record_count
        self._queue.append(entry)
        self._appender.submit(self._leader.node, self)

    def _tag_of_chance(self, entry: AwaitedBatch, offset: int) -> Tag:
        if entry.tag is not None:  # the first copy may still arrive: only one of them counts
            return entry.tag._replace(offset=offset)
        chance = int.from_bytes(self._dice.token(8), "big")
        return Tag(entry.lane, offset, chance % MOST_NUMBERS, (chance >> 22) & MAX_SEQUENCE)

    def _number_of(self, entry: AwaitedBatch) -> int | None:
        number = self.log.number_of(entry.producer)
        return self._new_numbers.get(entry.producer) if number is None else number

    def _packs_first(self, entry: AwaitedBatch) -> bool:
        """Whether a batch must be packed anew on another thread; all others wait for it."""
        if entry.defined is not None or self._number_of(entry) is not None:
            return False
        try:
            entry.defined = with_definition(entry.original, entry.producer, QUICK_UNPACKED)
        except BatchTooLarge:
            self._is_packing = True
            self._arrived.appendleft(entry)
            self._tasks.spawn(self._pack(entry), "pack anew")
        return self._is_packing

    async def _pack(self, entry: AwaitedBatch) -> None:
        try:
            entry.defined = await self._work.run(
                lambda: with_definition(entry.original, entry.producer, MOST_UNPACKED)
            )
        except BadBatch as problem:
            entry.refuse(ErrorCode.INVALID_RECORD, str(problem))
        finally:
            self._is_packing = False
        if self.state is State.READY:
            waiting = list(self._arrived)
            self._arrived.clear()
            for one in waiting:
                if not one.done.done():
                    self._plan_or_wait(one)

    def _tag_of_producer(self, entry: AwaitedBatch, offset: int) -> Tag:
        number = self._number_of(entry)
        defines = number is None
        if number is None:
            assert entry.defined is not None
            entry.batch = entry.defined
            number = self.log.new_number(int.from_bytes(self._dice.token(4), "big"))
            self._new_numbers[entry.producer] = number
        else:
            entry.batch = entry.original
        return Tag(entry.lane, offset, number, entry.header.base_sequence, True, defines)

    def _answer_double(self, entry: AwaitedBatch, offset: int) -> None:
        if offset < self.log.lane(entry.lane).next:
            entry.done.set_result(offset)
        else:
            self._doubles.setdefault((entry.lane, offset), []).append(entry)

    def take(self) -> Buffer | None:
        """See Source."""
        if (
            self.state is not State.READY
            or not self._queue
            or len(self._under_way) >= _MOST_UNDER_WAY
        ):
            return None
        entry = self._queue.popleft()
        self._under_way.append(entry)
        return entry.batch

    def answered(self, outcome: AppendOutcome) -> None:
        """See Source."""
        entry = self._under_way.popleft()
        if self.state is State.READY and self._counts(entry, outcome):
            if self._queue:
                self._appender.submit(self._leader.node, self)
            return
        entry.code = outcome.code
        self._unsettled.append(entry)
        self.look_again()

    def _counts(self, entry: AwaitedBatch, outcome: AppendOutcome) -> bool:
        """Whether the batch came right behind the last known one: then it counts."""
        if outcome.code or outcome.base != self.log.next_place:
            return False
        batch = entry.batch
        assert isinstance(batch, bytearray | memoryview)
        assert entry.tag is not None
        if outcome.append_time_ms >= 0:
            stamp_append_time(batch, outcome.append_time_ms)
        header = read_header(batch)._replace(base_offset=outcome.base)
        applied = self.log.apply(header, memoryview(batch), self._clock.now_ms(), is_own=True)
        if applied is None:
            return False
        if entry.tag.defines:  # readers get the client's own bytes, which have no definition
            batch = entry.original
            write_tag(batch, entry.tag._replace(defines=False))
            if outcome.append_time_ms >= 0:
                stamp_append_time(batch, outcome.append_time_ms)
            self._new_numbers.pop(entry.producer, None)
        self._acknowledge(entry, applied.offset)
        stamp(batch, applied.offset, self._leader.epoch)
        self._tail.put(self, applied.lane, applied.offset, header.record_count, batch)
        self.wake(applied.lane)
        return True

    def _acknowledge(self, entry: AwaitedBatch, offset: int) -> None:
        if not entry.done.done():
            entry.done.set_result(offset)
        for double in self._doubles.pop((entry.lane, offset), ()):
            if not double.done.done():
                double.done.set_result(offset)

    def wake(self, lane: int) -> None:
        """Tell readers that wait for the lane's next record."""
        for waiting in self.waiters.pop(lane, ()):
            if not waiting.done():
                waiting.set_result(None)

    # -- what is true -------------------------------------------------------------------------

    def look_again(self) -> None:
        """Read the log to its end before anything else is sent."""
        if self.state is State.READY:
            self.state = State.TROUBLED
            self.is_troubled_often += 1
        if self.state is State.TROUBLED and not self._under_way:
            self.state = State.OPENING
            self._tasks.spawn(self._recover(), "recover")

    async def catch_up(self) -> None:
        """Read all that the upstream has now. Raises UpstreamLost, TimeoutError."""
        await self.reach(await list_offset(self._upstream, self.topic, self.index, LATEST))

    async def reach(self, place: int) -> None:
        """Wait until all batches before a place are known: another proxy may have written them."""
        async with asyncio.timeout(_REACH_S):
            while self.log.next_place < place:
                if self.state is State.CLOSED:
                    raise UpstreamLost(f"{self.topic}-{self.index} is served by another proxy")
                if self.is_idle:
                    self.look_again()
                await asyncio.sleep(_REACH_PAUSE_S)

    async def open(self, known: PhysicalLog, lane_count: int) -> None:
        """Read what came after a checkpoint. Raises UpstreamRefused if the topic is gone."""
        self.log = known
        found: dict[tuple[int, int, int], int] = {}
        await self._until_it_works(self._open, lane_count, found)
        self._begin(found)
        if not self.opened.done():
            self.opened.set_result(None)

    async def _open(self, lane_count: int, found: dict[tuple[int, int, int], int]) -> None:
        start = await list_offset(self._upstream, self.topic, self.index, EARLIEST)
        end = await list_offset(self._upstream, self.topic, self.index, LATEST)
        if self.log.next_place > end:
            logger.error(
                "upstream_lost_records",
                topic=self.topic,
                partition=self.index,
                known_to=self.log.next_place,
                end=end,
            )
            self.log = PhysicalLog()
        if self.log.next_place < start:
            logger.warning(
                "records_gone_unseen",
                topic=self.topic,
                partition=self.index,
                known_to=self.log.next_place,
                start=start,
            )
            self.log.begin_at(start)
        await self._read_to_end(found)
        self.log.settle(lane_count)
        await self.begin_at(start)

    async def _recover(self) -> None:
        found: dict[tuple[int, int, int], int] = {}
        self.log.forget_plans()
        self._new_numbers.clear()
        try:
            await self._until_it_works(self._read_to_end, found)
        except KafscaleError as problem:
            logger.error(
                "partition_closed", topic=self.topic, partition=self.index, reason=str(problem)
            )
            self.close()
            return
        self._begin(found)

    async def _until_it_works(self, work, *arguments) -> None:  # type: ignore[no-untyped-def]
        while self.state is not State.CLOSED:
            try:
                await self._upstream.refresh(self.topic)
                self._leader = await self._upstream.leader(self.topic, self.index)
                await work(*arguments)
                return
            except (UpstreamLost, TimeoutError) as problem:
                logger.info(
                    "partition_waits", topic=self.topic, partition=self.index, reason=str(problem)
                )
                self._refuse_overdue()
                await asyncio.sleep(_PAUSE_S)

    def _refuse_overdue(self) -> None:
        now_s = self._clock.elapsed_s()
        for entries in (self._unsettled, self._queue, self._arrived):
            for entry in [one for one in entries if one.deadline_s <= now_s]:
                entries.remove(entry)
                entry.refuse(ErrorCode.REQUEST_TIMED_OUT)

    async def _read_to_end(self, found: dict[tuple[int, int, int], int]) -> None:
        while True:
            block = await self._fetch(self.log.next_place)
            for at, header in walk(block.data):
                if header.next_offset > self.log.next_place:
                    batch = block.data[at : at + header.size]
                    applied = self.log.apply(header, batch, self._clock.now_ms())
                    if applied is not None:
                        self._note(applied, found)
            if block.end >= block.high_watermark or block.end <= block.start:
                return

    async def _fetch(self, place: int) -> Block:
        return await fetch_block(self._upstream, self.topic, self.index, place)

    def _note(self, applied: Applied, found: dict[tuple[int, int, int], int]) -> None:
        if applied.tag is not None and (self._unsettled or self._doubles):
            found[applied.tag.identity] = applied.offset
        self.wake(applied.lane)

    def _begin(self, found: dict[tuple[int, int, int], int]) -> None:
        """Answer what the log has; send the rest, in the order in which it came."""
        if self.state is State.CLOSED:
            return
        self.state = State.READY
        self._tail.forget(self)
        doubles = [one for entries in self._doubles.values() for one in entries]
        again = [*self._unsettled, *self._queue, *doubles, *self._arrived]
        self._unsettled, self._doubles = [], {}
        self._queue.clear()
        self._arrived.clear()
        for entry in again:
            offset = found.get(entry.tag.identity) if entry.tag is not None else None
            if offset is not None:
                self._acknowledge(entry, offset)
            elif entry.tag is not None and entry.code not in _SENT_AGAIN:
                entry.refuse(entry.code)
            elif not entry.done.done():
                entry.code = LOST
                self._plan_or_wait(entry)

    # -- what is gone -------------------------------------------------------------------------

    async def begin_at(self, start: int) -> None:
        """Take it that the physical log begins at `start` now. Raises UpstreamLost."""
        if start <= self.log.start_place:
            return
        missing = self.log.straddling(start)
        seen: dict[int, PlaceMark] = {}
        plain: list[BatchHeader] = []
        place = start
        while missing and place < self.log.next_place:
            block = await self._fetch(place)
            for _, header in walk(block.data):
                tag = read_tag(header)
                lane = 0 if tag is None else tag.lane
                if lane not in missing or header.base_offset < start or header.is_control:
                    continue
                if tag is None:
                    plain += () if header.is_transactional else (header,)
                else:
                    missing.discard(lane)
                    seen[lane] = PlaceMark(tag.offset, header.base_offset)
            if block.end <= place:
                break
            place = block.end
        if plain:
            # Batches of plain producers have no tag: they are counted back from what follows.
            following = seen[0].offset if 0 in seen else self.log.lane(0).next
            count = sum(header.record_count for header in plain)
            seen[0] = PlaceMark(following - count, plain[0].base_offset)
        self.log.retain(start, seen)
        logger.info("log_begins_later", topic=self.topic, partition=self.index, start=start)

    def close(self, code: int = ErrorCode.NOT_LEADER_OR_FOLLOWER) -> None:
        """Take no more batches; those that wait are refused. Those under way are not awaited."""
        self.state = State.CLOSED
        doubles = [one for entries in self._doubles.values() for one in entries]
        for entry in (*self._unsettled, *self._queue, *doubles, *self._arrived, *self._under_way):
            entry.refuse(code)
        for lane in list(self.waiters):
            self.wake(lane)
        self._tail.forget(self)
        if not self.opened.done():
            self.opened.set_exception(BatchRefused(code))
            self.opened.exception()

    @property
    def is_idle(self) -> bool:
        """Whether no batch waits for its answer."""
        return not (self._under_way or self._queue or self._unsettled or self._arrived)


_CODES_OF_SEQUENCES: Final = {
    "OutOfOrderSequence": ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
    "DuplicateSequence": ErrorCode.DUPLICATE_SEQUENCE_NUMBER,
    "StaleProducerEpoch": ErrorCode.INVALID_PRODUCER_EPOCH,
    "UnknownProducer": ErrorCode.UNKNOWN_PRODUCER_ID,
}
