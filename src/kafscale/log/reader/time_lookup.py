"""From a time to an offset.

Here: the first record at or after a time, and the record with the greatest time. Batches are
opened for it, one by one.
Next door: the batches (reader.py).
"""

from typing import Final

from kafscale.log.reader.reader import Reader, on_newest
from kafscale.log.writer.lane import Lane
from kafscale.log.writer.log import Log
from kafscale.records import record

_LARGEST_OPENED: Final = 128 << 20


async def find_time(
    reader: Reader, log: Log, lane: Lane, timestamp_ms: int
) -> tuple[int, int] | None:
    """First record at or after a time: (offset, its timestamp); None if there is none."""
    return await on_newest(log, lambda: _find_time(reader, log, lane, timestamp_ms))


async def _find_time(
    reader: Reader, log: Log, lane: Lane, timestamp_ms: int
) -> tuple[int, int] | None:
    for span, entry in list(lane.spans_at(lane.start)):
        if span.max_timestamp_ms < timestamp_ms:
            continue
        async for data, header in reader.batches(log, lane, entry, span):
            if header.max_timestamp_ms < timestamp_ms or header.last_offset < lane.start:
                continue
            for opened in record.open_batch(data, _LARGEST_OPENED):
                if opened.timestamp_ms >= timestamp_ms and opened.offset >= lane.start:
                    return opened.offset, opened.timestamp_ms
    return None


async def find_max_time(reader: Reader, log: Log, lane: Lane) -> tuple[int, int] | None:
    """The record with the greatest timestamp, the first of them if several share it."""
    return await on_newest(log, lambda: _find_max_time(reader, log, lane))


async def _find_max_time(reader: Reader, log: Log, lane: Lane) -> tuple[int, int] | None:
    best: tuple[int, int] | None = None  # (timestamp, -offset)
    spans = list(lane.spans_at(lane.start))
    for span, entry in sorted(spans, key=lambda part: -part[0].max_timestamp_ms):
        # The latest record of a span may lie below the log start. So the span with the greatest
        # time is not always the answer, but a span with a lower time than the best is never.
        if best is not None and span.max_timestamp_ms < best[0]:
            break
        async for data, header in reader.batches(log, lane, entry, span):
            if best is not None and header.max_timestamp_ms < best[0]:
                continue
            for opened in record.open_batch(data, _LARGEST_OPENED):
                if opened.offset >= lane.start:
                    candidate = (opened.timestamp_ms, -opened.offset)
                    best = candidate if best is None else max(best, candidate)
    return None if best is None else (-best[1], best[0])
