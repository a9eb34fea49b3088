"""What tests of logs need: a store that fails as told, a clock that stands, batches to append."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from kafscale.log.formats import keys
from kafscale.log.formats.manifest import Manifest
from kafscale.log.protocol.opening import Opened, open_log
from kafscale.log.reader.reader import Reader
from kafscale.log.writer.lane import Lane
from kafscale.log.writer.log import Log
from kafscale.log.writer.states import LogState
from kafscale.log.writer.tail_memory import TailMemory
from kafscale.log.writer.types import Appended, LogSettings, Observer
from kafscale.objects.store import ObjectStore
from kafscale.records import batch, record
from kafscale.records.batch import BatchHeader
from kafscale.records.compression import Codec
from kafscale.records.record import Record
from kafscale.tasks import Tasks
from kafscale.testing.clock import ManualClock, SeededDice
from kafscale.testing.faulty_store import FaultPlan, FaultyObjectStore
from kafscale.turns import Turns

FOLDER = "default/orders/0"
NOW_MS = 1_700_000_000_000
GRACE_S = 600.0

# Flushes at once, merges everything below 1 MiB.
SETTINGS = LogSettings(flush_interval_s=0, grace_s=GRACE_S)


def make_batch(
    *values: bytes,
    producer: int = -1,
    epoch: int = 0,
    sequence: int = 0,
    times: Sequence[int] = (),
    codec: Codec = Codec.NONE,
) -> memoryview:
    """What a producer sends: one batch, not yet stamped."""
    records = [
        Record(at, times[at] if times else NOW_MS, None, value) for at, value in enumerate(values)
    ]
    idempotent = producer >= 0
    data = record.build_batch(
        records,
        base_offset=0,
        codec=codec,
        producer_id=producer,
        producer_epoch=epoch if idempotent else -1,
        base_sequence=sequence if idempotent else -1,
    )
    return memoryview(bytearray(data))


class LogHarness:
    """One store, one clock, any number of logs on them."""

    def __init__(
        self,
        make_store: Callable[[Callable[[], int]], ObjectStore],
        seed: int = 0,
        memory_bytes: int = 1 << 30,
    ) -> None:
        """Let `make_store` build the honest store from a clock."""
        self.clock = ManualClock(NOW_MS)
        self.plan = FaultPlan(SeededDice(seed))
        self.inner = make_store(self.clock.now_ms)
        self.store = FaultyObjectStore(self.inner, self.plan)
        self.dice = SeededDice(seed)
        self.memory = TailMemory(memory_bytes)
        self.tasks = Tasks()
        self.logs: list[Log] = []

    def make_log(
        self,
        folder: str = FOLDER,
        *,
        epoch: int = 0,
        observer: Observer | None = None,
        store: ObjectStore | None = None,
        turns: Turns | None = None,
        **settings: Any,
    ) -> Log:
        """Name a log, not yet open."""
        log = Log(
            store or self.store,
            folder,
            epoch=epoch,
            author="test",
            settings=replace(SETTINGS, **settings),
            memory=self.memory,
            clock=self.clock,
            dice=self.dice,
            observer=observer,
            turns=turns,
        )
        self.logs.append(log)
        return log

    async def open(self, folder: str = FOLDER, **how: Any) -> Log:
        """Open a log as an owner would."""
        log = self.make_log(folder, **how)
        await log.open()
        return log

    def reader(self, **how: Any) -> Reader:
        """A reader on the same store."""
        how = {"cache_bytes": 64 << 20, "index_cache_bytes": 1 << 20, "read_ahead": 0} | how
        return Reader(self.store, tasks=self.tasks, turns=Turns(self.clock), **how)

    async def look(self, folder: str = FOLDER) -> Opened:
        """The log as the bucket tells it, past every fault."""
        return await open_log(self.inner, folder, self.clock, 1 << 20)

    async def names(self, folder: str = FOLDER) -> list[str]:
        """The objects of a log."""
        return [row.key.rpartition("/")[2] for row in await self.inner.find(folder)]

    async def segments(self, folder: str = FOLDER) -> list[str]:
        """The flushes of a log."""
        found = await self.names(folder)
        return [
            name
            for name in found
            if (parsed := keys.parse_segment(name))
            and parsed.generation is None
            and not parsed.is_index
        ]

    def puts(self) -> list[str]:
        """Names of the objects that were to be created, one per attempt."""
        return [key.rpartition("/")[2] for verb, key in self.store.calls if verb == "put_new"]

    async def aclose(self) -> None:
        """Let go of every log."""
        self.plan.clear()
        for log in self.logs:
            await log.abandon()
        await self.tasks.aclose()
        await self.inner.aclose()


def append(log: Log, data: memoryview, lane: int = 0, *, acknowledged: bool = False) -> Appended:
    """Append as the engine does."""
    return log.append(lane, batch.read_header(data), data, acknowledged=acknowledged)


async def committed(appended: Appended) -> int:
    """Wait for the commit; gives the offset, raises what the producer would be told."""
    if appended.committed is not None:
        outcome = await asyncio.wait_for(asyncio.shield(appended.committed), 20)
        if outcome is not None:
            raise outcome
    return appended.first


async def write(log: Log, *values: bytes, lane: int = 0, **how: Any) -> int:
    """Append one batch and wait for its commit."""
    return await committed(append(log, make_batch(*values, **how), lane))


def values_of(pieces: Sequence[memoryview]) -> list[tuple[int, bytes | None]]:
    """(offset, value) of every record in pieces of whole batches."""
    found = []
    for piece in pieces:
        for at, header in batch.walk(piece):
            one = piece[at : at + header.size]
            assert batch.check_crc(one)
            found += [(row.offset, row.value) for row in record.open_batch(one, 1 << 30)]
    return found


async def read_all(
    reader: Reader, log: Log, lane: Lane, from_offset: int | None = None, max_bytes: int = 1 << 20
) -> list[tuple[int, bytes | None]]:
    """Everything in a lane from an offset on, read from the store alone."""
    offset = lane.start if from_offset is None else from_offset
    found: list[tuple[int, bytes | None]] = []
    while offset < lane.high:
        pieces = await reader.read(log, lane, offset, max_bytes, at_least_one=True)
        rows = [row for row in values_of(pieces) if row[0] >= offset]
        assert rows, f"nothing at {offset}, high watermark {lane.high}"
        found += rows
        offset = rows[-1][0] + 1
    return found


def headers_in(opened: Opened, lane: int = 0) -> list[BatchHeader]:
    """Headers of all batches of a lane after the manifest's end."""
    return [
        header
        for found in opened.tail
        for span in found.content.spans
        if span.lane == lane
        for _, header in batch.walk(found.data, span.start, span.start + span.length)
    ]


async def everything(
    harness: LogHarness, lane: int = 0, folder: str = FOLDER
) -> list[tuple[int, Any]]:
    """(offset, value) of every record of a lane, past and tail, straight from the bucket."""
    opened = await harness.look(folder)
    found: list[tuple[int, Any]] = []
    entries = [*opened.manifest.segments, *(one.entry for one in opened.tail)]
    for entry in entries:
        data = await harness.inner.read(f"{folder}/{entry.name}")
        for span in entry.spans():
            if span.lane == lane:
                found += values_of([data[span.start : span.start + span.length]])
    return found


async def settle(turns: int = 20) -> None:
    """Let everything that can go on go on."""
    for _ in range(turns):
        await asyncio.sleep(0)


async def opened_again(log: Log) -> None:
    """Wait until a log that lost its tail has found the new one."""
    async with asyncio.timeout(20):
        while log.state is LogState.OPENING:
            await asyncio.sleep(0.001)


def dropped_names(manifest: Manifest) -> set[str]:
    """What a manifest has condemned."""
    return {row.name for row in manifest.dropped}
