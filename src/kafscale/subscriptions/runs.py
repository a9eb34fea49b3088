"""Messages that are with a consumer, and messages that wait to be delivered, by their offsets.

Here: two ordered collections without rules of their own.
Next door: what happens to them (machine.py). Never here: the bytes, the log has them.
"""

import heapq
import math
from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterator
from typing import Generic, TypeVar

from kafscale.subscriptions.events import ConsumerId

NO_KEY = -1  # hash of a message whose key does not matter


class InFlight:
    """A run that one consumer has and has not acknowledged whole."""

    __slots__ = (
        "consumer",
        "entry",
        "first",
        "hash",
        "is_split",
        "left",
        "next",
        "redeliveries",
        "until_ms",
    )

    def __init__(
        self,
        first: int,
        after: int,
        entry: int,
        *,
        is_split: bool,
        consumer: ConsumerId,
        redeliveries: int,
        left: int,
        key_hash: int,
        until_ms: float = math.inf,
    ) -> None:
        self.first = first
        self.next = after
        self.until_ms = until_ms  # then it comes back by itself
        self.entry = entry  # where the entry begins in the log, of which this may be a part
        self.is_split = is_split
        self.consumer = consumer
        self.redeliveries = redeliveries
        self.left = left  # messages that are not acknowledged
        self.hash = key_hash


class Waiting:
    """Messages that were read and are to be delivered, for the first time or again."""

    __slots__ = ("first", "hash", "next", "redeliveries")

    def __init__(self, first: int, after: int, redeliveries: int, key_hash: int) -> None:
        self.first = first
        self.next = after
        self.redeliveries = redeliveries
        self.hash = key_hash


T = TypeVar("T", InFlight, Waiting)


class ByOffset(Generic[T]):
    """Runs that do not overlap, in the order of their offsets."""

    __slots__ = ("_by_first", "_firsts")

    def __init__(self) -> None:
        self._firsts: list[int] = []
        self._by_first: dict[int, T] = {}

    def __len__(self) -> int:
        """Count the runs."""
        return len(self._firsts)

    def __iter__(self) -> Iterator[T]:
        """Every run, the lowest first. None may be added or removed meanwhile."""
        return (self._by_first[first] for first in self._firsts)

    def add(self, run: T) -> None:
        """Add a run."""
        self._by_first[run.first] = run
        if not self._firsts or self._firsts[-1] < run.first:
            self._firsts.append(run.first)
        else:
            insort(self._firsts, run.first)

    def remove(self, run: T) -> None:
        """Remove a run."""
        del self._by_first[run.first]
        del self._firsts[bisect_left(self._firsts, run.first)]

    def at(self, offset: int) -> T | None:
        """The run that has this offset."""
        if (run := self._by_first.get(offset)) is not None:
            return run
        place = bisect_right(self._firsts, offset) - 1
        if place < 0:
            return None
        run = self._by_first[self._firsts[place]]
        return run if offset < run.next else None

    def following(self, offset: int) -> T | None:
        """The first run that begins at this offset or behind it."""
        place = bisect_left(self._firsts, offset)
        return self._by_first[self._firsts[place]] if place < len(self._firsts) else None

    def within(self, first: int, after: int) -> list[T]:
        """The runs that have any of these offsets, the lowest first."""
        place = max(0, bisect_right(self._firsts, first) - 1)
        found: list[T] = []
        while place < len(self._firsts) and self._firsts[place] < after:
            run = self._by_first[self._firsts[place]]
            if run.next > first:
                found.append(run)
            place += 1
        return found

    def lowest(self) -> T:
        """The run with the lowest offsets."""
        return self._by_first[self._firsts[0]]

    def clear(self) -> None:
        """Remove all runs."""
        self._firsts.clear()
        self._by_first.clear()


class Delayed:
    """Messages before their time, the earliest first."""

    __slots__ = ("_heap",)

    def __init__(self) -> None:
        self._heap: list[tuple[int, int, int, int]] = []

    def __len__(self) -> int:
        """Count the runs."""
        return len(self._heap)

    def add(self, at_ms: int, run: Waiting) -> None:
        """Keep a run until its time."""
        heapq.heappush(self._heap, (at_ms, run.first, run.next, run.hash))

    def due_ms(self) -> int | None:
        """When the next one is due; None if there is none."""
        return self._heap[0][0] if self._heap else None

    def take_due(self, now_ms: int) -> Iterator[Waiting]:
        """Remove the runs whose time has come."""
        while self._heap and self._heap[0][0] <= now_ms:
            _, first, after, key_hash = heapq.heappop(self._heap)
            yield Waiting(first, after, 0, key_hash)

    def clear(self) -> None:
        """Remove all runs."""
        self._heap.clear()
