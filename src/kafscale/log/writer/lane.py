"""A lane: one partition's place in a log.

Here: its offsets, its producers, the map from offsets to segments. No other module assigns to
its attributes (tests/unit/log/writer/test_closed.py).
Next door: its recent batches in memory (tail_memory.py), the log that writes it (log.py), reading
batches that have left memory (reader/reader.py).
"""

from bisect import bisect_left
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

from kafscale.log.formats import index
from kafscale.log.formats.manifest import LaneMark, SegmentEntry
from kafscale.log.formats.producers import ProducerSnapshot, ProducerTable
from kafscale.log.formats.segment import Span
from kafscale.log.formats.transactions import LaneTransactions, TransactionMarks
from kafscale.log.writer.tail_memory import RecentBatches
from kafscale.records import control
from kafscale.records.batch import TRANSACTIONAL, BatchHeader

Watcher = Callable[["Lane"], None]


class Watchers:
    """The callbacks that wait for a lane. They are called in the order they were added."""

    __slots__ = ("_calls",)

    def __init__(self) -> None:
        self._calls: dict[Watcher, None] = {}

    def add(self, call: Watcher) -> None:
        """Call it from now on."""
        self._calls[call] = None

    def discard(self, call: Watcher) -> None:
        """Call it no more."""
        self._calls.pop(call, None)

    def __len__(self) -> int:
        """How many wait."""
        return len(self._calls)

    def __iter__(self) -> Iterator[Watcher]:
        """All callbacks as of now."""
        return iter(tuple(self._calls))


@dataclass(frozen=True, slots=True)
class LaneRules:
    """What a partition's topic says about it."""

    offset_range: int = index.RANGE  # what would reach it is refused
    accepts_unknown_sequences: bool = False  # unknown producers may begin at any sequence
    deduplicates: bool = False  # batches of producers that are known by name are judged
    fetch_buffered: bool = False  # readers may see what is not committed yet
    buffers_transactions: bool = False  # their records may wait in memory for the commit


_NO_RULES: Final = LaneRules()


class Lane:
    """Live state of one lane. Its log changes it, by the verbs below."""

    __slots__ = (
        "buffers",
        "end",
        "epochs",
        "held_bytes",
        "high",
        "markers",
        "number",
        "producers",
        "recent",
        "registered",
        "rules",
        "span_lasts",
        "spans",
        "stable",
        "start",
        "transactions",
        "watchers",
        "whose",
    )

    def __init__(self, number: int) -> None:
        """An empty lane."""
        self.number = number
        self.whose: tuple[str, int] | None = None  # topic and partition, once a caller has named it
        self.rules = _NO_RULES
        self.watchers = Watchers()
        self.markers = 0  # counts markers and re-openings: what was read before may be outdated
        self.reset()

    def reset(self) -> None:
        """Forget everything but the topic, its rules and the watchers."""
        self.start = 0  # first offset that may be read
        self.high = 0  # high watermark: the offset after the last committed record
        self.end = 0  # the offset the next batch will get
        self.stable = 0  # last stable offset: below it the outcome of every transaction is known
        self.transactions = LaneTransactions()  # of committed batches
        self.producers = ProducerTable()
        self.epochs: list[tuple[int, int]] = []  # (leader epoch, first offset written under it)
        self.spans: list[tuple[Span, SegmentEntry]] = []
        self.span_lasts: list[int] = []
        self.held_bytes = 0  # of its batches in those segments
        self.recent = RecentBatches()
        # Producers whose transaction is registered with this lane, with their epochs. Rule T3:
        # forgotten with a re-opening and with the marker.
        self.registered: dict[int, int] = {}
        # Those of them whose records may wait in memory: their rows name this opening of the log.
        self.buffers: set[int] = set()
        self.markers += 1

    def serve(self, topic: str, partition: int, rules: LaneRules) -> None:
        """Name the partition that lies here, and the rules of its topic as they are now."""
        self.whose = topic, partition
        self.rules = rules
        if not rules.deduplicates:
            self.producers.forget_names()

    def drop_rules(self) -> None:
        """Let the lane be sealed even if its offsets are used up."""
        self.rules = _NO_RULES

    # -- offsets ---------------------------------------------------------------------------

    def begin_at(self, first: int) -> None:
        """Begin an empty lane at any offset: a topic that moves in keeps its offsets."""
        if not self.end:
            self.start = self.high = self.end = self.stable = first

    def reserve(self, count: int, epoch: int) -> tuple[int, int]:
        """Take the next `count` offsets; gives the first of them, and the epoch to stamp.

        That is `epoch`, or a newer one of another writer: later batches must not look older.
        """
        first = self.end
        self.end = first + count
        if self.epochs and self.epochs[-1][0] > epoch:
            epoch = self.epochs[-1][0]
        return first, epoch

    def advance(self, end: int) -> None:
        """Let the next batch get the offset `end`: what lies before it is taken."""
        self.end = end

    def commit(self, span: Span, entry: SegmentEntry) -> None:
        """Show a segment's part of this lane to readers."""
        self.high = span.last + 1
        self._settle()
        self.spans.append((span, entry))
        self.span_lasts.append(span.last)
        self.held_bytes += span.length

    def raise_start(self, start: int) -> None:
        """Let readers begin at `start` at the earliest."""
        if start > self.start:
            self.start = start
            self.transactions.forget_below(start)
            self._settle()

    def _settle(self) -> None:
        """Rule T10: the last stable offset follows from what is committed, and nothing else."""
        first = self.transactions.first_open() if self.transactions.open else None
        self.stable = self.high if first is None else max(self.start, min(first, self.high))

    def mark(self) -> LaneMark:
        """Describe the lane as of its last committed record."""
        return LaneMark(
            self.start,
            self.high,
            list(self.epochs),
            self.producers.snapshot(self.high),
            transactions=self.transactions.marks(self.start),
        )

    def restore(self, mark: LaneMark) -> None:
        """Go on where a manifest ends."""
        self.start = mark.start
        self.high = self.end = mark.next
        self.epochs = list(mark.epochs)
        self.producers.restore(mark.producers)
        self.producers.restore_transactions(mark.transactions)
        self.transactions.restore(mark.transactions)
        self._settle()

    def note_appended(
        self, header: BatchHeader, first: int, data: memoryview, now_ms: int, committed_to: int
    ) -> None:
        """Remember a batch of a producer that was given its offset."""
        if control.is_marker(header):
            turn = control.read_marker(data).turn
            self.producers.end(
                header.producer_id, header.producer_epoch, turn, now_ms, committed_to
            )
            self.registered.pop(header.producer_id, None)
            self.buffers.discard(header.producer_id)
            self.markers += 1
        else:
            self.producers.remember(header, first, now_ms, committed_to)

    def note_transaction(
        self, header: BatchHeader, first: int, data: memoryview, now_ms: int
    ) -> None:
        """Remember what a committed batch says of a transaction, if it is part of one."""
        if header.attributes & TRANSACTIONAL:
            self.transactions.note(header, first, data, now_ms)

    def register(
        self, producer_id: int, epoch: int, markers: int, *, buffers: bool = False
    ) -> bool:
        """Let the batches of a transaction in; False if `markers` is not the present count.

        `markers` is the count as of before the caller read that the transaction is registered.
        `buffers`: the row names this opening of the log, so that records may wait in memory.
        """
        if self.markers != markers:
            return False
        self.registered[producer_id] = epoch
        if buffers:
            self.buffers.add(producer_id)
        return True

    def note_epoch(self, epoch: int, first: int) -> None:
        """Extend the epoch history if `epoch` is new."""
        if not self.epochs or epoch > self.epochs[-1][0]:
            self.epochs.append((epoch, first))

    def learn_producers(
        self, known: list[ProducerSnapshot], transactions: TransactionMarks | None = None
    ) -> None:
        """Add what another log knew of producers whose batches are not in the bucket any more."""
        self.producers.learn(known)
        if transactions is not None:
            self.producers.learn_markers(transactions.markers)
            self.transactions.learn(transactions)

    def expire_producers(self, before_ms: int) -> None:
        """Forget producers that have been silent since then."""
        self.producers.expire(before_ms)
        self.transactions.expire(before_ms)

    # -- segments --------------------------------------------------------------------------

    def add_span(self, span: Span, entry: SegmentEntry) -> None:
        """Make a further segment findable that holds what is committed already."""
        self.spans.append((span, entry))
        self.span_lasts.append(span.last)
        self.held_bytes += span.length

    def forget_spans(self) -> None:
        """Forget all segments; they are about to be listed anew."""
        self.spans.clear()
        self.span_lasts.clear()
        self.held_bytes = 0

    def spans_at(self, offset: int, most: int | None = None) -> list[tuple[Span, SegmentEntry]]:
        """Segments from the one that holds `offset` (or the next record after it) on."""
        position = bisect_left(self.span_lasts, offset)
        return self.spans[position : None if most is None else position + most]

    def forget_spans_before(self, start: int) -> int:
        """Forget segments that lie wholly below the log start; gives their bytes."""
        keep = bisect_left(self.span_lasts, start)
        if not keep:
            return 0
        gone = sum(span.length for span, _ in self.spans[:keep])
        self.held_bytes -= gone
        del self.spans[:keep]
        del self.span_lasts[:keep]
        return gone

    # -- readers ---------------------------------------------------------------------------

    def read_memory(
        self, offset: int, max_bytes: int, *, at_least_one: bool
    ) -> list[memoryview] | None:
        """Whole batches from the one holding `offset` on; None if that one has left memory."""
        if offset >= self.high:
            return []
        batches = self.recent.read(offset, max_bytes, at_least_one=at_least_one)
        return batches and batches[0]

    def wake(self) -> None:
        """Call all watchers: the high watermark has moved, or the log is closed."""
        for watcher in self.watchers:
            watcher(self)
