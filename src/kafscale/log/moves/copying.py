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
from kafscale.log.formats.transactions import TransactionMarks
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
    parts: Sequence[LaneBytes]
    # As of the manifest: key compaction may have removed the batches they are known by.
    producers: list[ProducerSnapshot]
    transactions: TransactionMarks | None = None


def sources(snapshot: survey.LogSnapshot, lanes: Collection[int]) -> dict[int, LaneSource]:
    """These lanes of a log, as far as they have any records."""
    parts: dict[int, list[LaneBytes]] = {}
    known = snapshot.manifest.lanes
    for piece in snapshot.pieces:
        for span in piece.spans:
            if span.lane in lanes:
                parts.setdefault(span.lane, []).append(LaneBytes(piece.key, span))
    return {
        lane: LaneSource(
            start,
            end,
            parts.get(lane, ()),
            known[lane].producers if lane in known else [],
            known[lane].transactions if lane in known else None,
        )
        for lane, (start, end) in snapshot.lanes().items()
        if lane in lanes
    }


class ObjectReader(Protocol):
    """Where batches are read from."""

    async def read(self, key: str, start: int = 0, length: int | None = None) -> memoryview:
        """Some bytes of an object."""
        ...


class StoreWithEnds:
    """A store, and in memory the newest objects of logs, in which many lanes have batches."""

    def __init__(self, store: ObjectStore, ends: Mapping[str, memoryview]) -> None:
        """Read `ends` from memory, other objects from `store`."""
        self._store = store
        self._ends = ends

    async def read(self, key: str, start: int = 0, length: int | None = None) -> memoryview:
        """Some bytes of an object, from memory or from the store."""
        body = self._ends.get(key)
        if body is None:
            return await self._store.read(key, start, length)
        return body[start : None if length is None else start + length]


async def read_ends(
    store: ObjectStore, logs: Iterable[tuple[survey.LogSnapshot, Collection[int]]]
) -> StoreWithEnds:
    """Read an object once for all wanted lanes in it, instead of once for each of them."""
    room, keys = _ENDS_BYTES, []
    for snapshot, wanted in logs:
        for piece in snapshot.tail[-_ENDS:]:
            lanes = sum(span.lane in wanted for span in piece.spans)
            if lanes >= _MANY_LANES and piece.size <= room:
                room -= piece.size
                keys.append(piece.key)
    bodies = await survey.await_limited(store.read(key) for key in keys)
    return StoreWithEnds(store, dict(zip(keys, bodies, strict=True)))


class CopiedLane(NamedTuple):
    """How much was copied into a lane, and the commit that the last of it may wait for."""

    size: int
    waiting: asyncio.Future[CommitOutcome] | None


async def copy_lane(
    store: ObjectReader,
    source: LaneSource,
    log: Log,
    number: int,
    most_bytes: int,
    budget: ByteBudget,
) -> CopiedLane:
    """Copy a lane up to where its source ends, or about `most_bytes` of it.

    Bytes that are in memory and not committed count against the budget. Commits give them back,
    and a commit waits for no copy. So a copy that holds bytes never blocks the others.
    """
    copy = _LaneCopy(source, log, number)
    for part in source.parts:
        if copy.size >= most_bytes:
            break
        if not copy.has_all(part.span.last):
            async for held, batches in _reads(store, part, budget):
                try:
                    copy.append(batches)
                finally:
                    _give_back(budget, held, copy.last)
                if copy.waiting_bytes >= _STEP:
                    await copy.wait()
    if copy.size < most_bytes:
        copy.fill_to_the_end()
    # Before the last commit: no roll-up may make it past without knowing the producers.
    log.lane(number).learn_producers(source.producers, source.transactions)
    return CopiedLane(copy.size, copy.waits_for)


class _LaneCopy:
    """The copy of one lane: what has been appended, and what waits for its commit."""

    def __init__(self, source: LaneSource, log: Log, number: int) -> None:
        self._source = source
        self._log = log
        self._number = number
        self._lane = log.lane(number)
        self._end = self._lane.end  # as this copy has left it
        self.size = 0
        self.waiting_bytes = 0
        self.waits_for: asyncio.Future[CommitOutcome] | None = None
        self.last: asyncio.Future[CommitOutcome] | None = None  # of the last `append`

    def has_all(self, last_offset: int) -> bool:
        """Whether everything up to an offset is in the lane, or has expired in its source."""
        return last_offset < max(self._lane.end, self._source.start)

    def append(self, batches: Iterable[tuple[BatchHeader, memoryview]]) -> None:
        """Append the batches that the lane does not have yet."""
        self.last = None
        for header, data in batches:
            if self._lane.end != self._end:
                # The log was opened again: what waited is gone, and must not be taken for a gap.
                raise NotTheOwner(
                    f"lane {self._number} of {self._log.folder} is at {self._lane.end}, "
                    f"not at {self._end}"
                )
            if not self.has_all(header.last_offset):
                if header.producer_id == SEALER:
                    header, data = seals.unsealed(header)
                self._adopt(header, data)
                self.waiting_bytes += len(data)
                self.size += len(data)

    def _adopt(self, header: BatchHeader, data: memoryview) -> None:
        self.last = self.waits_for = self._log.adopt(self._number, header, data)
        self._end = self._lane.end

    async def wait(self) -> None:
        """Wait until all that was appended is committed."""
        if self.waits_for is not None:
            await wait_for_commit(self.waits_for)
            self.waits_for, self.waiting_bytes = None, 0

    def fill_to_the_end(self) -> None:
        """Take the offsets at the source's end that have expired since, the seal's perhaps."""
        if self._lane.end == self._end < self._source.end:
            last = self._source.end - 1
            data = memoryview(empty_batch(last, last, self._log.clock.now_ms(), self._log.epoch))
            self._adopt(batch.read_header(data), data)


def is_in_manifest(log: Log, number: int) -> bool:
    """Whether the newest manifest knows the lane, and its producers as the lane knows them."""
    lane, mark = log.lane(number), log.committed.manifest.lanes.get(number)
    if mark is None:
        return not lane.high
    written = {known.producer_id: known.marks[-1] for known in mark.producers}
    return written == {
        known.producer_id: known.marks[-1] for known in lane.producers.snapshot(lane.high)
    }


def _give_back(
    budget: ByteBudget, held: int, waits_for: asyncio.Future[CommitOutcome] | None
) -> None:
    if waits_for is None:
        budget.give_back(held)
    else:
        waits_for.add_done_callback(lambda _: budget.give_back(held))


async def _reads(
    store: ObjectReader, part: LaneBytes, budget: ByteBudget
) -> AsyncIterator[tuple[int, list[tuple[BatchHeader, memoryview]]]]:
    """A lane's batches in one object, a few at a time, with the bytes to give back for them."""
    position, end = part.span.start, part.span.start + part.span.length
    step = _STEP
    while position < end:
        held = await budget.take(min(step, end - position))
        try:
            data = await store.read(part.key, position, min(step, end - position))
            batches, step = _whole(part.key, data)
            used = sum(header.size for header, _ in batches)
            if not used and (len(data) >= end - position or len(data) < batch.HEADER_SIZE):
                raise CorruptObject(f"{part.key}: ends within a batch")
        except BaseException:
            budget.give_back(held)
            raise
        yield held, batches  # the caller gives `held` back
        position += used


def _whole(key: str, data: memoryview) -> tuple[list[tuple[BatchHeader, memoryview]], int]:
    """Copies of the whole batches that `data` begins with, and how much to read for the next."""
    batches: list[tuple[BatchHeader, memoryview]] = []
    used = 0
    while len(data) - used >= batch.HEADER_SIZE:
        header = batch.read_header(data, used)
        if used + header.size > len(data):
            return batches, max(_STEP, header.size)
        copied = memoryview(bytearray(data[used : used + header.size]))
        if not batch.check_crc(copied):
            raise CorruptObject(f"{key}: the batch at {header.base_offset} is broken")
        batches.append((header, copied))
        used += header.size
    return batches, _STEP
