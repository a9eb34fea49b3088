"""The newest batches of all lanes, which are still in memory.

Here: the recent batches of one lane, found by offset and by size without a look at each of them,
and the memory that all lanes of a broker share. A consumer of a thousand partitions asks a
thousand lanes, each for a few batches of as many flushes.
Next door: the lane (lane.py); memory for old data is apart (reader/cache.py).
"""

from array import array
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Sequence
from typing import Final

from kafscale.records import batch

# About what Python needs around the bytes. For small batches of many lanes that is most of it.
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
        self.firsts = firsts  # until RecentBatches takes them
        self.batches = batches
        self.size = CHUNK_BYTES + sum(map(len, batches)) + BATCH_BYTES * len(batches)

    def leave_memory(self) -> None:
        """Let go of the bytes; the object in the bucket still has them."""
        self.batches = []


class RecentBatches:
    """The newest batches of one lane, without a gap. The oldest leave first."""

    __slots__ = ("_batches", "_before", "_ends", "_firsts", "_gone", "chunks")

    def __init__(self) -> None:
        self.chunks: list[Chunk] = []
        self.clear()

    def clear(self) -> None:
        """Let go of all."""
        self.chunks.clear()
        self._batches: list[memoryview] = []
        self._firsts = array("q")  # the first offset of each
        self._ends = array("q")  # bytes ever added, up to the end of each
        self._before = 0  # the same, before the first of them
        self._gone = (
            0  # how many of the first have left; their places are removed later, many at once
        )

    def add(self, chunk: Chunk) -> None:
        """Add a flush."""
        self.chunks.append(chunk)
        end = self._ends[-1] if self._ends else self._before
        for data in chunk.batches:
            end += len(data)
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
            for column in (self._batches, self._firsts, self._ends):
                del column[: self._gone]
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
            begin += 1  # `offset` lies in a gap between two batches: the first has nothing of it
        before = ends[begin - 1] if begin else self._before
        until = bisect_right(ends, before + max_bytes, begin)
        if until == begin and at_least_one and begin < len(ends):
            until = begin + 1
        if until == begin:
            return [], 0
        return self._batches[begin:until], ends[until - 1] - before


class TailMemory:
    """A byte budget shared by all lanes of a broker; the oldest flush leaves first.

    Separate from the cache for old data: readers of history cannot push the tail out.
    """

    def __init__(self, budget_bytes: int) -> None:
        """Hold at most about `budget_bytes`."""
        self.budget_bytes = budget_bytes
        self.used_bytes = 0
        self._order: OrderedDict[Chunk, RecentBatches] = OrderedDict()

    def keep(self, recent: RecentBatches, chunk: Chunk) -> None:
        """Add a flush to a lane's batches, making room at the other end."""
        recent.add(chunk)
        self._order[chunk] = recent
        self.used_bytes += chunk.size
        while self.used_bytes > self.budget_bytes:
            oldest, holder = self._order.popitem(last=False)
            self.used_bytes -= oldest.size
            holder.drop_oldest()
            oldest.leave_memory()

    def release_before(self, recent: RecentBatches, offset: int) -> None:
        """Drop the batches of a lane below `offset`: the bucket has them with fewer records."""
        while recent.chunks and recent.chunks[0].first < offset:
            chunk = recent.chunks[0]
            del self._order[chunk]
            self.used_bytes -= chunk.size
            recent.drop_oldest()
            chunk.leave_memory()

    def release(self, recent: RecentBatches) -> None:
        """Drop all batches of a lane whose log is closed or read again."""
        for chunk in recent.chunks:
            del self._order[chunk]
            self.used_bytes -= chunk.size
            chunk.leave_memory()
        recent.clear()
