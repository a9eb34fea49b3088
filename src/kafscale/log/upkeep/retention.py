"""Retention: lanes begin later, and objects that lie wholly below their lanes' starts go.

Here: which records are too old or too many, and moving log starts up, for retention or on request.
Next door: when the objects are deleted (sweep.py), objects of which some lanes live on
(reclaim.py).
"""

from collections.abc import Sequence

import structlog

from kafscale.log.formats import manifest
from kafscale.log.formats.manifest import Manifest
from kafscale.log.formats.segment import Span
from kafscale.log.upkeep import rollup
from kafscale.log.writer.log import Log
from kafscale.log.writer.states import LogState

logger = structlog.get_logger()


async def retain(log: Log, now_ms: int, retention_ms: int, retention_bytes: int) -> bool:
    """Expire what is too old or too much; tells whether anything was. -1 means no limit."""
    starts = expired_starts(log, now_ms, retention_ms, retention_bytes)
    return bool(starts) and await raise_starts(log, starts)


def expired_starts(
    log: Log, now_ms: int, retention_ms: int, retention_bytes: int
) -> dict[int, int]:
    """For each lane that has something to expire: its new log start."""
    starts = {}
    for number, lane in log.lanes.items():
        spans = [span for span, _ in lane.spans]
        start = expired_start(spans, lane.start, now_ms, retention_ms, retention_bytes)
        if start > lane.start:
            starts[number] = start
    return starts


def expired_start(
    spans: Sequence[Span], start: int, now_ms: int, retention_ms: int, retention_bytes: int
) -> int:
    """Where a lane begins once what is too old or too much is gone; -1 means no limit.

    A span without a time (records of message format 0) is as old as the span that follows it.
    """
    total = sum(span.length for span in spans)
    for span in spans:
        too_old = retention_ms >= 0 and 0 <= span.max_timestamp_ms < now_ms - retention_ms
        too_much = retention_bytes >= 0 and total - span.length >= retention_bytes
        if too_old or too_much:
            start = span.last + 1
        elif span.max_timestamp_ms >= 0:
            break
        total -= span.length
    return start


async def raise_starts(log: Log, starts: dict[int, int]) -> bool:
    """Move lane starts up, for retention or on request; whole objects below them go.

    False if nothing was to be done or another writer's change came between: the caller tries
    again.
    """
    reaches_tail = any(
        span.first < starts.get(span.lane, 0)
        for flush in log.committed.tail
        for span in flush.entry.spans()
    )
    if reaches_tail:
        await rollup.roll_up(log)
    async with log.history:
        if log.state is not LogState.OPEN:
            return False

        def change(old: Manifest) -> Manifest:
            return manifest.raise_starts(old, starts)

        def is_in(newer: Manifest) -> bool:
            return all(
                lane in newer.lanes and newer.lanes[lane].start >= start
                for lane, start in starts.items()
            )

        if is_in(log.committed.manifest):
            return False
        if not await log.history.commit(change, is_in):
            return False
        # Lanes as text: a log line may be JSON, whose keys are text.
        moved = {str(lane): start for lane, start in starts.items()}
        logger.info("log_start_moved", folder=log.folder, starts=moved)
        return True
