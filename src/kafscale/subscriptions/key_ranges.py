"""Which consumer gets the messages of a key: 65,536 hashes, divided among the consumers.

Here: the division. Without wishes, a new consumer gets half of the largest range there is, and the
range of one that goes is added to its neighbour: only those hashes change hands. With wishes each
consumer names its ranges; hashes that no consumer has wished for wait for one that does.
Next door: a key whose messages are still with another consumer (machine.py).
"""

from bisect import bisect_right
from collections.abc import Sequence
from itertools import pairwise
from typing import Final

from kafscale.model.errors import ConsumerBusy, KeyRangeTaken
from kafscale.subscriptions.events import ConsumerId, OffsetSpan

HASHES: Final = 65_536
MOST_RANGES: Final = 1_000  # that one consumer may wish for

_NO_CONSUMER: Final = -1


class KeyRanges:
    """A division of the hashes: where each range begins, and the consumer it belongs to."""

    __slots__ = ("_begins", "_owners", "is_wished")

    def __init__(self) -> None:
        self.is_wished = False
        self._begins: list[int] = [0]
        self._owners: list[ConsumerId] = [_NO_CONSUMER]

    @property
    def is_empty(self) -> bool:
        """Whether no consumer has a range."""
        return all(owner == _NO_CONSUMER for owner in self._owners)

    def owner_of(self, key_hash: int) -> ConsumerId | None:
        """The consumer that gets messages with this hash."""
        owner = self._owners[bisect_right(self._begins, key_hash) - 1]
        return None if owner == _NO_CONSUMER else owner

    def add(self, consumer: ConsumerId, wished: Sequence[OffsetSpan]) -> None:
        """Give a consumer its share. Raises KeyRangeTaken, ConsumerBusy."""
        if not self.is_empty and self.is_wished != bool(wished):
            raise ConsumerBusy("the other consumers divide the keys in another way")
        if wished:
            self._add_wished(consumer, wished)
        else:
            self._split(consumer)
        self.is_wished = bool(wished)

    def _split(self, consumer: ConsumerId) -> None:
        if self.is_empty:
            self._owners[0] = consumer
            return
        ends = [*self._begins[1:], HASHES]
        sizes = [end - begin for begin, end in zip(self._begins, ends, strict=True)]
        largest = sizes.index(max(sizes))
        middle = self._begins[largest] + (sizes[largest] + 1) // 2
        self._begins.insert(largest + 1, middle)
        self._owners.insert(largest + 1, consumer)

    def _add_wished(self, consumer: ConsumerId, wished: Sequence[OffsetSpan]) -> None:
        if len(wished) > MOST_RANGES:
            raise KeyRangeTaken(f"a consumer may wish for {MOST_RANGES} ranges of keys")
        for first, after in wished:
            if not 0 <= first < after <= HASHES:
                raise KeyRangeTaken(f"{first} to {after - 1} is no range of hashes")
        ordered = sorted(wished)
        ends = [*self._begins[1:], HASHES]
        taken = [
            (begin, end)
            for begin, end, owner in zip(self._begins, ends, self._owners, strict=True)
            if owner != _NO_CONSUMER
        ]
        pieces = sorted([*ordered, *taken])
        for (_, after), (first, _) in pairwise(pieces):
            if first < after:
                raise KeyRangeTaken(f"hash {first} belongs to another consumer")
        for first, after in ordered:
            self._cut(first)
            self._cut(after)
            at = bisect_right(self._begins, first) - 1
            self._owners[at] = consumer

    def _cut(self, at_hash: int) -> None:
        """Have a range begin at this hash."""
        at = bisect_right(self._begins, at_hash) - 1
        if at_hash < HASHES and self._begins[at] != at_hash:
            self._begins.insert(at + 1, at_hash)
            self._owners.insert(at + 1, self._owners[at])

    def remove(self, consumer: ConsumerId) -> None:
        """Take a consumer's share away."""
        owners = [_NO_CONSUMER if owner == consumer else owner for owner in self._owners]
        if not self.is_wished:  # the neighbour before it gets its range, or else the one behind
            for at, owner in enumerate(owners):
                if owner == _NO_CONSUMER and at:
                    owners[at] = owners[at - 1]
            for at in range(len(owners) - 2, -1, -1):
                if owners[at] == _NO_CONSUMER:
                    owners[at] = owners[at + 1]
        begins, kept = [0], [owners[0]]
        for begin, owner in zip(self._begins[1:], owners[1:], strict=True):
            if owner != kept[-1]:
                begins.append(begin)
                kept.append(owner)
        self._begins, self._owners = begins, kept
