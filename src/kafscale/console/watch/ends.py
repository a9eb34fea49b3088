"""How far behind in seconds: since when the records that a group has not read have been there.

Here: for each partition that a group reads, when its end passed which offset. So nothing is
fetched to tell the age of a record. Beyond what was seen the answer is "at least".
"""

from array import array
from bisect import bisect_right
from typing import Final, NamedTuple

_POINTS: Final = 1500  # a change every 5 s for two hours
MOST_PARTITIONS: Final = 5000


class LagAge(NamedTuple):
    """How long the oldest record that was not read has been there."""

    seconds: float
    is_at_least: bool


class _PartitionEnds:
    """Moments at which the end was seen to have moved, and where it was then."""

    __slots__ = ("ends", "times")

    def __init__(self) -> None:
        self.times = array("d")
        self.ends = array("q")

    def put(self, now_s: float, end: int) -> None:
        if self.ends and self.ends[-1] == end:
            return
        if self.ends and self.ends[-1] > end:  # deleted and created again
            del self.times[:], self.ends[:]
        self.times.append(now_s)
        self.ends.append(end)
        if len(self.ends) > _POINTS:  # thinned: every second point of the older half
            half = _POINTS // 2
            self.times[:half] = self.times[:half:2]
            self.ends[:half] = self.ends[:half:2]


class EndHistory:
    """The ends of many partitions over time."""

    def __init__(self) -> None:
        self._partitions: dict[tuple[str, int], _PartitionEnds] = {}

    def put(self, now_s: float, topic: str, partition: int, end: int) -> None:
        """Note where a partition ends now."""
        found = self._partitions.get((topic, partition))
        if found is None:
            if len(self._partitions) >= MOST_PARTITIONS:
                return
            found = self._partitions[topic, partition] = _PartitionEnds()
        found.put(now_s, end)

    def newest(self, topic: str, partition: int) -> int | None:
        """Where a partition ended when it was looked at last."""
        found = self._partitions.get((topic, partition))
        return found.ends[-1] if found is not None and found.ends else None

    def forget_others(self, kept: set[tuple[str, int]]) -> None:
        """Forget partitions that no group reads any more."""
        for key in self._partitions.keys() - kept:
            del self._partitions[key]

    def age(self, now_s: float, topic: str, partition: int, committed: int) -> LagAge | None:
        """Since when there is a record at the committed offset; None if it is not known."""
        found = self._partitions.get((topic, partition))
        if found is None or not found.ends:
            return None
        if committed >= found.ends[-1]:
            return LagAge(0.0, False)
        at = bisect_right(found.ends, committed)  # the first end behind the offset
        return LagAge(max(now_s - found.times[at], 0.0), at == 0)
