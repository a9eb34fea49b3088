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
from kafscale.log.formats.producers import ProducerTable
from kafscale.log.formats.segment import Span
from kafscale.log.writer.tail_memory import RecentBatches

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
    fetch_buffered: bool = False  # readers may see what is not committed yet


_NO_RULES: Final = LaneRules()


class Lane:
    """Live state of one lane. Its log changes it, by the verbs below."""

    __slots__ = (
        "end",
        "epochs",
        "held_bytes",
        "high",
        "number",
        "producers",
        "recent",
        "rules",
        "span_lasts",
        "spans",
        "start",
        "watchers",
        "whose",
    )

    def __init__(self, number: int) -> None:
        """An empty lane."""
        self.number = number
        self.whose: tuple[str, int] | None = None  # topic and partition, once a caller has named it
        self.rules = _NO_RULES
        self.watchers = Watchers()
        self.reset()

    def reset(self) -> None:
        """Forget everything but the topic, its rules and the watchers."""
        self.start = 0  # first offset that may be read
        self.high = 0  # high watermark: the offset after the last committed record
        self.end = 0  # the offset the next batch will get
        self.producers = ProducerTable()
        self.epochs: list[tuple[int, int]] = []  # (leader epoch, first offset written under it)
        self.spans: list[tuple[Span, SegmentEntry]] = []
        self.span_lasts: list[int] = []
        self.held_bytes = 0  # of its batches in those segments
        self.recent = RecentBatches()

    def serve(self, topic: str, partition: int, rules: LaneRules) -> None:
        """Name the partition that lies here, and the rules of its topic as they are now."""
        self.whose = topic, partition
        self.rules = rules

    def drop_rules(self) -> None:
        """Let the lane be sealed even if its offsets are used up."""
        self.rules = _NO_RULES

    # -- offsets ---------------------------------------------------------------------------

    def begin_at(self, first: int) -> None:
        """Begin an empty lane at any offset: a topic that moves in keeps its offsets."""
        if not self.end:
            self.start = self.high = self.end = first

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
        self.spans.append((span, entry))
        self.span_lasts.append(span.last)
        self.held_bytes += span.length

    def raise_start(self, start: int) -> None:
        """Let readers begin at `start` at the earliest."""
        self.start = max(self.start, start)

    def mark(self) -> LaneMark:
        """Describe the lane as of its last committed record."""
        return LaneMark(
            self.start, self.high, list(self.epochs), self.producers.snapshot(self.high)
        )

    def restore(self, mark: LaneMark) -> None:
        """Go on where a manifest ends."""
        self.start = mark.start
        self.high = self.end = mark.next
        self.epochs = list(mark.epochs)
        self.producers.restore(mark.producers)

    def note_epoch(self, epoch: int, first: int) -> None:
        """Extend the epoch history if `epoch` is new."""
        if not self.epochs or epoch > self.epochs[-1][0]:
            self.epochs.append((epoch, first))

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
