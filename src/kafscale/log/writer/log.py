"""The log: one chain of segments with one owner, and the only writer of it.

Here: append, group commit, the proof of the tail, re-opening. It follows the 26 rules of
docs/formats/log-protocol.md; comments name them where they bite. No other module assigns to a
log's attributes (tests/unit/log/writer/test_closed.py).
Next door: its states (states.py), what is committed (committed.py), batches that wait
(flush_queue.py), changes of the past (history.py), opening (protocol/opening.py), roll-up,
retention and sweeping (upkeep/), reading batches that have left memory (reader/reader.py).

A batch goes through this file from top to bottom: `append` gives it offsets and lets it wait,
`_flush_when_due` begins the flush, `_commit` makes the flush a segment: it builds the object,
writes it (rule 2), proves that it is the tail (rules 3 and 4), shows it to readers and answers
the producers. Where the write or the proof fails, `_reopen` reads the log again.
"""

import asyncio
import contextlib
from collections.abc import Callable, Coroutine, Iterator, Sequence
from functools import partial
from typing import Final

import structlog

from kafscale.log.formats import keys, manifest, segment
from kafscale.log.formats.manifest import SegmentEntry
from kafscale.log.formats.producers import SEALER
from kafscale.log.formats.segment import Built
from kafscale.log.protocol import commits, opening
from kafscale.log.writer import flush_queue, index_hints
from kafscale.log.writer.committed import CommittedLog
from kafscale.log.writer.flush_queue import Flush, LanePart, PendingBatch
from kafscale.log.writer.history import History
from kafscale.log.writer.lane import Lane
from kafscale.log.writer.late_writes import LateWrites
from kafscale.log.writer.states import AT_REST, LogEvent, LogState, next_state
from kafscale.log.writer.tail_memory import Chunk, TailMemory
from kafscale.log.writer.types import Appended, CommitOutcome, LogSettings, Observer
from kafscale.model.clock import Clock, Dice, Moment, age_s, moment
from kafscale.model.errors import (
    KafscaleError,
    LogEnded,
    LogStopped,
    NotTheOwner,
    OffsetRangeExhausted,
    OutcomeUnknown,
)
from kafscale.objects.store import ObjectStore
from kafscale.records import batch
from kafscale.records.batch import BatchHeader
from kafscale.records.control import control_batch, empty_batch
from kafscale.tasks import Tasks
from kafscale.turns import Turns

logger = structlog.get_logger()

_LONGEST_GAP: Final = 1 << 31  # offsets that one batch can take


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
        may_answer: Callable[[], bool] = lambda: True,
        turns: Turns | None = None,
    ) -> None:
        """Name the log; `open` makes it usable. `may_answer`: asked when a flush is committed."""
        self.store = store
        self.folder = folder
        self.epoch = epoch  # our batches are stamped with it, or with a newer one of their lane
        self.newest_epoch = epoch  # that clients may know of
        self.settings = settings
        self.clock = clock
        self.dice = dice
        self.observer = observer or Observer()
        self.state = LogState.OPENING
        self.committed = CommittedLog(memory)
        self.lanes = self.committed.lanes
        self.history = History(
            store,
            folder,
            self.committed,
            author=author,
            clock=clock,
            dice=dice,
            is_open=lambda: self.state is LogState.OPEN,
            reopen=self.reopen,
        )
        self.late_writes = LateWrites(
            store, folder, self.committed, clock, self.reopen, self.adopt_foreign
        )
        self._may_answer = may_answer
        self._turns = turns or Turns(clock)
        self._turned_away: Callable[[list[PendingBatch]], None] = lambda _: None
        self._session = ""
        self._stopped_because = ""
        self._is_closing = False
        self._proof = moment(clock)
        self._tasks = Tasks()
        self._timer: asyncio.TimerHandle | None = None
        self._in_flight: Flush | None = None
        self._queue = flush_queue.queue_for(settings)
        self._looking = asyncio.Lock()

    def lane(self, number: int) -> Lane:
        """The lane of that number; an empty one if nothing was ever written to it."""
        return self.committed.lane(number)

    # -- what its owner tells it -----------------------------------------------------------

    def use(self, settings: LogSettings) -> None:
        """Go by other settings from now on; the limits of a flush stay."""
        self.settings = settings

    def note_generation(self, generation: int) -> None:
        """The epoch that clients know us by from now on."""
        self.newest_epoch = generation

    def report_turned_away(self, report: Callable[[list[PendingBatch]], None]) -> None:
        """Call `report` with batches that were refused in a log or lane that takes no more."""
        self._turned_away = report

    # -- opening and closing ---------------------------------------------------------------

    async def open(self) -> None:
        """Read the log from the bucket."""
        try:
            opened = await self._read_bucket()
        except LogStopped as problem:
            self._stop(problem)
            raise
        if self.state is not LogState.OPENING:
            raise NotTheOwner("the log was closed while it was being opened")
        self.committed.load(opened)
        self._proof = opened.proof
        self._change(LogEvent.OPENED)

    async def _read_bucket(self) -> opening.Opened:
        return await opening.open_log(
            self.store,
            self.folder,
            self.clock,
            self.settings.index_from_bytes,
            self.settings.grace_s / 2,
        )

    def close_to_new(self) -> None:
        """Take no more batches; let fetches that wait here look elsewhere."""
        self._is_closing = True
        self._wake_all()

    async def aclose(self) -> None:
        """Commit what waits, then let go. Nothing new is taken. Cancel it to leave without."""
        self._is_closing = True
        try:
            self._start_flushing()
            while len(self._tasks) or self._in_flight is not None:
                await (self._tasks.wait_for_one() if len(self._tasks) else asyncio.sleep(0))
                self._start_flushing()
        finally:
            await self.abandon()

    async def abandon(self, *, is_ended: bool = False) -> None:
        """Let go at once: what waits is refused, nothing more is written."""
        self._change(LogEvent.CLOSED)
        self._cancel_timer()
        refused = self._refuse_all(NotTheOwner("the log is closed here"))
        self._turned_away(refused if is_ended else [])
        self.committed.release()
        self._wake_all()
        await self._tasks.aclose()

    def _stop(self, problem: LogStopped | LogEnded, refused: Sequence[PendingBatch] = ()) -> None:
        """Never go on by guessing, nor beyond the end (rule 25): refuse everything from here on."""
        if self.state in AT_REST:
            return
        is_end = isinstance(problem, LogEnded)
        self._change(LogEvent.TOPIC_ENDED if is_end else LogEvent.FAILED)
        self._stopped_because = str(problem)
        logger.error("log_stopped", folder=self.folder, reason=str(problem))
        self._turned_away([*refused, *self._refuse_all(problem)])
        self._wake_all()

    def _change(self, event: LogEvent) -> None:
        """The one place where a log changes its state."""
        self.state = next_state(self.state, event)

    def _wake_all(self) -> None:
        for lane in self.lanes.values():
            lane.wake()

    @property
    def session(self) -> str:
        """A name of this opening of the log: what it held in memory is lost with it."""
        if not self._session:
            self._session = self.dice.token(8).hex()
        return self._session

    @property
    def has_ended(self) -> bool:
        """Whether the topic has been deleted, and this log with it (rule 25)."""
        return self.state is LogState.ENDED

    def require_open(self) -> None:
        """Raise what a caller should see when the log cannot be used now."""
        if self.state is LogState.ENDED:
            raise LogEnded(self._stopped_because)
        if self.state is LogState.STOPPED:
            raise LogStopped(self._stopped_because)
        if self.state is not LogState.OPEN:
            raise NotTheOwner("the log is not open here")

    def require_taking(self) -> None:
        """The same for a writer."""
        self.require_open()
        if self._is_closing:
            raise NotTheOwner("the log is being closed here")

    # -- appending -------------------------------------------------------------------------

    def append(
        self,
        lane_number: int,
        header: BatchHeader,
        data: memoryview,
        *,
        acknowledged: bool,
        held: bool = False,
    ) -> Appended:
        """Give a batch its offsets; it is stamped and kept. `acknowledged`: its answer is out.

        `held`: it may wait in memory until its transaction ends, as long as there is room; then
        there is no commit to wait for.
        """
        self.require_taking()
        lane = self.committed.lane(lane_number)
        if held and sum(flush.size for flush in self._unfinished()) < self.settings.flush_bytes:
            appended = self._append(lane, header, data, acknowledged=True, held=True)
            return appended._replace(committed=None)
        return self._append(lane, header, data, acknowledged=acknowledged)

    def _append(
        self,
        lane: Lane,
        header: BatchHeader,
        data: memoryview,
        *,
        acknowledged: bool,
        held: bool = False,
    ) -> Appended:
        if header.has_producer and header.base_sequence >= 0:
            earlier = lane.producers.judge(header, lane.rules.accepts_unknown_sequences)
            if earlier is not None:
                return Appended(earlier, self.commit_of(lane, earlier), is_duplicate=True)
        if lane.producers.is_sealed:
            raise NotTheOwner(f"lane {lane.number} of {self.folder} is sealed")
        count = header.last_offset_delta + 1
        most = lane.rules.offset_range
        if lane.end + count > most:
            raise OffsetRangeExhausted(
                f"lane {lane.number} of {self.folder} has {most - lane.end} of its {most} "
                "offsets left"
            )
        first, epoch = lane.reserve(count, self.epoch)
        batch.stamp(data, first, epoch)
        if header.has_producer:
            lane.note_appended(header, first, data, self.clock.now_ms(), lane.high)
        done = self._enqueue(PendingBatch(lane, header, first, data, acknowledged, epoch, held))
        if lane.rules.fetch_buffered:
            lane.wake()
        return Appended(first, done, is_duplicate=False)

    def adopt(
        self, lane_number: int, header: BatchHeader, data: memoryview
    ) -> asyncio.Future[CommitOutcome]:
        """Append a batch that keeps its offsets, because its topic moves in."""
        self.require_taking()
        lane = self.committed.lane(lane_number)
        first = header.base_offset
        if first < lane.end:
            raise NotTheOwner(
                f"lane {lane_number} of {self.folder} is at {lane.end} already, not at {first}"
            )
        lane.begin_at(first)
        while first > lane.end:
            self._fill(lane, min(first, lane.end + _LONGEST_GAP), header)
        # What is written here later must not look older.
        self.epoch = max(self.epoch, header.leader_epoch)
        self.newest_epoch = max(self.newest_epoch, self.epoch)
        lane.advance(header.next_offset)
        if header.has_producer:
            lane.note_appended(header, first, data, self.clock.now_ms(), lane.high)
        return self._enqueue(PendingBatch(lane, header, first, data, False, header.leader_epoch))

    def _fill(self, lane: Lane, end: int, following: BatchHeader) -> None:
        """Take the offsets up to `end`, of which no record is left: a lane has no gaps."""
        epoch, first = following.leader_epoch, lane.end
        data = memoryview(empty_batch(first, end - 1, following.base_timestamp_ms, epoch))
        lane.advance(end)
        self._enqueue(PendingBatch(lane, batch.read_header(data), first, data, False, epoch))

    def seal(self, lane_number: int) -> Appended:
        """Let a lane take no more batches, from this writer or any later one: its topic leaves.

        The seal is a batch like any other. A writer that does not know of it yet loses the race
        for the position it stands at, opens the log again, and finds it.
        """
        self.committed.lane(lane_number).drop_rules()
        data = memoryview(control_batch(self.clock.now_ms(), SEALER))
        return self.append(lane_number, batch.read_header(data), data, acknowledged=False)

    def commit_of(self, lane: Lane, first: int) -> asyncio.Future[CommitOutcome] | None:
        """The future of a batch that was appended before; None if it is committed."""
        if first < lane.high:
            return None
        for flush in self._unfinished():
            if flush.holds(lane, first):
                return flush.done
        raise NotTheOwner(f"the batch at {first} is neither committed nor waiting")

    def pending_marker(self, lane: Lane, producer_id: int) -> asyncio.Future[CommitOutcome] | None:
        """The commit that a producer's marker waits for; None if none waits."""
        return flush_queue.commit_of_marker(self._unfinished(), lane, producer_id)

    def keep(self, producer_id: int) -> asyncio.Future[CommitOutcome] | None:
        """Let what is held go; gives the last commit that a producer's batches wait for."""
        self._queue.release()
        self._cancel_timer()
        self._flush_when_due()
        return flush_queue.commit_of_producer(self._unfinished(), producer_id)

    def read_pending(self, lane: Lane, offset: int, max_bytes: int) -> list[memoryview]:
        """Batches not yet committed, as copies, for readers that ask for them: they may vanish."""
        return flush_queue.read_pending(self._unfinished(), lane, offset, max_bytes)

    def pending_bytes(self) -> dict[int, int]:
        """Bytes not yet committed, by lane."""
        return flush_queue.bytes_by_lane(self._unfinished())

    # -- waiting for a flush ---------------------------------------------------------------

    def _enqueue(self, pending: PendingBatch) -> asyncio.Future[CommitOutcome]:
        """Let a batch that has its offset wait for the next flush."""
        if self._queue.is_holding and not pending.is_held:
            self._cancel_timer()  # it is set for what is held
        flush = self._queue.add(pending, self.clock.elapsed_s())
        self.observer.buffered(len(pending.data))
        self._flush_when_due()
        return flush.done

    @contextlib.contextmanager
    def one_flush(self) -> Iterator[None]:
        """Let all that is appended inside go together, and at once: a caller waits for it."""
        try:
            with self._queue.together():
                yield
        finally:
            self._flush_when_due()

    @contextlib.contextmanager
    def one_object(self, size: int) -> Iterator[None]:
        """Let all that is appended inside be in one object; `size`: of all of it, in bytes."""
        try:
            with self._queue.in_one(size, self.clock.elapsed_s()):
                yield
        finally:
            self._flush_when_due()

    def flush_soon(self) -> None:
        """Let what waits go now, or right after the flush in flight: nothing more is to come."""
        self._queue.hurry()
        self._flush_when_due()

    def _flush_when_due(self) -> None:
        """Start a flush now, or set the timer for the oldest batch that waits."""
        # The end of one in flight calls this again.
        delay_s = None if self._in_flight else self._queue.due_in_s(self.clock.elapsed_s())
        if delay_s == 0:
            self._start_flushing()
        elif delay_s is not None and self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(delay_s, self._start_flushing)

    def _cancel_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _start_flushing(self) -> None:
        self._cancel_timer()
        if self._in_flight is not None or self.state is not LogState.OPEN:
            return
        self._in_flight = self._queue.take(self.clock.elapsed_s())
        if self._in_flight is not None:
            self._turns.begin(partial(self._begin_flush, self._in_flight))

    # -- committing ------------------------------------------------------------------------

    def _begin_flush(self, flush: Flush) -> None:
        if flush is self._in_flight:  # else it was refused meanwhile
            self._tasks.spawn(self._finish(flush), f"flush {self.folder}")

    async def _finish(self, flush: Flush) -> None:
        """Take one flush to its end, whatever happens: no producer is left waiting."""
        try:
            await self._commit(flush)
        except Exception as problem:
            flush.finish(OutcomeUnknown(f"the flush failed: {problem!r}"))
            self._stop(LogStopped(f"a flush failed for an unexpected reason: {problem!r}"))
            raise

    async def _commit(self, flush: Flush) -> None:
        """Build, write, prove, show, answer; or re-open the log and refuse the flush."""
        started = moment(self.clock)
        parts = flush.by_lane()
        built = self._build(parts, flush.is_transactional)
        key = keys.segment(self.folder, built.base)
        created = await commits.put_same(self.store, key, built.body, "segment")
        if not created and not await commits.is_stored(self.store, key, built.content_id):
            await self._reopen(f"{key} was written by another writer")
            return
        if not await self._tail_is_proven(started):
            await self._reopen("a newer manifest exists")
            return
        entry = self._show(parts, built, flush.is_transactional)
        self._answer(flush)
        for part in parts:
            part.lane.wake()
        if entry.has_index:
            interval = self.settings.index_interval_bytes
            hint = index_hints.write(self.store, self.folder, entry, parts, interval)
            self._tasks.spawn(hint, f"index {self.folder}")
        took_s = self.clock.elapsed_s() - started.elapsed_s
        self.observer.flushed(built.base, built.content_id.size, built.records, took_s)
        self._flush_when_due()

    def _build(self, parts: Sequence[LanePart], is_transactional: bool) -> Built:
        """The segment that comes next in the chain."""
        base = self.committed.end
        lanes = flush_queue.lane_batches(parts)
        return segment.build(
            base,
            base + sum(lane.last - lane.first + 1 for lane in lanes),
            lanes,
            created_ms=self.clock.now_ms(),
            token=int.from_bytes(self.dice.token(4), "big"),
            predecessor=self.committed.end_id,
            transactions=flush_queue.transaction_table(parts) if is_transactional else b"",
        )

    async def _tail_is_proven(self, issued: Moment) -> bool:
        """Rules 3 and 4: judged after the PUT, and again after a check that renews an old proof."""
        fresh_s = self.settings.grace_s / 2
        if age_s(self.clock, self._proof) <= fresh_s:
            self._proof = issued
            return True
        while age_s(self.clock, self._proof) > fresh_s:
            checked = moment(self.clock)
            if not await self._nothing_is_newer():
                return False
            self._proof = checked
            self.committed.note_newest(checked)
        return True

    async def _nothing_is_newer(self) -> bool:
        known = self.committed.manifest.generation
        newest = await commits.persist(
            lambda: commits.newest_generation(self.store, self.folder, known), "tail check"
        )
        if newest <= self.committed.manifest.generation:
            return True
        async with self.history:  # our own housekeeping may be about to load it
            return newest <= self.committed.manifest.generation

    def _show(
        self, parts: Sequence[LanePart], built: Built, is_transactional: bool
    ) -> SegmentEntry:
        """The segment is in the bucket and is the tail: let readers see it."""
        entry = manifest.flush_entry(built, self.settings.index_from_bytes)
        chunks, now_ms = [], self.clock.now_ms() if is_transactional else 0
        for span, (lane, batches) in zip(built.spans, parts, strict=True):
            # Epochs only rise: where the first and the last are equal, all are.
            for pending in batches if batches[0].epoch != batches[-1].epoch else batches[:1]:
                lane.note_epoch(pending.epoch, pending.first)
            firsts = [pending.first for pending in batches]
            chunk = Chunk(span.first, span.last, firsts, [pending.data for pending in batches])
            chunks.append((span, chunk))
            for pending in batches if is_transactional else ():
                lane.note_transaction(pending.header, pending.first, pending.data, now_ms)
        self.committed.extend(entry, built.content_id, chunks)
        return entry

    def _answer(self, flush: Flush) -> None:
        self._in_flight = None
        self.observer.buffered(-flush.size)
        # A broker that has opened the log since does not know of this flush: no promise, then.
        flush.finish(None if self._may_answer() else NotTheOwner("the broker has lost its lease"))

    # -- losing and finding the tail ---------------------------------------------------------

    def _unfinished(self) -> list[Flush]:
        return [*filter(None, [self._in_flight]), *self._queue]

    def _refuse_all(self, why: KafscaleError) -> list[PendingBatch]:
        """Answer everything that waits with `why`; gives back the batches."""
        flushes = self._unfinished()
        self._in_flight = None
        self._queue.clear()
        for flush in flushes:
            self.observer.buffered(-flush.size)
            flush.finish(why)
        return [pending for flush in flushes for pending in flush.batches]

    def _reopen(self, why: str) -> Coroutine[None, None, None]:
        """Another writer has committed: refuse what waits, from this call on; then read again."""
        logger.warning("log_reopened", folder=self.folder, reason=why)
        self._change(LogEvent.TAIL_LOST)
        return self._open_again(self._refuse_all(NotTheOwner(why)))

    async def _open_again(self, refused: list[PendingBatch]) -> None:
        try:
            opened = await commits.persist(self._read_bucket, "re-open")
            self.committed.load(opened)
        except (LogStopped, LogEnded) as problem:
            self._stop(problem, refused)
            return
        except Exception as problem:
            self._stop(LogStopped(f"the log could not be opened again: {problem!r}"))
            raise
        self._proof = opened.proof
        self._session = ""
        self._change(LogEvent.OPENED)
        self._append_again(refused)
        self._wake_all()

    def _append_again(self, refused: list[PendingBatch]) -> None:
        """Batches answered early get a new place; the others are expected to be sent again."""
        now_ms = self.clock.now_ms()
        for pending in refused:
            lane, header = pending.lane, pending.header
            if pending.is_held:
                continue  # rule B2: its transaction is aborted
            if pending.acknowledged and not header.is_transactional:  # rule T17
                try:
                    self._append(lane, header, pending.data, acknowledged=True)
                except KafscaleError as problem:
                    logger.warning("early_ack_lost", folder=self.folder, error=str(problem))
            elif lane.producers.is_sealed:
                self._turned_away([pending])
            elif header.producer_id >= 0 and header.base_sequence >= 0:
                lane.producers.expect(
                    header.producer_id, header.producer_epoch, header.base_sequence, now_ms
                )

    async def reopen(self, why: str) -> None:
        """Read the log again, in a task of its own: the caller may give up.

        A flush in flight meets what others have written by itself.
        """
        if self.state is LogState.OPEN and self._in_flight is None:
            await asyncio.shield(self._tasks.spawn(self._reopen(why), "re-open", awaited=True))

    async def adopt_foreign(self) -> bool:
        """Load a newer manifest that another writer has committed; tells whether there is one."""
        known, issued = self.committed.manifest.generation, moment(self.clock)
        newest = await commits.newest_generation(self.store, self.folder, known)
        if newest == known == self.committed.manifest.generation:
            self.committed.note_newest(issued)
        if newest <= self.committed.manifest.generation or self.state is not LogState.OPEN:
            return False
        async with self.history:
            await (self.reopen("the end") if newest >= keys.ENDING else self.history.follow())
        return True

    async def was_newest(self, generation: int, at: Moment) -> bool:
        """Rule 26: whether this generation was the newest at a moment that has just passed.

        If not, the newer one is loaded. However many readers ask, one LIST answers them.
        """
        async with self._looking:
            if self.committed.manifest.generation == generation and self.committed.seen < at:
                await self.adopt_foreign()
            if self.committed.manifest.generation != generation:
                return False
            if self.committed.seen >= at:
                return True
        raise NotTheOwner(f"{self.folder}: a newer manifest cannot be loaded now")
