"""The log: one chain of segments with one owner, and the only writer of it.

Here: append, group commit, the proof of the tail, re-opening. The twelve rules this follows
are in docs/formats/log-protocol.md; comments name them where they bite.
Next door: what is committed (view.py), batches that wait (flush.py), opening (opening.py),
roll-up, retention and sweeping (history.py), reading what has left memory (reader.py).
"""

import asyncio
import contextlib
import math
from collections.abc import Callable, Coroutine, Iterator, Sequence

import structlog

from kafscale.log.formats import keys, manifest
from kafscale.log.formats.segment import Built
from kafscale.log.protocol import commits, opening
from kafscale.log.writer import flush_queue, index_writer
from kafscale.log.writer.committed import View
from kafscale.log.writer.flush_queue import Flush, Outcome, Waiting, WaitingRoom
from kafscale.log.writer.lane import Lane, TailMemory
from kafscale.log.writer.types import Appended, LogSettings, Observer, State, Tail
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
from kafscale.tasks import Tasks

__all__ = ["Appended", "Log", "LogSettings", "Observer", "State", "Tail"]

logger = structlog.get_logger()


class Log(View):
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
    ) -> None:
        """Name the log; `open` makes it usable. `may_answer`: asked when a flush is committed."""
        super().__init__(memory)
        self.store = store
        self.folder = folder
        self.epoch = self.newest_epoch = epoch  # written under; clients may know a newer one
        self.author = author
        self.settings = settings
        self.clock = clock
        self.dice = dice
        self.observer = observer or Observer()
        self._may_answer = may_answer
        self.state, self.stopped_because = State.OPENING, ""
        self.is_used = False  # nobody has wanted anything since it was opened
        self.swept: set[str] = set()
        self.busy_with_history = asyncio.Lock()
        self._closing = self.has_ended = False
        self.on_turned_away: Callable[[list[Waiting]], None] = lambda lost: None  # for ever
        self.looked_s, self.looking = -math.inf, asyncio.Lock()  # for more than we know
        self._proof = moment(clock)
        self._tasks = Tasks()
        self._timer: asyncio.TimerHandle | None = None
        self._in_flight: Flush | None = None
        self._room = WaitingRoom(
            full_bytes=settings.flush_bytes,
            full_records=settings.flush_messages,
            most_bytes=settings.largest_flush_bytes,
            longest_s=settings.flush_interval_s,
        )

    # -- opening and closing ---------------------------------------------------------------

    async def open(self) -> None:
        """Read the log from the bucket."""
        try:
            opened = await self._look()
        except LogStopped as problem:
            self._stop(problem)
            raise
        if self.state is not State.OPENING:
            raise NotTheOwner("the log was closed while it was being opened")
        self.load(opened)
        self._proof = opened.proof
        self.state = State.OPEN

    async def _look(self) -> opening.Opened:
        index_from, fresh_s = self.settings.index_from_bytes, self.settings.grace_s / 2
        return await opening.open_log(self.store, self.folder, self.clock, index_from, fresh_s)

    def close_to_new(self) -> None:
        """Take nothing more; let whoever waits for records look elsewhere."""
        self._closing = True
        self._wake_all()

    async def aclose(self) -> None:
        """Commit what waits, then let go. Nothing new is taken. Cancel it to leave without."""
        self._closing = True
        try:
            self._start_flushing()
            while len(self._tasks):
                await self._tasks.wait_for_one()
                self._start_flushing()
        finally:
            await self.abandon()

    async def abandon(self, *, for_ever: bool = False) -> None:
        """Let go at once: what waits is refused, nothing more is written."""
        self.state = self.state if self.state is State.STOPPED else State.CLOSED
        self._cancel_timer()
        lost = self._refuse_all(NotTheOwner("the log is closed here"))
        self.on_turned_away(lost if for_ever else [])
        self.release()
        self._wake_all()
        await self._tasks.aclose()

    def _stop(self, problem: LogStopped | LogEnded, lost: Sequence[Waiting] = ()) -> None:
        """Never go on by guessing, nor beyond the end (rule 25): refuse everything from here on."""
        if self.state in (State.STOPPED, State.CLOSED):
            return
        self.has_ended = isinstance(problem, LogEnded)
        self.state = State.CLOSED if self.has_ended else State.STOPPED
        self.stopped_because = str(problem)
        logger.error("log_stopped", folder=self.folder, reason=str(problem))
        self.on_turned_away([*lost, *self._refuse_all(problem)])
        self._wake_all()

    def _wake_all(self) -> None:
        for lane in self.lanes.values():
            lane.wake()

    def require_open(self) -> None:
        """Raise what a caller should see when the log cannot be used now."""
        if self.state is State.STOPPED or self.has_ended:
            raise (LogEnded if self.has_ended else LogStopped)(self.stopped_because)
        if self.state is not State.OPEN:
            raise NotTheOwner("the log is not open here")

    def require_taking(self) -> None:
        """The same for a writer."""
        self.require_open()
        if self._closing:
            raise NotTheOwner("the log is being closed here")

    # -- appending -------------------------------------------------------------------------

    def append(
        self, lane_number: int, header: BatchHeader, data: memoryview, *, acknowledged: bool
    ) -> Appended:
        """Give a batch its offsets; it is stamped and kept. `acknowledged`: nobody will wait."""
        self.require_taking()
        return self._append(self.lane(lane_number), header, data, acknowledged=acknowledged)

    def gather(self, waiting: Waiting) -> asyncio.Future[Outcome]:
        """Let a batch that has its offset wait for the next commit."""
        joined = self._room.add(waiting, self.clock.elapsed_s())
        self.observer.buffered(len(waiting.data))
        self._flush_when_due()
        return joined.done

    @contextlib.contextmanager
    def one_flush(self) -> Iterator[None]:
        """Let all that is appended inside go together, and at once: somebody waits for it."""
        try:
            with self._room.together():
                yield
        finally:
            self._flush_when_due()

    def _append(
        self, lane: Lane, header: BatchHeader, data: memoryview, *, acknowledged: bool
    ) -> Appended:
        if header.producer_id >= 0:
            earlier = lane.producers.find_duplicate(header, lane.rules.accepts_unknown_sequences)
            if earlier is not None:
                return Appended(earlier, self._commit_of(lane, earlier), is_duplicate=True)
        if lane.producers.is_sealed:
            raise NotTheOwner(f"lane {lane.number} of {self.folder} is sealed")
        first, epoch = lane.end, lane.epoch_after(self.epoch)
        following = first + header.last_offset_delta + 1
        if following > lane.rules.offset_range:
            most = lane.rules.offset_range
            raise OffsetRangeExhausted(
                f"lane {lane.number} of {self.folder} has {most - first} of its {most} offsets left"
            )
        batch.stamp(data, first, epoch)
        lane.end = following
        if header.producer_id >= 0:
            lane.producers.remember(header, first, self.clock.now_ms(), lane.high)
        done = self.gather(Waiting(lane, header, first, data, acknowledged, epoch))
        if lane.rules.fetch_buffered:
            lane.wake()
        return Appended(first, done, is_duplicate=False)

    def _commit_of(self, lane: Lane, first: int) -> asyncio.Future[Outcome] | None:
        """The future of a batch that was appended before; None if it is committed."""
        if first < lane.high:
            return None
        for one in self._unfinished():
            if one.holds(lane, first):
                return one.done
        raise NotTheOwner(f"the batch at {first} is neither committed nor waiting")

    def _flush_when_due(self) -> None:
        """Start a flush now, or set the timer for the oldest batch that waits."""
        # The end of one in flight looks again.
        delay_s = None if self._in_flight else self._room.due_in_s(self.clock.elapsed_s())
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
        if self._in_flight is not None or self.state is not State.OPEN:
            return
        self._in_flight = self._room.take(self.clock.elapsed_s())
        if self._in_flight is not None:
            self._tasks.spawn(self._write(self._in_flight), f"flush {self.folder}")

    def read_waiting(self, lane: Lane, offset: int, max_bytes: int) -> list[memoryview]:
        """Batches not yet committed, as copies, for readers who asked for them: they may vanish."""
        return flush_queue.read_waiting(self._unfinished(), lane, offset, max_bytes)

    def waiting_bytes(self) -> dict[int, int]:
        """Bytes not yet committed, by lane."""
        return flush_queue.bytes_by_lane(self._unfinished())

    # -- committing ------------------------------------------------------------------------

    async def _write(self, one: Flush) -> None:
        """Take one flush to its end, whatever happens: nobody is left waiting."""
        try:
            await self._settle(one)
        except Exception as problem:
            one.finish(OutcomeUnknown(f"the flush failed: {problem!r}"))
            self._stop(LogStopped(f"a flush failed in a way nobody foresaw: {problem!r}"))
            raise

    async def _settle(self, one: Flush) -> None:
        """Commit a flush, or re-open the log and refuse it."""
        started = moment(self.clock)
        by_lane = one.by_lane()
        built = flush_queue.build(self.end, self.tail_id, by_lane, self.clock, self.dice)
        key = keys.segment(self.folder, built.base)
        created = await commits.put_same(self.store, key, built.body, "segment")
        if not created and not await commits.is_stored(self.store, key, built.content_id):
            await self._reopen(f"{key} was written by somebody else")
            return
        if not await self._tail_is_proven(started):
            await self._reopen("a newer manifest exists")
            return
        self._commit(one, by_lane, built)
        took_s = self.clock.elapsed_s() - started.elapsed_s
        self.observer.flushed(built.base, built.content_id.size, built.records, took_s)
        self._flush_when_due()

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
        return True

    async def _nothing_is_newer(self) -> bool:
        known = self.manifest.generation
        newest = await commits.persist(
            lambda: commits.newest_generation(self.store, self.folder, known), "tail check"
        )
        if newest <= self.manifest.generation:
            return True
        async with self.busy_with_history:  # our own housekeeping may be about to take it up
            return newest <= self.manifest.generation

    def _commit(
        self, one: Flush, by_lane: Sequence[tuple[Lane, list[Waiting]]], built: Built
    ) -> None:
        """The segment is in the bucket and is the tail: let everyone see it."""
        entry = manifest.flush_entry(built, self.settings.index_from_bytes)
        parts = flush_queue.parts(built, by_lane)
        self.extend(entry, built.content_id, parts)
        self._in_flight = None
        self.observer.buffered(-one.size)
        # Whoever may have opened the log since does not know of this flush: no promise, then.
        one.finish(None if self._may_answer() else NotTheOwner("the broker has lost its lease"))
        for lane, _ in by_lane:
            lane.wake()
        if entry.has_index:
            pieces = [[row.data for row in rows] for _, rows in by_lane]
            interval_bytes = self.settings.index_interval_bytes
            writing = index_writer.write(self.store, self.folder, entry, pieces, interval_bytes)
            self._tasks.spawn(writing, f"index {self.folder}")

    # -- losing and finding the tail ---------------------------------------------------------

    def _unfinished(self) -> list[Flush]:
        return [*filter(None, [self._in_flight]), *self._room]

    def _refuse_all(self, why: KafscaleError) -> list[Waiting]:
        """Answer everything that waits with `why`; gives back the batches."""
        flushes = self._unfinished()
        self._in_flight = None
        self._room.clear()
        for one in flushes:
            self.observer.buffered(-one.size)
            one.finish(why)
        return [row for one in flushes for row in one.batches]

    def _reopen(self, why: str) -> Coroutine[None, None, None]:
        """Somebody else committed: adopt the truth and refuse what waits, from this call on."""
        logger.warning("log_reopened", folder=self.folder, reason=why)
        self.state = State.OPENING
        return self._open_again(self._refuse_all(NotTheOwner(why)))

    async def _open_again(self, lost: list[Waiting]) -> None:
        try:
            opened = await commits.persist(self._look, "re-open")
            self.load(opened)
        except (LogStopped, LogEnded) as problem:
            self._stop(problem, lost)
            return
        except Exception as problem:
            self._stop(LogStopped(f"the log could not be opened again: {problem!r}"))
            raise
        self._proof = opened.proof
        self.state = State.OPEN
        self._append_again(lost)
        self._wake_all()

    def _append_again(self, lost: list[Waiting]) -> None:
        """Batches answered early get a new place; the others are expected to be sent again."""
        now_ms = self.clock.now_ms()
        for row in lost:
            header = row.header
            if row.acknowledged:
                try:
                    self._append(row.lane, header, row.data, acknowledged=True)
                except KafscaleError as problem:
                    logger.warning("early_ack_lost", folder=self.folder, error=str(problem))
            elif row.lane.producers.is_sealed:
                self.on_turned_away([row])
            elif header.producer_id >= 0:
                row.lane.producers.expect(
                    header.producer_id, header.producer_epoch, header.base_sequence, now_ms
                )

    async def reopen(self, why: str) -> None:
        """By a task of our own, not of who asks. A flush under way meets the truth by itself."""
        if self.state is State.OPEN and self._in_flight is None:
            await asyncio.shield(self._tasks.spawn(self._reopen(why), "re-open", awaited=True))

    async def adopt_foreign(self) -> bool:
        """Look for a manifest that somebody else wrote and take it up; tells whether there is."""
        newest = await commits.newest_generation(self.store, self.folder, self.manifest.generation)
        if newest <= self.manifest.generation or self.state is not State.OPEN:
            return False
        async with self.busy_with_history:
            await (self.reopen("the end") if newest >= keys.ENDING else self.recover_view())
        return True

    async def recover_view(self) -> None:
        """Make the newest manifest ours: in place where our chain allows it, else by re-opening.

        Called with `busy_with_history` held.
        """
        found = await commits.persist(
            lambda: commits.read_newest(self.store, self.folder), "manifest"
        )
        if self.state is not State.OPEN or found.generation <= self.manifest.generation:
            return
        if found.end in self.boundaries():
            self.take_manifest(found)
        else:
            await self.reopen("a foreign manifest ends beyond our tail")
