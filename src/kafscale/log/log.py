"""The log: one chain of segments with one owner, and the only writer of it.

Here: append, group commit, the proof of the tail, re-opening. The twelve rules this follows
are in docs/formats/log-protocol.md; comments name them where they bite.
Next door: opening (opening.py), roll-up, retention and sweeping (history.py), reading what
has left memory (reader.py).
"""

import asyncio
import enum
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import structlog

from kafscale.log import commits, index, keys, manifest, opening, segment
from kafscale.log.flush import Flush, Outcome, Waiting
from kafscale.log.lane import Chunk, Lane, TailMemory
from kafscale.log.manifest import Entry, Manifest
from kafscale.log.segment import Built, ContentId
from kafscale.log.tasks import Tasks
from kafscale.model.clock import Clock, Dice
from kafscale.model.errors import (
    KafscaleError,
    LogStopped,
    NotTheOwner,
    ObjectMissing,
    StoreError,
)
from kafscale.objects.store import ObjectStore
from kafscale.records import batch
from kafscale.records.batch import BatchHeader

logger = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class LogSettings:
    """How a log flushes and how long it waits before it believes or deletes."""

    flush_bytes: int = 4 << 20
    flush_messages: int = 10_000
    flush_interval_s: float = 0.5  # 0: at once whenever no flush is in flight
    largest_flush_bytes: int = 16 << 20
    segment_bytes: int = 100 << 20
    index_interval_bytes: int = 4096
    index_from_bytes: int = 1 << 20  # smaller flushes are read whole and get no index
    rollup_objects: int = 500
    grace_s: float = 600.0
    producer_expiry_ms: int = 86_400_000


@dataclass(slots=True)
class Observer:
    """What a log reports; the engine turns it into metrics."""

    flushed: Callable[[int, int, float], None] = lambda _size, _records, _seconds: None
    rolled_up: Callable[[int], None] = lambda _objects: None
    buffered: Callable[[int], None] = lambda _delta: None


class State(enum.Enum):
    """The life of a log object in memory."""

    OPENING = "opening"
    OPEN = "open"
    CLOSED = "closed"
    STOPPED = "stopped"


class Appended(NamedTuple):
    """Where a batch went, and the future that tells when it is committed (None: it is)."""

    first: int
    committed: asyncio.Future[Outcome] | None
    is_duplicate: bool


class Tail(NamedTuple):
    """A committed flush that no manifest covers yet."""

    entry: Entry
    chunks: list[tuple[int, Chunk]]  # (lane number, its batches), while they are in memory


class Log:
    """One log, opened for writing."""

    def __init__(
        self,
        store: ObjectStore,
        folder: str,
        *,
        epoch: int,
        author: str,
        settings: LogSettings,
        memory: TailMemory,
        clock: Clock,
        dice: Dice,
        observer: Observer | None = None,
    ) -> None:
        """Name the log; `open` makes it usable."""
        self.store = store
        self.folder = folder
        self.epoch = epoch
        self.author = author
        self.settings = settings
        self.clock = clock
        self.dice = dice
        self.memory = memory
        self.observer = observer or Observer()
        self.state = State.OPENING
        self.stopped_because = ""
        self.lanes: dict[int, Lane] = {}
        self.manifest: Manifest = commits.before_any()
        self.tail: list[Tail] = []
        self.tail_bytes = 0
        self.swept: set[str] = set()
        self.sweep_due = True
        self.busy_with_history = asyncio.Lock()
        self._tail_id = segment.NOTHING_BEFORE
        self._end = 0
        self._proof_s = 0.0
        self._tasks = Tasks()
        self._timer: asyncio.TimerHandle | None = None
        self._waiting: deque[Flush] = deque([self._new_flush()])
        self._in_flight: Flush | None = None

    # -- opening and closing ---------------------------------------------------------------

    async def open(self) -> None:
        """Read the log from the bucket."""
        try:
            opened = await opening.open_log(
                self.store, self.folder, self.clock, self.settings.index_from_bytes
            )
        except LogStopped as problem:
            self._stop(problem)
            raise
        self._load(opened)
        self.state = State.OPEN

    def lane(self, number: int) -> Lane:
        """The lane of that number, empty if nothing was ever written to it."""
        found = self.lanes.get(number)
        if found is None:
            found = self.lanes[number] = Lane(number)
        return found

    def _load(self, opened: opening.Opened) -> None:
        for lane in self.lanes.values():
            self.memory.release(lane)
            lane.reset()
        self.tail = []
        self.tail_bytes = 0
        self.manifest = opened.manifest
        self._end = opened.manifest.end
        self._tail_id = ContentId._make(opened.manifest.end_id)
        for number, mark in opened.manifest.lanes.items():
            self.lane(number).restore(mark)
        self._list_past()
        for found in opened.tail:
            self._take_up(found)
        self._proof_s = opened.proof_s

    def _list_past(self) -> None:
        for entry in self.manifest.segments:
            for span in entry.spans():
                self.lane(span.lane).add_span(span, entry)
        for lane in self.lanes.values():
            lane.forget_spans_before(lane.start)

    def _take_up(self, found: opening.TailSegment) -> None:
        """Adopt a flush that is in the bucket: offsets, producers, epochs, memory."""
        chunks = []
        for span in found.content.spans:
            lane = self.lane(span.lane)
            firsts: list[int] = []
            batches: list[memoryview] = []
            for at, header in batch.walk(found.data, span.start, span.start + span.length):
                if header.producer_id >= 0:
                    lane.producers.remember(
                        header, header.base_offset, found.content.created_ms, 1 << 62
                    )
                lane.note_epoch(header.leader_epoch, header.base_offset)
                firsts.append(header.base_offset)
                batches.append(found.data[at : at + header.size])
            chunk = Chunk(span.first, span.last, firsts, batches)
            chunks.append((span.lane, chunk))
            lane.high = lane.end = span.last + 1
            lane.add_span(span, found.entry)
            self.memory.keep(lane, chunk)
        self.tail.append(Tail(found.entry, chunks))
        self.tail_bytes += found.entry.size
        self._end = found.content.end
        self._tail_id = found.content.content_id

    async def aclose(self) -> None:
        """Commit what waits, then let go. Cancel it to leave without."""
        try:
            while self.state is State.OPEN and (self._in_flight or self._waiting[0].batches):
                self._start_flushing()
                current = self._in_flight or self._waiting[0]
                await asyncio.shield(current.done)
        finally:
            self._let_go()
            await self._tasks.aclose()

    async def abandon(self) -> None:
        """Let go at once: what waits is refused, nothing more is written."""
        self._let_go()
        await self._tasks.aclose()

    def _let_go(self) -> None:
        if self.state is not State.STOPPED:
            self.state = State.CLOSED
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._refuse_all(NotTheOwner("the log is closed here"))
        for lane in self.lanes.values():
            self.memory.release(lane)
            lane.wake()

    def _stop(self, problem: LogStopped) -> None:
        self.state = State.STOPPED
        self.stopped_because = str(problem)
        logger.error("log_stopped", folder=self.folder, reason=str(problem))

    def require_open(self) -> None:
        """Raise what a caller should see when the log cannot be used now."""
        if self.state is State.STOPPED:
            raise LogStopped(self.stopped_because)
        if self.state is not State.OPEN:
            raise NotTheOwner("the log is not open here")

    # -- appending -------------------------------------------------------------------------

    def append(
        self, lane_number: int, header: BatchHeader, data: memoryview, *, acknowledged: bool
    ) -> Appended:
        """Give a validated batch its offsets and let it wait for the next commit.

        `data` is stamped in place and kept. `acknowledged`: nobody will wait for the commit.
        """
        self.require_open()
        lane = self.lane(lane_number)
        if header.producer_id >= 0:
            earlier = lane.producers.find_duplicate(header)
            if earlier is not None:
                return Appended(earlier, self._commit_of(lane, earlier), is_duplicate=True)
        first = lane.end
        following = first + header.last_offset_delta + 1
        if following > index.RANGE:
            raise LogStopped(f"lane {lane_number} of {self.folder} has used up its offsets")
        batch.stamp(data, first, self.epoch)
        lane.end = following
        if header.producer_id >= 0:
            lane.producers.remember(header, first, self.clock.now_ms(), lane.high)
        flush = self._let_wait(Waiting(lane, header, first, data, acknowledged))
        if self._in_flight is None:
            self._flush_when_due()
        return Appended(first, flush.done, is_duplicate=False)

    def _commit_of(self, lane: Lane, first: int) -> asyncio.Future[Outcome] | None:
        if first < lane.high:
            return None
        for flush in (self._in_flight, *self._waiting):
            if flush and any(row.lane is lane and row.first == first for row in flush.batches):
                return flush.done
        return None

    def _new_flush(self) -> Flush:
        return Flush(asyncio.get_running_loop().create_future())

    def _let_wait(self, waiting: Waiting) -> Flush:
        """Put a batch into the youngest waiting flush, or into a new one if that is full."""
        flush = self._waiting[-1]
        if flush.batches and flush.size + len(waiting.data) > self.settings.largest_flush_bytes:
            flush = self._new_flush()
            self._waiting.append(flush)
        flush.add(waiting, self.clock.elapsed_s())
        self.observer.buffered(len(waiting.data))
        return flush

    def _flush_when_due(self) -> None:
        """Start a flush now, or set the timer for the oldest batch that waits."""
        waiting = self._waiting[0]
        if not waiting.batches or self._in_flight is not None:
            return
        limits = self.settings
        full = waiting.size >= limits.flush_bytes or (0 < limits.flush_messages <= waiting.records)
        delay = waiting.since_s + limits.flush_interval_s - self.clock.elapsed_s()
        if full or limits.flush_interval_s <= 0 or delay <= 0:
            self._start_flushing()
        elif self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(delay, self._timer_rang)

    def _timer_rang(self) -> None:
        self._timer = None
        self._start_flushing()

    def _start_flushing(self) -> None:
        if self._in_flight is not None or self.state is not State.OPEN:
            return
        if not self._waiting[0].batches:
            return
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        flush = self._waiting.popleft()
        if not self._waiting:
            self._waiting.append(self._new_flush())
        self._in_flight = flush
        self._tasks.spawn(self._write(flush), f"flush {self.folder}")

    # -- committing ------------------------------------------------------------------------

    async def _write(self, flush: Flush) -> None:
        """Take one flush to its end: committed, or refused after re-opening."""
        started = self.clock.elapsed_s()
        built = self._build(flush)
        key = keys.segment(self.folder, built.base)
        created = await commits.put_same(self.store, key, built.body, "segment")
        if not created and not await self._is_ours(key, built.content_id):
            await self._reopen(f"{key} was written by somebody else")
            return
        if not await self._tail_is_proven(started):
            await self._reopen("a newer manifest exists")
            return
        self._commit(flush, built)
        self.observer.flushed(
            built.content_id.size, built.records, self.clock.elapsed_s() - started
        )
        self._in_flight = None
        self._flush_when_due()

    def _build(self, flush: Flush) -> Built:
        lanes = flush.lane_batches()
        covered = sum(lane.last - lane.first + 1 for lane in lanes)
        return segment.build(
            self._end,
            self._end + covered,
            lanes,
            created_ms=self.clock.now_ms(),
            token=int.from_bytes(self.dice.token(4), "big"),
            predecessor=self._tail_id,
        )

    async def _is_ours(self, key: str, content_id: ContentId) -> bool:
        """Rule 2: the name is taken; by us only if the content is ours to the last byte."""

        async def look() -> ContentId | None:
            try:
                head = await self.store.read(key, 0, segment.HEADER.size)
                # One byte more than ours: a longer object must not pass for our own.
                foot = await self.store.read(
                    key, content_id.size - segment.FOOTER.size, segment.FOOTER.size + 1
                )
            except ObjectMissing:
                return None
            size = content_id.size - segment.FOOTER.size + len(foot)
            if len(foot) < segment.FOOTER.size or len(head) < segment.HEADER.size:
                return None
            return segment.read_content_id(head, foot, size)

        return await commits.persist(look, "read back") == content_id

    async def _tail_is_proven(self, issued_s: float) -> bool:
        """Rules 3 and 4: an old proof is renewed before anything moves.

        A proof is dated when its request was issued; its age is judged now, after the PUT.
        """
        if self.clock.elapsed_s() - self._proof_s <= self.settings.grace_s / 2:
            self._proof_s = issued_s
            return True
        checked_s = self.clock.elapsed_s()
        known = self.manifest.generation
        newest = await commits.persist(
            lambda: commits.newest_generation(self.store, self.folder, known), "tail check"
        )
        # The check itself may have been held up for longer than its answer is good for.
        if newest != known:
            return False
        self._proof_s = checked_s
        if self.clock.elapsed_s() - checked_s > self.settings.grace_s / 2:
            return await self._tail_is_proven(checked_s)
        return True

    def _commit(self, flush: Flush, built: Built) -> None:
        """The segment is in the bucket and is the tail: let everyone see it."""
        large = built.content_id.size >= self.settings.index_from_bytes
        entry = manifest.entry_of(
            keys.segment_name(built.base),
            built.base,
            built.end,
            built.content_id,
            built.spans,
            has_index=large,
        )
        self._end = built.end
        self._tail_id = built.content_id
        chunks = []
        by_lane = flush.by_lane()
        for span, (lane, rows) in zip(built.spans, by_lane, strict=True):
            chunk = Chunk(
                span.first, span.last, [row.first for row in rows], [row.data for row in rows]
            )
            lane.high = span.last + 1
            lane.note_epoch(self.epoch, span.first)
            lane.add_span(span, entry)
            self.memory.keep(lane, chunk)
            chunks.append((lane.number, chunk))
        self.tail.append(Tail(entry, chunks))
        self.tail_bytes += entry.size
        self.observer.buffered(-flush.size)
        flush.finish(None)
        for lane, _ in by_lane:
            lane.wake()
        if large:
            self._tasks.spawn(self._write_index(entry, by_lane), f"index {self.folder}")

    async def _write_index(self, entry: Entry, by_lane: list[tuple[Lane, list[Waiting]]]) -> None:
        """An index is a hint: nobody waits for it, and one that is missing is rebuilt."""

        def positions(start: int, rows: list[Waiting]) -> list[tuple[int, BatchHeader]]:
            found = []
            for row in rows:
                found.append((start, row.header._replace(base_offset=row.first)))
                start += len(row.data)
            return found

        lines = [
            (span, positions(span.start, rows))
            for span, (_, rows) in zip(entry.spans(), by_lane, strict=True)
        ]
        body = index.encode(index.collect(lines, self.settings.index_interval_bytes))
        key = keys.index_of(f"{self.folder}/{entry.name}")
        try:
            await self.store.put_new(key, [body])
        except StoreError as problem:
            logger.info("index_not_written", key=key, error=str(problem))

    # -- losing and finding the tail ---------------------------------------------------------

    def _refuse_all(self, why: KafscaleError) -> list[Waiting]:
        """Answer everything that waits with `why`; gives back the batches."""
        flushes = [*([self._in_flight] if self._in_flight else []), *self._waiting]
        self._in_flight = None
        self._waiting = deque([self._new_flush()])
        for flush in flushes:
            self.observer.buffered(-flush.size)
            flush.finish(why)
        return [row for flush in flushes for row in flush.batches]

    async def _reopen(self, why: str) -> None:
        """Somebody else committed: adopt the truth, refuse what waits, never guess."""
        logger.warning("log_reopened", folder=self.folder, reason=why)
        self.state = State.OPENING
        lost = self._refuse_all(NotTheOwner(why))
        try:
            opened = await commits.persist(
                lambda: opening.open_log(
                    self.store, self.folder, self.clock, self.settings.index_from_bytes
                ),
                "re-open",
            )
        except LogStopped as problem:
            self._stop(problem)
            return
        self._load(opened)
        self.state = State.OPEN
        self._append_again(lost)
        for lane in self.lanes.values():
            lane.wake()

    def _append_again(self, lost: list[Waiting]) -> None:
        """Batches answered early get a new place; the others are expected to be sent again."""
        now_ms = self.clock.now_ms()
        for row in lost:
            if row.acknowledged:
                try:
                    self.append(row.lane.number, row.header, row.data, acknowledged=True)
                except KafscaleError as problem:
                    logger.warning("early_ack_lost", folder=self.folder, error=str(problem))
            elif row.header.producer_id >= 0:
                header = row.header
                row.lane.producers.expect(
                    header.producer_id, header.producer_epoch, header.base_sequence, now_ms
                )

    # -- history, changed by history.py ------------------------------------------------------

    @property
    def end(self) -> int:
        """The position after the last committed record."""
        return self._end

    @property
    def tail_id(self) -> ContentId:
        """Content id of the last committed flush."""
        return self._tail_id

    def boundaries(self) -> set[int]:
        """Positions at which a manifest may end and our chain still go on."""
        return {self.manifest.end, *(row.entry.end for row in self.tail)}

    async def adopt_foreign(self) -> bool:
        """Look for a manifest that somebody else wrote and take it up; tells whether it did."""
        newest = await commits.newest_generation(self.store, self.folder, self.manifest.generation)
        if newest == self.manifest.generation or self.state is not State.OPEN:
            return False
        async with self.busy_with_history:
            await self.recover_view()
        return True

    async def recover_view(self) -> None:
        """Make the newest manifest ours: in place where our chain allows it, else by re-opening.

        Called with `busy_with_history` held.
        """
        found = await commits.persist(
            lambda: commits.read_newest(self.store, self.folder), "newest manifest"
        )
        if self.state is not State.OPEN:
            return
        if found.end in self.boundaries():
            self.take_manifest(found)
        elif self._in_flight is None:
            await self._reopen("a foreign manifest ends beyond our tail")
        # With a flush in flight its own PUT meets the foreign chain and re-opens the log.

    def take_manifest(self, newest: Manifest) -> None:
        """Make a newer manifest, which ends at a boundary of our chain, our past."""
        self.manifest = newest
        self.sweep_due = True
        self.tail = [row for row in self.tail if row.entry.base >= newest.end]
        self.tail_bytes = sum(row.entry.size for row in self.tail)
        for number, mark in newest.lanes.items():
            lane = self.lane(number)
            lane.start = max(lane.start, mark.start)
        for lane in self.lanes.values():
            lane.spans.clear()
            lane.span_lasts.clear()
        self._list_past()
        for row in self.tail:
            for span in row.entry.spans():
                self.lane(span.lane).add_span(span, row.entry)
