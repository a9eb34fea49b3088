"""Copying a lane from one log to another, batch by batch; the batches keep their offsets.

Here: reading what the bucket has of one lane, and appending it to another.
Next door: the seal that ends the old lane (seals.py), which lanes move and when
(engine/moves/moves.py), ordinary appending (writer/log.py).
"""

import asyncio
from collections.abc import AsyncIterator, Collection, Iterable, Mapping, Sequence
from typing import Final, NamedTuple, Protocol

from kafscale.log.formats.producers import SEALER, ProducerSnapshot
from kafscale.log.formats.segment import Span
from kafscale.log.moves import seals
from kafscale.log.moves.byte_budget import ByteBudget
from kafscale.log.protocol import survey
from kafscale.log.writer.log import Log
from kafscale.log.writer.types import CommitOutcome, wait_for_commit
from kafscale.model.errors import CorruptObject, NotTheOwner
from kafscale.objects.store import ObjectStore
from kafscale.records import batch
from kafscale.records.batch import BatchHeader
from kafscale.records.control import empty_batch

_ENDS: Final = 16  # objects at the end of a log
_ENDS_BYTES: Final = 16 << 20  # of all logs
_MANY_LANES: Final = 4
_STEP: Final = 4 << 20  # bytes that are read, or wait for their commit, at a time


class LaneBytes(NamedTuple):
    """One lane's bytes in one object."""

    key: str
    span: Span


class LaneSource(NamedTuple):
    """A lane as the bucket has it."""

    start: int
    end: int
    stretches: Sequence[LaneBytes]
    producers: list[
        ProducerSnapshot
    ]  # as of the manifest: key compaction may have taken their batches


def sources(seen: survey.LogSnapshot, wanted: Collection[int]) -> dict[int, LaneSource]:
    """These lanes of a log, as far as there is anything of them."""
    stretches: dict[int, list[LaneBytes]] = {}
    producers = {lane: mark.producers for lane, mark in seen.manifest.lanes.items()}
    for piece in seen.pieces:
        for span in piece.spans:
            if span.lane in wanted:
                stretches.setdefault(span.lane, []).append(LaneBytes(piece.key, span))
    return {
        lane: LaneSource(start, end, stretches.get(lane, ()), producers.get(lane, []))
        for lane, (start, end) in seen.lanes().items()
        if lane in wanted
    }


class ObjectReader(Protocol):
    """Where batches are read from."""

    async def read(self, key: str, start: int = 0, length: int | None = None) -> memoryview:
        """Some bytes of an object."""
        ...


class StoreWithEnds:
    """A store, and the newest objects of logs, read as a whole: many lanes have something there."""

    def __init__(self, store: ObjectStore, ends: Mapping[str, memoryview]) -> None:
        """Have these at hand."""
        self._store = store
        self._ends = ends

    async def read(self, key: str, start: int = 0, length: int | None = None) -> memoryview:
        """From memory, or from the store."""
        body = self._ends.get(key)
        if body is None:
            return await self._store.read(key, start, length)
        return body[start : None if length is None else start + length]


async def read_ends(
    store: ObjectStore, logs: Iterable[tuple[survey.LogSnapshot, Collection[int]]]
) -> StoreWithEnds:
    """One read for all of the lanes that are wanted, instead of one for each of them."""
    room, keys = _ENDS_BYTES, []
    for seen, wanted in logs:
        for piece in seen.tail[-_ENDS:]:
            lanes = sum(span.lane in wanted for span in piece.spans)
            if lanes >= _MANY_LANES and piece.size <= room:
                room -= piece.size
                keys.append(piece.key)
    bodies = await survey.await_limited(store.read(key) for key in keys)
    return StoreWithEnds(store, dict(zip(keys, bodies, strict=True)))


class CopiedLane(NamedTuple):
    """What was brought of a lane, the last of it perhaps waiting for its commit yet."""

    size: int
    waiting: asyncio.Future[CommitOutcome] | None


async def copy_lane(
    store: ObjectReader,
    source: LaneSource,
    log: Log,
    number: int,
    most_bytes: int,
    allowance: ByteBudget,
) -> CopiedLane:
    """Bring a lane up to where its source is, or so many bytes nearer.

    What is in memory and not committed is taken from the allowance. It is given back by commits,
    which wait for nothing, so that nobody who holds some of it ever keeps others from going on.
    """
    copied = waiting = 0
    done: asyncio.Future[CommitOutcome] | None = None
    lane = log.lane(number)
    at = lane.end
    for stretch in source.stretches:
        if copied >= most_bytes:
            break
        if stretch.span.last < max(lane.end, source.start):
            continue
        async for held, batches in _reads(store, stretch, allowance):
            last: asyncio.Future[CommitOutcome] | None = None
            try:
                for header, data in batches:
                    if lane.end != at:
                        # Opened again meanwhile: what waited is gone, and must not be taken for
                        # a gap.
                        raise NotTheOwner(
                            f"lane {number} of {log.folder} is at {lane.end}, not at {at}"
                        )
                    if header.last_offset < max(lane.end, source.start):
                        continue
                    if header.producer_id == SEALER:
                        header, data = seals.unsealed(header)
                    last = log.adopt(number, header, data)
                    at = lane.end
                    waiting += len(data)
                    copied += len(data)
            finally:
                _give_back(allowance, held, last)
            done = last or done
            if done is not None and waiting >= _STEP:
                await wait_for_commit(done)
                done, waiting = None, 0
    if copied < most_bytes and lane.end == at < source.end:
        # What expired since, the seal perhaps: its offsets are taken all the same.
        last_offset = source.end - 1
        made = memoryview(empty_batch(last_offset, last_offset, log.clock.now_ms(), log.epoch))
        done = log.adopt(number, batch.read_header(made), made)
    # Before the last commit: no roll-up may take that for past without knowing the producers.
    log.learn_producers(number, source.producers)
    return CopiedLane(copied, done)


def is_in_manifest(log: Log, number: int) -> bool:
    """Whether the newest manifest knows the lane, and its producers as the lane knows them."""
    lane, mark = log.lane(number), log.committed.manifest.lanes.get(number)
    if mark is None:
        return not lane.high
    told = {row.producer_id: row.marks[-1] for row in mark.producers}
    return told == {row.producer_id: row.marks[-1] for row in lane.producers.snapshot(lane.high)}


def _give_back(
    allowance: ByteBudget, held: int, waits_for: asyncio.Future[CommitOutcome] | None
) -> None:
    if waits_for is None:
        allowance.give_back(held)
    else:
        waits_for.add_done_callback(lambda _: allowance.give_back(held))


async def _reads(
    store: ObjectReader, stretch: LaneBytes, allowance: ByteBudget
) -> AsyncIterator[tuple[int, list[tuple[BatchHeader, memoryview]]]]:
    """A stretch's batches, a few at a time, with the bytes to be given back for them."""
    at, end = stretch.span.start, stretch.span.start + stretch.span.length
    step = _STEP
    while at < end:
        held = await allowance.take(min(step, end - at))
        try:
            data = await store.read(stretch.key, at, min(step, end - at))
            batches, step = _whole(stretch.key, data)
            used = sum(header.size for header, _ in batches)
            if not used and (len(data) >= end - at or len(data) < batch.HEADER_SIZE):
                raise CorruptObject(f"{stretch.key}: ends within a batch")
        except BaseException:
            allowance.give_back(held)
            raise
        yield held, batches  # which is the reader's to give back from here on
        at += used


def _whole(key: str, data: memoryview) -> tuple[list[tuple[BatchHeader, memoryview]], int]:
    """Copies of the whole batches that some bytes begin with, and how much to read for the next."""
    found: list[tuple[BatchHeader, memoryview]] = []
    used = 0
    while len(data) - used >= batch.HEADER_SIZE:
        header = batch.read_header(data, used)
        if used + header.size > len(data):
            return found, max(_STEP, header.size)
        one = memoryview(bytearray(data[used : used + header.size]))
        if not batch.check_crc(one):
            raise CorruptObject(f"{key}: the batch at {header.base_offset} is broken")
        found.append((header, one))
        used += header.size
    return found, _STEP
