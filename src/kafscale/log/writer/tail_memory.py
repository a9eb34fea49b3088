"""A lane's newest batches, which are still in memory, in one row.

Here: finding those of a range of offsets and of so many bytes without looking at each. A consumer
of a thousand partitions asks a thousand rows, each for a few batches of as many flushes.
Next door: the lane (lane.py), how long flushes stay (TailMemory there).
"""

from array import array
from bisect import bisect_right
from collections.abc import Sequence
from typing import Final

from kafscale.records import batch

# What Python needs around the bytes, about: small batches of many lanes are mostly that.
CHUNK_BYTES: Final = 512
BATCH_BYTES: Final = 384

_GONE: Final = memoryview(b"")


class Chunk:
    """One lane's batches of one committed flush, still in memory."""

    __slots__ = ("batches", "first", "firsts", "last", "size")

    def __init__(self, first: int, last: int, firsts: Sequence[int], batches: list[memoryview]):
        """Hold `batches`, whose first offsets are `firsts`."""
        self.first = first
        self.last = last
        self.firsts = firsts  # until it is in a row, which keeps them
        self.batches = batches
        self.size = CHUNK_BYTES + sum(map(len, batches)) + BATCH_BYTES * len(batches)

    def leave_memory(self) -> None:
        """Let go of the bytes; the object in the bucket still has them."""
        self.batches = []


class Recent:
    """The batches of one lane, without a gap: the oldest leave first."""

    __slots__ = ("_batches", "_before", "_ends", "_firsts", "_gone", "chunks")

    def __init__(self) -> None:
        """Begin with none."""
        self.chunks: list[Chunk] = []
        self.clear()

    def clear(self) -> None:
        """Let go of all."""
        self.chunks.clear()
        self._batches: list[memoryview] = []
        self._firsts = array("q")  # the first offset of each
        self._ends = array("q")  # bytes ever added, up to the end of each
        self._before = 0  # the same, before the first of them
        self._gone = 0  # so many of them have left; the rest does not move up each time

    def add(self, chunk: Chunk) -> None:
        """Add a flush."""
        self.chunks.append(chunk)
        end = self._ends[-1] if self._ends else self._before
        for one in chunk.batches:
            end += len(one)
            self._ends.append(end)
        self._firsts.extend(chunk.firsts)
        chunk.firsts = ()
        self._batches += chunk.batches

    def drop_oldest(self) -> None:
        """Let the oldest flush go."""
        count = len(self.chunks[0].batches)
        del self.chunks[0]
        self._batches[self._gone : self._gone + count] = [_GONE] * count
        self._gone += count
        if self._gone and 2 * self._gone >= len(self._batches):
            self._before = self._ends[self._gone - 1]
            for row in (self._batches, self._firsts, self._ends):
                del row[: self._gone]
            self._gone = 0

    def read(
        self, offset: int, max_bytes: int, *, at_least_one: bool
    ) -> tuple[list[memoryview], int] | None:
        """Whole batches from the one with `offset` on, and their bytes; None if it is not here."""
        firsts, ends = self._firsts, self._ends
        begin = bisect_right(firsts, offset) - 1
        if begin < self._gone:
            return None
        if firsts[begin] != offset and batch.read_header(self._batches[begin]).last_offset < offset:
            begin += 1  # between two batches that are no neighbours: nothing of the first is wanted
        before = ends[begin - 1] if begin else self._before
        until = bisect_right(ends, before + max_bytes, begin)
        if until == begin and at_least_one and begin < len(ends):
            until = begin + 1
        if until == begin:
            return [], 0
        return self._batches[begin:until], ends[until - 1] - before
