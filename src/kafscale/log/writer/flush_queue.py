"""Batches that wait for their commit, in the flushes they will go with.

Here: which batch goes with which flush, and when a flush is due. No timers, no store.
Next door: the log that sets the timer and commits the flush (log.py).
"""

import asyncio
import contextlib
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from kafscale.log.formats import transactions
from kafscale.log.formats.segment import LaneBatches
from kafscale.log.writer.lane import Lane
from kafscale.log.writer.types import CommitOutcome, LogSettings
from kafscale.model.buffers import Buffer
from kafscale.records.batch import TRANSACTIONAL, BatchHeader
from kafscale.records.control import is_marker

_SLACK: Final = 0.1
_NO_LIMIT: Final = 1 << 62
_LONGEST_HOLD_S: Final = 1.0  # or the interval of flushes, if that is longer


class PendingBatch(NamedTuple):
    """A batch, stamped with its offset, not yet committed."""

    lane: Lane
    header: BatchHeader
    first: int
    data: memoryview
    acknowledged: bool  # its producer has its answer already, or wants none
    epoch: int  # that it is stamped with
    is_held: bool = False  # until its transaction ends: it makes no flush due


class LanePart(NamedTuple):
    """One lane's batches of a flush, in the order they were appended."""

    lane: Lane
    batches: list[PendingBatch]


@dataclass(slots=True)
class Flush:
    """What will become one segment."""

    done: asyncio.Future[CommitOutcome]
    since_s: float
    size: int = 0
    records: int = 0
    batches: list[PendingBatch] = field(default_factory=list)
    is_urgent: bool = False
    is_transactional: bool = False  # some of it
    is_held: bool = False  # all of it

    def add(self, pending: PendingBatch) -> None:
        """Let a further batch wait."""
        self.batches.append(pending)
        self.size += len(pending.data)
        self.records += pending.header.record_count
        if pending.header.attributes & TRANSACTIONAL:
            self.is_transactional = True

    def finish(self, outcome: CommitOutcome) -> None:
        """Answer all producers that wait."""
        if not self.done.done():
            self.done.set_result(outcome)

    def holds(self, lane: Lane, first: int) -> bool:
        """Whether the lane's batch of that first offset is in here."""
        return any(pending.first == first and pending.lane is lane for pending in self.batches)

    def by_lane(self) -> list[LanePart]:
        """The batches in the order a segment wants them: by lane, then as they came."""
        parts: dict[int, LanePart] = {}
        for pending in self.batches:
            part = parts.get(pending.lane.number)
            if part is None:
                parts[pending.lane.number] = LanePart(pending.lane, [pending])
            else:
                part.batches.append(pending)
        return [parts[number] for number in sorted(parts)]


def lane_batches(parts: Iterable[LanePart]) -> list[LaneBatches]:
    """A flush's batches as segment.build takes them."""
    return [_of_lane(part) for part in parts]


def _of_lane(part: LanePart) -> LaneBatches:
    """One lane's share. Most flushes have one batch: one loop is cheaper than a sum for each."""
    lane, batches = part
    header = batches[0].header
    records, earliest, latest = 0, header.base_timestamp_ms, header.max_timestamp_ms
    data: list[Buffer] = []
    for pending in batches:
        header = pending.header
        records += header.record_count
        earliest = min(earliest, header.base_timestamp_ms)
        latest = max(latest, header.max_timestamp_ms)
        data.append(pending.data)
    last = batches[-1].first + header.last_offset_delta
    return LaneBatches(lane.number, batches[0].first, last, records, earliest, latest, data)


def transaction_table(parts: Iterable[LanePart]) -> bytes:
    """What the segment of a flush says of the transactions in it."""
    return transactions.encode_table(
        transactions.event_of(part.lane.number, pending.header, pending.first, pending.data)
        for part in parts
        for pending in part.batches
        if pending.header.attributes & TRANSACTIONAL
    )


def bytes_by_lane(flushes: Iterable[Flush]) -> dict[int, int]:
    """How many bytes wait in each lane."""
    sizes: dict[int, int] = {}
    for flush in flushes:
        for pending in flush.batches:
            number = pending.lane.number
            sizes[number] = sizes.get(number, 0) + len(pending.data)
    return sizes


def commit_of_marker(
    flushes: Iterable[Flush], lane: Lane, producer_id: int
) -> asyncio.Future[CommitOutcome] | None:
    """The commit that a producer's marker waits for; None if none waits."""
    for flush in flushes:
        for pending in flush.batches:
            header = pending.header
            if (pending.lane, header.producer_id) == (lane, producer_id) and is_marker(header):
                return flush.done
    return None


def commit_of_producer(
    flushes: Iterable[Flush], producer_id: int
) -> asyncio.Future[CommitOutcome] | None:
    """The last commit that a producer's batches wait for; None if none waits."""
    waits = None
    for flush in flushes:
        if any(pending.header.producer_id == producer_id for pending in flush.batches):
            waits = flush.done
    return waits


def read_pending(
    flushes: Iterable[Flush], lane: Lane, offset: int, max_bytes: int
) -> list[memoryview]:
    """Copies of a lane's batches from the one holding `offset` on; the first whatever its size."""
    copies: list[memoryview] = []
    for flush in flushes:
        for pending in flush.batches:
            if pending.lane is lane and pending.first + pending.header.last_offset_delta >= offset:
                max_bytes -= len(pending.data)
                if max_bytes < 0 and copies:
                    return copies
                # A copy: the batch is stamped anew if it has to be appended again.
                copies.append(memoryview(bytes(pending.data)))
    return copies


class FlushQueue:
    """Flushes that have not begun, the oldest first; the youngest takes what arrives."""

    def __init__(self, *, full_bytes: int, full_records: int, most_bytes: int, longest_s: float):
        """A flush is due when it is full, or `longest_s` after the one before it began.

        So at most one begins per `longest_s`, and a batch that comes after a pause does not wait
        at all. `full_records` 0 or less: no such limit. A flush that must wait grows beyond full,
        to `most_bytes`.
        """
        self._full_bytes = full_bytes
        self._full_records = full_records
        self._most_bytes = most_bytes
        self._longest_s = longest_s
        self._flushes: deque[Flush] = deque()
        self._last_s: float | None = None  # when the last flush began; None: the first waits, too
        self._is_gathering = False

    def __iter__(self) -> Iterator[Flush]:
        """All flushes that wait, the oldest first."""
        return iter(self._flushes)

    def add(self, pending: PendingBatch, now_s: float) -> Flush:
        """Put a batch into the youngest flush, or into a new one if that has no room."""
        flush = self._flushes[-1] if self._flushes else None
        if flush is None or flush.size + len(pending.data) > self._most_bytes:
            flush = self._begin(now_s)
            flush.is_held = pending.is_held
        elif flush.is_held:
            flush.is_held = pending.is_held
        flush.add(pending)
        return flush

    def _begin(self, now_s: float) -> Flush:
        flush = Flush(asyncio.get_running_loop().create_future(), now_s)
        self._flushes.append(flush)
        return flush

    @property
    def is_holding(self) -> bool:
        """Whether all that waits is held."""
        return bool(self._flushes) and self._flushes[-1].is_held

    def due_in_s(self, now_s: float) -> float | None:
        """How long the oldest flush may still wait; None if none may begin."""
        if not self._flushes or self._is_gathering:
            return None
        oldest = self._flushes[0]
        full = (
            len(self._flushes) > 1
            or oldest.is_urgent
            or oldest.size >= self._full_bytes
            or 0 < self._full_records <= oldest.records
        )
        if oldest.is_held and not full:
            longest_s = max(self._longest_s, _LONGEST_HOLD_S)
            return max(0.0, oldest.since_s + longest_s - now_s)
        began_s = oldest.since_s if self._last_s is None else self._last_s
        return 0.0 if full else max(0.0, began_s + self._longest_s - now_s)

    @contextlib.contextmanager
    def together(self) -> Iterator[None]:
        """Keep batches that are added inside in one flush, if it has room; it is due at the end."""
        self._is_gathering = True
        try:
            yield
        finally:
            self._is_gathering = False
            self.hurry()

    @contextlib.contextmanager
    def in_one(self, size: int, now_s: float) -> Iterator[None]:
        """Keep batches of `size` bytes that are added inside in one flush, whatever its size."""
        if self._flushes and self._flushes[-1].size + size > self._most_bytes:
            self._begin(now_s)
        most, self._most_bytes = self._most_bytes, _NO_LIMIT
        self._is_gathering = True
        try:
            yield
        finally:
            self._is_gathering = False
            self._most_bytes = most
            if self._flushes and not self._flushes[-1].batches:
                self._flushes.pop()

    def release(self) -> None:
        """Let batches that are held go as others do."""
        for flush in self._flushes:
            flush.is_held = False

    def hurry(self) -> None:
        """Make all that waits due now."""
        if self._flushes:
            self._flushes[-1].is_urgent = True

    def take(self, now_s: float) -> Flush | None:
        """Remove the oldest flush: it begins now."""
        if not self._flushes:
            return None
        due_s = now_s if self._last_s is None else self._last_s + self._longest_s
        # A timer that fires a little late must not make every interval a little longer.
        is_in_step = 0 <= now_s - due_s <= self._longest_s * _SLACK
        self._last_s = due_s if is_in_step else now_s
        return self._flushes.popleft()

    def clear(self) -> None:
        """Drop all flushes; their producers are answered elsewhere."""
        self._flushes.clear()


def queue_for(settings: LogSettings) -> FlushQueue:
    """A queue with the limits that a log's settings name."""
    return FlushQueue(
        full_bytes=settings.flush_bytes,
        full_records=settings.flush_messages,
        most_bytes=settings.largest_flush_bytes,
        longest_s=settings.flush_interval_s,
    )
