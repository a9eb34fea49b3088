"""Which task reads what: pure planning.

Here: windows of offsets over partitions, and packing them into tasks of even size. Many small
objects go into one task, a large partition into several; every offset is in exactly one.
Next door: what a partition consists of (views.py), finding places to cut inside an object
(cuts.py), reading a split (rows/reading.py).
"""

import heapq
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Final, NamedTuple

from kafscale.spark.views import PartitionView, StoredRange

SPLIT_BYTES: Final = 64 << 20  # a task costs 40 ms of CPU, which is 10 MB worth of reading


class Slice(NamedTuple):
    """The offsets first <= o < until of one partition, and the bytes they lie in."""

    topic: str
    partition: int
    first: int
    until: int
    stored_ranges: tuple[StoredRange, ...]

    @property
    def offsets(self) -> int:
        """How many offsets; key compaction may have left fewer records."""
        return self.until - self.first

    @property
    def size(self) -> int:
        """Bytes, shared out evenly where a window begins or ends inside an object."""
        return sum(_share(stored, self.first, self.until) for stored in self.stored_ranges)

    def narrowed(self, first: int, until: int) -> "Slice":
        """A part of the window, with the ranges it needs."""
        return self._replace(
            first=first,
            until=until,
            stored_ranges=tuple(
                s for s in self.stored_ranges if s.first < until and s.last >= first
            ),
        )


Split = tuple[Slice, ...]


def window(view: PartitionView, first: int, until: int, since_ms: int | None = None) -> Slice:
    """A window of a partition; with a time, only objects that may hold records of it or later."""
    whole = Slice(view.topic, view.partition, first, until, view.stored_ranges).narrowed(
        first, until
    )
    if since_ms is None:
        return whole
    young = tuple(s for s in whole.stored_ranges if s.max_timestamp_ms >= since_ms)
    return whole._replace(stored_ranges=young)


def plan(
    slices: Sequence[Slice],
    split_bytes: int = SPLIT_BYTES,
    *,
    min_splits: int = 0,
    max_offsets: int = 0,
) -> list[Split]:
    """Pack slices, in order, into splits of about `split_bytes`.

    At least `min_splits`, unless there are fewer offsets; none with more than `max_offsets`.
    """
    wanted = [(piece, piece.size) for piece in slices if piece.offsets > 0 and piece.stored_ranges]
    total = sum(one_size for _, one_size in wanted)
    if min_splits:
        split_bytes = max(1, min(split_bytes, -(-total // min_splits)))
    packed: list[Split] = []
    current: list[Slice] = []
    size = offsets = 0
    for piece, whole in wanted:
        if not max_offsets and size + whole <= split_bytes:  # as nearly all of many small ones
            current.append(piece)
            size += whole
            continue
        for part in _cut_up(piece, max_offsets):
            full = size + part.size > split_bytes or (
                max_offsets and offsets + part.offsets > max_offsets
            )
            if current and full:
                packed.append(_joined(current))
                current, size, offsets = [], 0, 0
            current.append(part)
            size += part.size
            offsets += part.offsets
    if current:
        packed.append(_joined(current))
    return _at_least(packed, min_splits)


def _share(stored: StoredRange, first: int, until: int) -> int:
    inside = min(stored.last + 1, until) - max(stored.first, first)
    return max(1, stored.length * inside // (stored.last - stored.first + 1))


def _cut_up(piece: Slice, max_offsets: int) -> Iterator[Slice]:
    """Cut between objects, and inside where a limit on offsets asks for it."""
    # A window is cut where a range begins: what lies between two belongs to the former.
    begins = [piece.first, *(s.first for s in piece.stored_ranges[1:]), piece.until]
    for stored, (first, until) in zip(piece.stored_ranges, pairwise(begins), strict=True):
        step = max_offsets or until - first
        for low in range(first, until, step):
            yield piece._replace(first=low, until=min(low + step, until), stored_ranges=(stored,))


def _joined(parts: Sequence[Slice]) -> Split:
    """Neighbours of one partition become one slice again."""
    joined: list[tuple[Slice, list[StoredRange]]] = []
    for part in parts:
        if joined:
            last, stored_ranges = joined[-1]
            if last[:2] == part[:2] and last.until == part.first:
                stored_ranges += [s for s in part.stored_ranges if s not in stored_ranges[-1:]]
                joined[-1] = last._replace(until=part.until), stored_ranges
                continue
        joined.append((part, list(part.stored_ranges)))
    return tuple(
        piece._replace(stored_ranges=tuple(stored_ranges)) for piece, stored_ranges in joined
    )


def _at_least(splits: list[Split], count: int) -> list[Split]:
    """Halve the largest splits until there are enough; halves of one object are both read."""
    if len(splits) >= count:
        return splits
    ranks = {
        piece[:2]: rank for rank, piece in enumerate(piece for split in splits for piece in split)
    }
    done: list[Split] = []
    heap = [(-_size(split), split) for split in splits]
    heapq.heapify(heap)
    while heap and len(heap) + len(done) < count:
        _, split = heapq.heappop(heap)
        halves = _halved(split)
        if halves is None:
            done.append(split)
            continue
        for half in halves:
            heapq.heappush(heap, (-_size(half), half))
    rows = done + [split for _, split in heap]
    return sorted(rows, key=lambda split: (ranks[split[0][:2]], split[0].first))


def _size(split: Split) -> int:
    return sum(piece.size for piece in split)


def _halved(split: Split) -> tuple[Split, Split] | None:
    if len(split) > 1:
        middle = len(split) // 2
        return split[:middle], split[middle:]
    piece = split[0]
    if piece.offsets < 2:
        return None
    middle = piece.first + piece.offsets // 2
    low, high = piece.narrowed(piece.first, middle), piece.narrowed(middle, piece.until)
    if not low.stored_ranges or not high.stored_ranges:  # one half is a gap: nothing to gain
        return None
    return (low,), (high,)
