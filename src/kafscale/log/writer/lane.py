"""A lane: one partition's place in a log.

Here: its offsets, its producers, the map from offsets to segments. Next door: its recent batches
in memory (recent.py), the log that writes it (log.py), reading what has left memory (reader.py).
"""

from bisect import bisect_left
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from kafscale.log.formats import index
from kafscale.log.formats.manifest import Entry, LaneMark
from kafscale.log.formats.producers import ProducerTable
from kafscale.log.formats.segment import Span
from kafscale.log.writer.tail_memory import Chunk, Recent

Watcher = Callable[["Lane"], None]


class Watchers:
    """Who waits for a lane, in the order they came: they are woken in it."""

    __slots__ = ("_calls",)

    def __init__(self) -> None:
        """Begin with none."""
        self._calls: dict[Watcher, None] = {}

    def add(self, call: Watcher) -> None:
        """Wait."""
        self._calls[call] = None

    def discard(self, call: Watcher) -> None:
        """Wait no more."""
        self._calls.pop(call, None)

    def __len__(self) -> int:
        """How many wait."""
        return len(self._calls)

    def __iter__(self) -> Iterator[Watcher]:
        """Everybody as of now."""
        return iter(tuple(self._calls))


@dataclass(frozen=True, slots=True)
class LaneRules:
    """What a partition's topic says about it."""

    offset_range: int = index.RANGE  # what would reach it is refused
    accepts_unknown_sequences: bool = False  # unknown producers may begin at any sequence
    fetch_buffered: bool = False  # readers may see what is not committed yet


_NO_RULES: Final = LaneRules()


class Lane:
    """Live state of one lane. Only its log changes it, but for its rules."""

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
        """Begin empty."""
        self.number = number
        self.whose: tuple[str, int] | None = None  # topic and partition, as far as anybody asked
        self.rules = _NO_RULES
        self.watchers = Watchers()
        self.reset()

    def reset(self) -> None:
        """Forget everything but who is watching."""
        self.start = 0  # first offset that may be read
        self.high = 0  # high watermark: the offset after the last committed record
        self.end = 0  # the offset the next batch will get
        self.producers = ProducerTable()
        self.epochs: list[tuple[int, int]] = []  # (leader epoch, first offset written under it)
        self.spans: list[tuple[Span, Entry]] = []
        self.span_lasts: list[int] = []
        self.held_bytes = 0  # of its batches in those segments
        self.recent = Recent()

    def mark(self) -> LaneMark:
        """Describe the lane as of its last committed record."""
        return LaneMark(
            self.start, self.high, list(self.epochs), self.producers.snapshot(self.high)
        )

    def restore(self, mark: LaneMark) -> None:
        """Take up where a manifest ends."""
        self.start = mark.start
        self.high = self.end = mark.next
        self.epochs = list(mark.epochs)
        self.producers.restore(mark.producers)

    def note_epoch(self, epoch: int, first: int) -> None:
        """Extend the epoch history if `epoch` is new."""
        if not self.epochs or epoch > self.epochs[-1][0]:
            self.epochs.append((epoch, first))

    def epoch_after(self, epoch: int) -> int:
        """`epoch`, or the newer one of somebody else: what comes later must not look older."""
        return max(epoch, self.epochs[-1][0]) if self.epochs else epoch

    def add_span(self, span: Span, entry: Entry) -> None:
        """Make a further segment findable."""
        self.spans.append((span, entry))
        self.span_lasts.append(span.last)
        self.held_bytes += span.length

    def forget_spans(self) -> None:
        """Forget all segments; they are about to be listed anew."""
        self.spans.clear()
        self.span_lasts.clear()
        self.held_bytes = 0

    def spans_at(self, offset: int) -> Iterable[tuple[Span, Entry]]:
        """Segments from the one that holds `offset` (or the next record after it) on."""
        at = bisect_left(self.span_lasts, offset)
        while at < len(self.spans):
            yield self.spans[at]
            at += 1

    def forget_spans_before(self, start: int) -> int:
        """Let go of segments that lie wholly below the log start; gives their bytes."""
        keep = bisect_left(self.span_lasts, start)
        if not keep:
            return 0
        gone = sum(span.length for span, _ in self.spans[:keep])
        self.held_bytes -= gone
        del self.spans[:keep]
        del self.span_lasts[:keep]
        return gone

    def read_memory(
        self, offset: int, max_bytes: int, *, at_least_one: bool
    ) -> list[memoryview] | None:
        """Whole batches from the one holding `offset` on; None if that one has left memory."""
        if offset >= self.high:
            return []
        found = self.recent.read(offset, max_bytes, at_least_one=at_least_one)
        return found and found[0]

    def wake(self) -> None:
        """Tell everyone who waits that the high watermark has moved."""
        for watcher in self.watchers:
            watcher(self)


class TailMemory:
    """A byte budget shared by all lanes of a broker; the oldest flush leaves first.

    Separate from the cache for old data: whoever reads history cannot push the tail out.
    """

    def __init__(self, budget_bytes: int) -> None:
        """Hold at most about `budget_bytes`."""
        self.budget_bytes = budget_bytes
        self.used_bytes = 0
        self._order: OrderedDict[Chunk, Lane] = OrderedDict()

    def keep(self, lane: Lane, chunk: Chunk) -> None:
        """Add a flush, making room at the other end."""
        lane.recent.add(chunk)
        self._order[chunk] = lane
        self.used_bytes += chunk.size
        while self.used_bytes > self.budget_bytes:
            oldest, owner = self._order.popitem(last=False)
            self.used_bytes -= oldest.size
            owner.recent.drop_oldest()
            oldest.leave_memory()

    def release(self, lane: Lane) -> None:
        """Let go of everything a closing lane holds."""
        for chunk in lane.recent.chunks:
            del self._order[chunk]
            self.used_bytes -= chunk.size
            chunk.leave_memory()
        lane.recent.clear()
