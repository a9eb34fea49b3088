"""Sets of offsets, kept as spans: 16 bytes for a span, however many messages it covers.

Here: a set of spans, and what of a subscription is acknowledged. A bound is the caller's matter: it
asks how many spans there are, or would be.
Next door: who acknowledges (machine.py), how spans are saved (snapshot.py).
"""

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence

from kafscale.subscriptions.events import OffsetSpan


class OffsetSet:
    """A set of offsets. No two of its spans touch each other."""

    __slots__ = ("_firsts", "_nexts", "covered")

    def __init__(self) -> None:
        self._firsts: array[int] = array("q")
        self._nexts: array[int] = array("q")
        self.covered = 0  # offsets in all

    def __len__(self) -> int:
        """Count the spans."""
        return len(self._firsts)

    @property
    def end(self) -> int:
        """The offset after the last one; 0 if there is none."""
        return self._nexts[-1] if self._nexts else 0

    def __iter__(self) -> Iterator[OffsetSpan]:
        """Every span, the lowest first."""
        return zip(self._firsts, self._nexts, strict=True)

    def add(self, first: int, after: int) -> int:
        """Add offsets up to `after`; gives how many of them were missing."""
        if first >= after:
            return 0
        firsts, nexts = self._firsts, self._nexts
        left = bisect_left(nexts, first)  # the first span that touches, or lies behind
        right = bisect_right(firsts, after, lo=left)  # the first one that lies wholly behind
        if left == right:
            firsts.insert(left, first)
            nexts.insert(left, after)
            self.covered += after - first
            return after - first
        before = sum(nexts[at] - firsts[at] for at in range(left, right))
        firsts[left] = min(firsts[left], first)
        nexts[left] = max(nexts[right - 1], after)
        del firsts[left + 1 : right], nexts[left + 1 : right]
        added: int = nexts[left] - firsts[left] - before
        self.covered += added
        return added

    def needs_room(self, first: int, after: int) -> bool:
        """Whether adding these offsets would make one more span."""
        left = bisect_left(self._nexts, first)
        return left == len(self._firsts) or self._firsts[left] > after

    def count_in(self, first: int, after: int) -> int:
        """How many of these offsets are in the set."""
        at = bisect_right(self._nexts, first)
        count = 0
        while at < len(self._firsts) and self._firsts[at] < after:
            count += min(self._nexts[at], after) - max(self._firsts[at], first)
            at += 1
        return count

    def gaps(self, first: int, after: int) -> Iterator[OffsetSpan]:
        """Which of these offsets are not in the set, as spans."""
        at = bisect_right(self._nexts, first)
        while at < len(self._firsts) and self._firsts[at] < after:
            if self._firsts[at] > first:
                yield first, self._firsts[at]
            first = self._nexts[at]
            at += 1
        if first < after:
            yield first, after

    def take_through(self, offset: int) -> int:
        """Remove all spans that begin at or before `offset`; gives where the last one ends."""
        count = bisect_right(self._firsts, offset)
        if not count:
            return offset
        end: int = max(offset, self._nexts[count - 1])
        self.covered -= sum(self._nexts[at] - self._firsts[at] for at in range(count))
        del self._firsts[:count], self._nexts[:count]
        return end


class Acknowledged:
    """What is acknowledged: everything before an offset, and spans beyond it."""

    __slots__ = ("beyond", "to")

    def __init__(self, to: int) -> None:
        self.to = to
        self.beyond = OffsetSet()

    def add(self, first: int, after: int) -> int:
        """Acknowledge offsets; gives how many of them were not acknowledged before."""
        first = max(first, self.to)
        added = self.beyond.add(first, after)
        if added and first == self.to:
            self.to = self.beyond.take_through(self.to)
        return added

    def needs_room(self, first: int, after: int) -> bool:
        """Whether acknowledging these offsets would make one more span."""
        return first > self.to and self.beyond.needs_room(first, after)

    def count_in(self, first: int, after: int) -> int:
        """How many of these offsets are acknowledged."""
        below = max(0, min(after, self.to) - first)
        return below + self.beyond.count_in(max(first, self.to), after)

    def gaps(self, first: int, after: int) -> Iterator[OffsetSpan]:
        """Which of these offsets are not acknowledged."""
        return self.beyond.gaps(max(first, self.to), after)


def clear_bits(first: int, after: int, words: Sequence[int]) -> Iterator[OffsetSpan]:
    """The offsets from `first` to `after` whose bit is not set, as spans.

    Words beyond `after` are not looked at: their number is a client's.
    """
    begin = first
    for number in range((after - first + 63) // 64):
        word = words[number] & 0xFFFF_FFFF_FFFF_FFFF if number < len(words) else 0
        base = first + 64 * number
        while word:
            bit = (word & -word).bit_length() - 1
            if base + bit >= after:
                break
            if begin < base + bit:
                yield begin, base + bit
            begin = base + bit + 1
            word &= word - 1
    if begin < after:
        yield begin, after
