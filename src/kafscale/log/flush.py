"""Batches that wait for their commit, gathered until they become one segment.

Here: the waiting room of a log and when it is full enough. No timers, no store.
"""

import asyncio
from dataclasses import dataclass, field
from typing import NamedTuple

from kafscale.log.lane import Lane
from kafscale.log.segment import LaneBatches
from kafscale.model.errors import KafscaleError
from kafscale.records.batch import BatchHeader

# None when the flush was committed, else why it was not.
Outcome = KafscaleError | None


class Waiting(NamedTuple):
    """A batch, stamped with its offset, not yet committed."""

    lane: Lane
    header: BatchHeader
    first: int
    data: memoryview
    acknowledged: bool  # its producer has its answer already, or wants none


@dataclass(slots=True)
class Flush:
    """What will become one segment."""

    done: asyncio.Future[Outcome]
    since_s: float = 0.0
    size: int = 0
    records: int = 0
    batches: list[Waiting] = field(default_factory=list)

    def add(self, waiting: Waiting, now_s: float) -> None:
        """Let a further batch wait."""
        if not self.batches:
            self.since_s = now_s
        self.batches.append(waiting)
        self.size += len(waiting.data)
        self.records += waiting.header.record_count

    def finish(self, outcome: Outcome) -> None:
        """Tell all who wait."""
        if not self.done.done():
            self.done.set_result(outcome)

    def by_lane(self) -> list[tuple[Lane, list[Waiting]]]:
        """The batches in the order a segment wants them: by lane, then as they came."""
        lanes: dict[int, tuple[Lane, list[Waiting]]] = {}
        for waiting in self.batches:
            row = lanes.get(waiting.lane.number)
            if row is None:
                lanes[waiting.lane.number] = (waiting.lane, [waiting])
            else:
                row[1].append(waiting)
        return [lanes[number] for number in sorted(lanes)]

    def lane_batches(self) -> list[LaneBatches]:
        """The batches as segment.build takes them."""
        return [
            LaneBatches(
                lane.number,
                rows[0].first,
                rows[-1].first + rows[-1].header.last_offset_delta,
                sum(row.header.record_count for row in rows),
                min(row.header.base_timestamp_ms for row in rows),
                max(row.header.max_timestamp_ms for row in rows),
                [row.data for row in rows],
            )
            for lane, rows in self.by_lane()
        ]
