"""How long a log with a long history takes to open: the cost must not grow with the history.

In this room: a log on files with 100,000 rolled-up flushes and 1,000 after its newest manifest,
written by five idempotent producers, opened as a broker opens it after a kill.
"""

import asyncio
import statistics
import tempfile
import time
from pathlib import Path

from benchmarks.workloads import Figure
from kafscale.log.upkeep import rollup
from kafscale.log.writer.log import Log
from kafscale.log.writer.tail_memory import TailMemory
from kafscale.log.writer.types import LogSettings
from kafscale.objects.files import FileObjectStore
from kafscale.records import batch
from kafscale.records.record import Record, build_batch
from kafscale.system import SystemClock, SystemDice

FLUSHES, TAIL, PRODUCERS, RUNS = 100_000, 1_000, 5, 5


def figure(flushes: int = FLUSHES) -> Figure:
    """Seconds to open, the median of several."""
    with tempfile.TemporaryDirectory(prefix="kafscale-opening-") as folder:
        seconds = asyncio.run(_measure(Path(folder), flushes))
    name = f"open a log of {flushes:,} flushes, {TAIL:,} after its manifest"
    return Figure(name, "s", statistics.median(seconds))


async def _measure(folder: Path, flushes: int) -> list[float]:
    store = FileObjectStore(folder)
    writer = await _opened(store)
    for number in range(flushes):
        await _write(writer, number)
        if len(writer.committed.tail) >= writer.settings.rollup_objects:
            await rollup.roll_up(writer)
    await rollup.roll_up(writer)
    for number in range(flushes, flushes + TAIL):
        await _write(writer, number)
    await writer.abandon()
    seconds = []
    for _ in range(RUNS):
        began = time.perf_counter()
        log = await _opened(store)
        seconds.append(time.perf_counter() - began)
        lane = log.lane(0)
        if (lane.high, len(lane.producers), len(log.committed.tail)) != (
            flushes + TAIL,
            PRODUCERS,
            TAIL,
        ):
            raise RuntimeError("the log was not opened as it was written")
        await log.abandon()
    await store.aclose()
    return seconds


async def _opened(store: FileObjectStore) -> Log:
    log = Log(
        store,
        "default/history/0",
        epoch=1,
        author="benchmark",
        settings=LogSettings(flush_interval_s=0),
        memory=TailMemory(256 << 20),
        clock=SystemClock(),
        dice=SystemDice(),
    )
    await log.open()
    return log


async def _write(log: Log, number: int) -> None:
    producer, sequence = number % PRODUCERS, number // PRODUCERS
    record = Record(0, number, b"key", b"value", ())
    data = memoryview(
        bytearray(
            build_batch(
                [record],
                base_offset=0,
                producer_id=producer,
                producer_epoch=0,
                base_sequence=sequence,
            )
        )
    )
    appended = log.append(0, batch.read_header(data), data, acknowledged=False)
    if appended.committed is not None and (problem := await appended.committed) is not None:
        raise problem
