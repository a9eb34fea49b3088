"""The newest batches of all lanes, in memory: most readers want these.

Here: one budget for all physical partitions; the oldest batches go first.
Next door: older batches (reading.py).
"""

from bisect import bisect_right
from collections import deque
from typing import NamedTuple

from kafscale.model.buffers import Buffer


class TailBatch(NamedTuple):
    """A batch with its virtual offset stamped."""

    offset: int
    next: int
    batch: Buffer


class NewestBatches:
    """Batches by partition and lane. A partition is any object that is its own key."""

    def __init__(self, most_bytes: int) -> None:
        self._most_bytes = most_bytes
        self.held_bytes = 0
        self._kept: dict[tuple[object, int], deque[TailBatch]] = {}
        self._order: deque[tuple[object, int, int]] = deque()

    def put(self, partition: object, lane: int, offset: int, count: int, batch: Buffer) -> None:
        """Keep a batch that follows the lane's last one."""
        kept = self._kept.setdefault((partition, lane), deque())
        if kept and kept[-1].next != offset:
            self._drop(kept)
        kept.append(TailBatch(offset, offset + count, batch))
        self._order.append((partition, lane, offset))
        self.held_bytes += len(batch)
        while self.held_bytes > self._most_bytes and self._order:
            self._drop_oldest()

    def _drop_oldest(self) -> None:
        partition, lane, offset = self._order.popleft()
        kept = self._kept.get((partition, lane))
        if kept and kept[0].offset == offset:
            self.held_bytes -= len(kept.popleft().batch)
            if not kept:
                del self._kept[partition, lane]

    def _drop(self, kept: deque[TailBatch]) -> None:
        self.held_bytes -= sum(len(one.batch) for one in kept)
        kept.clear()

    def read(
        self, partition: object, lane: int, offset: int, most_bytes: int
    ) -> list[Buffer] | None:
        """Batches from an offset on, at least one; None if it is not in memory."""
        kept = self._kept.get((partition, lane))
        if not kept or not kept[0].offset <= offset < kept[-1].next:
            return None
        at = bisect_right(kept, offset, key=lambda one: one.offset) - 1
        found: list[Buffer] = []
        size = 0
        while at < len(kept) and (not found or size + len(kept[at].batch) <= most_bytes):
            found.append(kept[at].batch)
            size += len(kept[at].batch)
            at += 1
        return found

    def forget(self, partition: object) -> None:
        """Drop all batches of a partition."""
        for key in [key for key in self._kept if key[0] is partition]:
            self._drop(self._kept.pop(key))
        self._order = deque(one for one in self._order if one[0] is not partition)
