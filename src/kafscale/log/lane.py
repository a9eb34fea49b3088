"""A lane: one partition's place in a log.

Here: its offsets, its producers, the map from offsets to segments, and its recent batches
in memory. Next door: the log that writes it (log.py), reading what has left memory (reader.py).
"""

from bisect import bisect_left, bisect_right
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from kafscale.log import index
from kafscale.log.manifest import Entry, LaneMark
from kafscale.log.producers import ProducerTable
from kafscale.log.segment import Span
from kafscale.records import batch

# What Python needs around the bytes, about: small batches of many lanes are mostly that.
CHUNK_BYTES: Final = 512
BATCH_BYTES: Final = 384


class Chunk:
    """One lane's batches of one committed flush, still in memory."""

    __slots__ = ("batches", "first", "firsts", "last", "size")

    def __init__(self, first: int, last: int, firsts: list[int], batches: list[memoryview]):
        """Hold `batches`, whose first offsets are `firsts`."""
        self.first = first
        self.last = last
        self.firsts = firsts
        self.batches = batches
        self.size = CHUNK_BYTES + sum(map(len, batches)) + BATCH_BYTES * len(batches)

    def leave_memory(self) -> None:
        """Let go of the bytes; the object in the bucket still has them."""
        self.batches = []
        self.firsts = []


class Watchers:
    """Who waits for a lane, in the order they came: they are woken in it."""

    __slots__ = ("_calls",)

    def __init__(self) -> None:
        """Begin with none."""
        self._calls: dict[Callable[[], None], None] = {}

    def add(self, call: Callable[[], None]) -> None:
        """Wait."""
        self._calls[call] = None

    def discard(self, call: Callable[[], None]) -> None:
        """Wait no more."""
        self._calls.pop(call, None)

    def __len__(self) -> int:
        """How many wait."""
        return len(self._calls)

    def __iter__(self) -> Iterator[Callable[[], None]]:
        """Everybody as of now."""
        return iter(tuple(self._calls))


@dataclass(frozen=True, slots=True)
class LaneRules:
    """What a partition's topic says about it."""

    offset_range: int = index.RANGE  # what would reach it is refused
    strangers_go_on: bool = False  # unknown producers may begin at any sequence
    wake_on_append: bool = False  # readers may see what is not committed yet


_NO_RULES: Final = LaneRules()


class Lane:
    """Live state of one lane. Only its log changes it, but for its rules."""

    __slots__ = (
        "chunk_firsts",
        "chunks",
        "end",
        "epochs",
        "held_bytes",
        "high",
        "number",
        "producers",
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
        self.chunks: list[Chunk] = []
        self.chunk_firsts: list[int] = []

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

    def add_chunk(self, chunk: Chunk) -> None:
        """Keep a committed flush in memory."""
        self.chunks.append(chunk)
        self.chunk_firsts.append(chunk.first)

    def drop_oldest_chunk(self) -> None:
        """Let the oldest flush leave memory."""
        del self.chunks[0]
        del self.chunk_firsts[0]

    def read_memory(
        self, offset: int, max_bytes: int, *, at_least_one: bool
    ) -> list[memoryview] | None:
        """Whole batches from the one holding `offset` on; None if that one has left memory."""
        if offset >= self.high:
            return []
        at = bisect_right(self.chunk_firsts, offset) - 1
        if at < 0:
            return None
        found: list[memoryview] = []
        room = max_bytes
        chunk = self.chunks[at]
        begin = bisect_right(chunk.firsts, offset) - 1
        if batch.read_header(chunk.batches[begin]).last_offset < offset:
            begin += 1  # between two batches that are no neighbours: nothing of the first is wanted
        while True:
            for one in chunk.batches[begin:]:
                room -= len(one)
                if room < 0 and not (at_least_one and not found):
                    return found
                found.append(one)
            at += 1
            if at == len(self.chunks) or room <= 0:
                return found
            chunk = self.chunks[at]
            begin = 0

    def wake(self) -> None:
        """Tell everyone who waits that the high watermark has moved."""
        for watcher in self.watchers:
            watcher()


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
        lane.add_chunk(chunk)
        self._order[chunk] = lane
        self.used_bytes += chunk.size
        while self.used_bytes > self.budget_bytes:
            oldest, owner = self._order.popitem(last=False)
            self.used_bytes -= oldest.size
            owner.drop_oldest_chunk()
            oldest.leave_memory()

    def release(self, lane: Lane) -> None:
        """Let go of everything a closing lane holds."""
        for chunk in lane.chunks:
            del self._order[chunk]
            self.used_bytes -= chunk.size
            chunk.leave_memory()
        lane.chunks.clear()
        lane.chunk_firsts.clear()
