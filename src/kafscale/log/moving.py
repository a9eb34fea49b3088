"""Moving a lane from one log to another, batch by batch, offsets and all.

Here: the seal that ends a lane, batches that keep their offsets, and copying what the bucket has of
one lane into another. A move takes one offset, the seal's; in the new place it holds nothing.
Next door: who moves what and when (engine/moves.py), ordinary appending (log.py).
"""

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import Final, NamedTuple

from kafscale.log.flush import Outcome, Waiting
from kafscale.log.lane import Lane
from kafscale.log.log import Log
from kafscale.log.producers import SEALER
from kafscale.log.segment import Span
from kafscale.log.settings import Appended
from kafscale.log.survey import Snapshot
from kafscale.model.errors import CorruptObject, NotTheOwner
from kafscale.objects.store import ObjectStore
from kafscale.records import batch
from kafscale.records.batch import BatchHeader
from kafscale.records.control import control_batch, empty_batch

_LONGEST_GAP: Final = 1 << 31  # of one batch
_STEP: Final = 4 << 20  # bytes that are read, or wait for their commit, at a time


def seal(log: Log, lane: int) -> Appended:
    """Let a lane take nothing more, whoever may write the log later: its topic moves away.

    The seal is a batch like any other. A writer that does not know of it yet loses the race for
    the position it stands at, opens the log again, and finds it.
    """
    made = memoryview(control_batch(log.clock.now_ms(), SEALER))
    return log.append(lane, batch.read_header(made), made, acknowledged=False)


def adopt(log: Log, number: int, header: BatchHeader, data: memoryview) -> asyncio.Future[Outcome]:
    """Let a batch that has its offset already wait for the next commit: its topic moves in."""
    log.require_taking()
    lane = log.lane(number)
    first = header.base_offset
    if first < lane.end:
        raise NotTheOwner(f"lane {number} of {log.folder} is at {lane.end} already, not at {first}")
    if not lane.end:
        lane.start = lane.high = lane.end = first
    while first > lane.end:
        _fill(log, lane, min(first, lane.end + _LONGEST_GAP) - 1, header)
    # What is written here later must not look older.
    log.epoch = max(log.epoch, header.leader_epoch)
    log.newest_epoch = max(log.newest_epoch, log.epoch)
    lane.end = header.next_offset
    if header.producer_id >= 0:
        lane.producers.remember(header, first, log.clock.now_ms(), lane.high)
    return log.gather(Waiting(lane, header, first, data, False, header.leader_epoch))


def _fill(log: Log, lane: Lane, last: int, following: BatchHeader) -> None:
    """Take the offsets that nothing is left of: a lane goes on where it ended."""
    epoch = following.leader_epoch
    made = memoryview(empty_batch(lane.end, last, following.base_timestamp_ms, epoch))
    log.gather(Waiting(lane, batch.read_header(made), lane.end, made, False, epoch))
    lane.end = last + 1


class Stretch(NamedTuple):
    """One lane's bytes in one object."""

    key: str
    span: Span


class Source(NamedTuple):
    """A lane as the bucket has it."""

    start: int
    end: int
    stretches: Sequence[Stretch]


def sources(seen: Snapshot) -> dict[int, Source]:
    """All lanes of a log."""
    stretches: dict[int, list[Stretch]] = {}
    for piece in seen.pieces:
        for span in piece.spans:
            stretches.setdefault(span.lane, []).append(Stretch(piece.key, span))
    return {
        lane: Source(start, end, stretches.get(lane, ()))
        for lane, (start, end) in seen.lanes().items()
    }


async def copy(store: ObjectStore, source: Source, log: Log, number: int, most_bytes: int) -> int:
    """Bring a lane up to where its source is, or so many bytes nearer; gives how many."""
    copied = waiting = 0
    done: asyncio.Future[Outcome] | None = None
    lane = log.lane(number)
    for stretch in source.stretches:
        if copied >= most_bytes:
            break
        if stretch.span.last < max(lane.end, source.start):
            continue
        async for header, data in _batches(store, stretch):
            if header.last_offset < max(lane.end, source.start):
                continue
            if header.producer_id == SEALER:
                header, data = _unsealed(header)
            done = adopt(log, number, header, data)
            copied += len(data)
            waiting += len(data)
            if waiting >= _STEP:
                await committed(done)
                done, waiting = None, 0
    if done is not None:
        await committed(done)
    return copied


def _unsealed(seal: BatchHeader) -> tuple[BatchHeader, memoryview]:
    """What stands for a seal in the lane that goes on: nothing, but at its offset."""
    made = memoryview(control_batch(seal.base_timestamp_ms))
    batch.stamp(made, seal.base_offset, seal.leader_epoch)
    return batch.read_header(made), made


async def _batches(
    store: ObjectStore, stretch: Stretch
) -> AsyncIterator[tuple[BatchHeader, memoryview]]:
    at, end = stretch.span.start, stretch.span.start + stretch.span.length
    step = _STEP
    while at < end:
        data = await store.read(stretch.key, at, min(step, end - at))
        used = 0
        while len(data) - used >= batch.HEADER_SIZE:
            header = batch.read_header(data, used)
            if used + header.size > len(data):
                step = max(_STEP, header.size)
                break
            one = memoryview(bytearray(data[used : used + header.size]))
            if not batch.check_crc(one):
                raise CorruptObject(f"{stretch.key}: the batch at {header.base_offset} is broken")
            yield header, one
            used += header.size
        if not used and (len(data) >= end - at or len(data) < batch.HEADER_SIZE):
            raise CorruptObject(f"{stretch.key}: ends within a batch")
        at += used


async def committed(done: asyncio.Future[Outcome]) -> None:
    """Wait for a commit; raises why there was none."""
    problem = await asyncio.shield(done)
    if problem is not None:
        raise problem
