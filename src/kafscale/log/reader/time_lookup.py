"""From a time to an offset.

Here: the first record at or after a time, and the record with the greatest time. Batches are
opened for it, one by one. A batch may have a million records, so that they are opened in pieces.
Next door: the batches (reader.py).
"""

import asyncio
from collections.abc import AsyncIterator
from functools import partial
from typing import Final

from kafscale.log.reader.reader import Reader, on_newest
from kafscale.log.reader.view import view_of
from kafscale.log.writer.lane import Lane
from kafscale.log.writer.log import Log
from kafscale.records import record
from kafscale.records.batch import BatchHeader
from kafscale.records.record import Record

_LARGEST_OPENED: Final = 128 << 20
_QUICK_BYTES: Final = 64 << 10  # a packed batch of up to this size is unpacked by the event loop


async def _open(reader: Reader, data: memoryview, header: BatchHeader) -> AsyncIterator[Record]:
    """The records of a batch, one by one; others use the event loop in between."""
    unpack = partial(record.unpack, data, _LARGEST_OPENED)
    if header.codec and header.size > _QUICK_BYTES:
        opened = await asyncio.to_thread(unpack)
    else:
        opened = unpack()
    async for one in reader.turns.each(record.each_record(*opened)):
        yield one


async def find_time(
    reader: Reader, log: Log, lane: Lane, timestamp_ms: int
) -> tuple[int, int] | None:
    """First record at or after a time: (offset, its timestamp); None if there is none."""
    return await on_newest(log, lambda: _find_time(reader, log, lane, timestamp_ms))


async def _find_time(
    reader: Reader, log: Log, lane: Lane, timestamp_ms: int
) -> tuple[int, int] | None:
    view = view_of(log)
    for span, entry in lane.spans_at(lane.start):
        if span.max_timestamp_ms < timestamp_ms:
            continue
        async for data, header in reader.batches(view, lane, entry, span):
            if header.max_timestamp_ms < timestamp_ms or header.last_offset < lane.start:
                continue
            async for opened in _open(reader, data, header):
                if opened.timestamp_ms >= timestamp_ms and opened.offset >= lane.start:
                    return opened.offset, opened.timestamp_ms
    return None


async def find_max_time(reader: Reader, log: Log, lane: Lane) -> tuple[int, int] | None:
    """The record with the greatest timestamp, the first of them if several share it."""
    return await on_newest(log, lambda: _find_max_time(reader, log, lane))


async def _find_max_time(reader: Reader, log: Log, lane: Lane) -> tuple[int, int] | None:
    best: tuple[int, int] | None = None  # (timestamp, -offset)
    view = view_of(log)
    spans = lane.spans_at(lane.start)
    for span, entry in sorted(spans, key=lambda part: -part[0].max_timestamp_ms):
        # The latest record of a span may lie below the log start. So the span with the greatest
        # time is not always the answer, but a span with a lower time than the best is never.
        if best is not None and span.max_timestamp_ms < best[0]:
            break
        async for data, header in reader.batches(view, lane, entry, span):
            if best is not None and header.max_timestamp_ms < best[0]:
                continue
            async for opened in _open(reader, data, header):
                if opened.offset >= lane.start:
                    candidate = (opened.timestamp_ms, -opened.offset)
                    best = candidate if best is None else max(best, candidate)
    return None if best is None else (-best[1], best[0])
