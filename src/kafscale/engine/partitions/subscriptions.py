"""Push delivery: a door subscribes to a partition and is woken when there is something to read.

Here: one reader's interest in one partition. It outlives logs that close and partitions that move.
Next door: reading itself (reads.py), one wait for many partitions (long_poll.py), the commits that
wake (log/writer/lane.py).
Never here: a door's own protocol. Never outside: a lane, doors hold subscriptions only.
"""

from collections.abc import Callable

import msgspec

from kafscale.engine.partitions.open_logs import OpenLogs
from kafscale.engine.partitions.reads import PartitionRead, ReadResult, Reads
from kafscale.engine.partitions.visibility import READ_UNCOMMITTED, visible_end
from kafscale.engine.topics.topic import Topic
from kafscale.log.writer.lane import Lane
from kafscale.log.writer.states import LogState
from kafscale.records import batch


class Subscription:
    """One reader's standing interest in a partition, from a position on.

    A door that pushes reads as long as `watch` says False, then waits to be woken:

        while not subscription.watch():
            result = await subscription.read(max_bytes)

    After `watch` has said True, `wake` is called once: when there is a record at the position, and
    when the partition has left its log (it moved, its topic was deleted, or this broker lost it).
    What happened is in the result of the next `read`: records, or an error such as NotTheOwner.
    """

    __slots__ = ("_lane", "_logs", "_position", "_reads", "_wake")

    def __init__(
        self, logs: OpenLogs, reads: Reads, position: PartitionRead, wake: Callable[[], None]
    ) -> None:
        """Begin at `position`. `wake` must not wait; it may close the subscription."""
        self._logs = logs
        self._reads = reads
        self._position = position
        self._wake = wake
        self._lane: Lane | None = None  # the lane that will wake us

    @property
    def position(self) -> PartitionRead:
        """What the next `read` asks for."""
        return self._position

    def seek(self, position: PartitionRead) -> None:
        """Go on from another position."""
        self._position = position

    def has_news(self) -> bool:
        """Whether `read` would give records or an error, or has to open the log first."""
        return self._quiet_lane() is None

    def watch(self) -> bool:
        """Have `wake` called at the next news; False, and no call, if there is news already."""
        lane = self._quiet_lane()
        if lane is not self._lane:
            self.close()
            if lane is not None:
                lane.watchers.add(self)
                self._lane = lane
        return lane is not None

    async def read(self, max_bytes: int) -> ReadResult:
        """Read at the position without waiting for new records; the position moves behind them."""
        position = self._position
        results = self._reads.fetch_now([position], max_bytes, 0)
        if results is None:
            results = await self._reads.fetch([position], max_bytes, 0, 0.0)
        (result,) = results
        if result.batches:
            following = max(header.next_offset for _, header in batch.walk(result.batches[-1]))
            self._position = msgspec.structs.replace(position, offset=following)
        return result

    def bounds(self) -> tuple[int, int]:
        """High watermark and log start of the partition while `watch` holds."""
        assert self._lane is not None
        return visible_end(self._lane, READ_UNCOMMITTED), self._lane.start

    def close(self) -> None:
        """Stop watching: `wake` is not called any more."""
        if self._lane is not None:
            self._lane.watchers.discard(self)
            self._lane = None

    def __call__(self, lane: Lane) -> None:
        """Pass news of the lane on, once."""
        self.close()
        self._wake()

    def _quiet_lane(self) -> Lane | None:
        """The partition's lane if its log is open and has nothing at the position; else None."""
        position = self._position
        if not isinstance(position.topic, Topic):
            return None
        opened = self._logs.resolved(position.topic).get(position.partition)
        if opened is None:
            return None
        log, lane = opened
        if (
            log.state is not LogState.OPEN
            or position.leader_epoch not in (-1, log.newest_epoch)
            or position.offset != visible_end(lane, position.isolation)
        ):
            return None
        return lane
