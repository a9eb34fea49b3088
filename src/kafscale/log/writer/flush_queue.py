"""Batches that wait for their commit, gathered until they become one segment.

Here: the waiting room of a log and when it is full enough. No timers, no store.
Next door: the log that sets the timer and writes the segment (log.py).
"""

import asyncio
import contextlib
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from kafscale.log.formats import segment
from kafscale.log.formats.segment import Built, ContentId, LaneBatches, Span
from kafscale.log.writer.lane import Lane
from kafscale.log.writer.tail_memory import Chunk
from kafscale.model.clock import Clock, Dice
from kafscale.model.errors import KafscaleError
from kafscale.records.batch import BatchHeader

_SLACK: Final = 0.1

# None when the flush was committed, else why it was not.
Outcome = KafscaleError | None


class Waiting(NamedTuple):
    """A batch, stamped with its offset, not yet committed."""

    lane: Lane
    header: BatchHeader
    first: int
    data: memoryview
    acknowledged: bool  # its producer has its answer already, or wants none
    epoch: int  # that it is stamped with


@dataclass(slots=True)
class Flush:
    """What will become one segment."""

    done: asyncio.Future[Outcome]
    since_s: float
    size: int = 0
    records: int = 0
    batches: list[Waiting] = field(default_factory=list)
    is_urgent: bool = False

    def add(self, waiting: Waiting) -> None:
        """Let a further batch wait."""
        self.batches.append(waiting)
        self.size += len(waiting.data)
        self.records += waiting.header.record_count

    def finish(self, outcome: Outcome) -> None:
        """Tell all who wait."""
        if not self.done.done():
            self.done.set_result(outcome)

    def holds(self, lane: Lane, first: int) -> bool:
        """Whether the lane's batch of that first offset is in here."""
        return any(row.first == first and row.lane is lane for row in self.batches)

    def by_lane(self) -> list[tuple[Lane, list[Waiting]]]:
        """The batches in the order a segment wants them: by lane, then as they came."""
        lanes: dict[int, tuple[Lane, list[Waiting]]] = {}
        for waiting in self.batches:
            row = lanes.get(waiting.lane.number)
            if row is None:
                lanes[waiting.lane.number] = (waiting.lane, [waiting])
            else:
                row[1].append(waiting)
        return [lanes[number] for number in sorted(lanes)]


def build(
    base: int,
    predecessor: ContentId,
    by_lane: list[tuple[Lane, list[Waiting]]],
    clock: Clock,
    dice: Dice,
) -> Built:
    """The segment that a flush becomes, the next one of a chain that ends at `base`."""
    lanes = lane_batches(by_lane)
    return segment.build(
        base,
        base + sum(lane.last - lane.first + 1 for lane in lanes),
        lanes,
        created_ms=clock.now_ms(),
        token=int.from_bytes(dice.token(4), "big"),
        predecessor=predecessor,
    )


def parts(built: Built, by_lane: Sequence[tuple[Lane, list[Waiting]]]) -> list[tuple[Span, Chunk]]:
    """What each lane gets of a flush that is committed; their epochs are noted."""
    found = []
    for span, (lane, rows) in zip(built.spans, by_lane, strict=True):
        for row in rows if rows[0].epoch != rows[-1].epoch else rows[:1]:
            lane.note_epoch(row.epoch, row.first)
        firsts, batches = [row.first for row in rows], [row.data for row in rows]
        found.append((span, Chunk(span.first, span.last, firsts, batches)))
    return found


def lane_batches(by_lane: list[tuple[Lane, list[Waiting]]]) -> list[LaneBatches]:
    """A flush's batches as segment.build takes them."""
    return [
        LaneBatches(
            lane.number,
            rows[0].first,
            rows[-1].first + rows[-1].header.last_offset_delta,
            sum(row.header.record_count for row in rows),
            min(row.header.base_timestamp_ms for row in rows),
            max(row.header.max_timestamp_ms for row in rows),
            [row.data for row in rows],
        )
        for lane, rows in by_lane
    ]


def bytes_by_lane(flushes: Iterable[Flush]) -> dict[int, int]:
    """How much waits in each lane."""
    sizes: dict[int, int] = {}
    for one in flushes:
        for row in one.batches:
            sizes[row.lane.number] = sizes.get(row.lane.number, 0) + len(row.data)
    return sizes


def read_waiting(
    flushes: Iterable[Flush], lane: Lane, offset: int, max_bytes: int
) -> list[memoryview]:
    """Copies of a lane's batches from the one holding `offset` on; the first whatever its size."""
    found: list[memoryview] = []
    for one in flushes:
        for row in one.batches:
            if row.lane is lane and row.first + row.header.last_offset_delta >= offset:
                max_bytes -= len(row.data)
                if max_bytes < 0 and found:
                    return found
                # A copy: the batch is stamped anew if it has to be appended again.
                found.append(memoryview(bytes(row.data)))
    return found


class WaitingRoom:
    """Flushes whose turn has not come, the oldest first; the youngest takes what arrives."""

    def __init__(self, *, full_bytes: int, full_records: int, most_bytes: int, longest_s: float):
        """A flush is due when it is full, or `longest_s` after the one before it began.

        So there is one in `longest_s` at most, and what comes after a pause need not wait at all.
        `full_records` 0 or less: no such limit. A flush grows beyond full while it must wait,
        to `most_bytes`.
        """
        self._full_bytes = full_bytes
        self._full_records = full_records
        self._most_bytes = most_bytes
        self._longest_s = longest_s
        self._flushes: deque[Flush] = deque()
        self._last_s: float | None = None  # when a flush was let out; None: the first gathers, too
        self._is_held = False

    def __iter__(self) -> Iterator[Flush]:
        """All that wait, the oldest first."""
        return iter(self._flushes)

    def add(self, waiting: Waiting, now_s: float) -> Flush:
        """Put a batch into the youngest flush, or into a new one if that has no room."""
        flush = self._flushes[-1] if self._flushes else None
        if flush is None or flush.size + len(waiting.data) > self._most_bytes:
            flush = Flush(asyncio.get_running_loop().create_future(), now_s)
            self._flushes.append(flush)
        flush.add(waiting)
        return flush

    def due_in_s(self, now_s: float) -> float | None:
        """How long the oldest flush may still wait; None if there is none that may go."""
        if not self._flushes or self._is_held:
            return None
        oldest = self._flushes[0]
        full = (
            len(self._flushes) > 1
            or oldest.is_urgent
            or oldest.size >= self._full_bytes
            or 0 < self._full_records <= oldest.records
        )
        began_s = oldest.since_s if self._last_s is None else self._last_s
        return 0.0 if full else max(0.0, began_s + self._longest_s - now_s)

    @contextlib.contextmanager
    def together(self) -> Iterator[None]:
        """What is added inside goes as one, as far as there is room, and is due right after."""
        self._is_held = True
        try:
            yield
        finally:
            self._is_held = False
            if self._flushes:
                self._flushes[-1].is_urgent = True

    def take(self, now_s: float) -> Flush | None:
        """Let the oldest flush out."""
        if not self._flushes:
            return None
        due_s = now_s if self._last_s is None else self._last_s + self._longest_s
        # A timer that fires a little late must not make every interval a little longer.
        is_in_step = 0 <= now_s - due_s <= self._longest_s * _SLACK
        self._last_s = due_s if is_in_step else now_s
        return self._flushes.popleft()

    def clear(self) -> None:
        """Send everyone away."""
        self._flushes.clear()
