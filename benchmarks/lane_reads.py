"""How much is read of a bucket to read one partition of a log that a hundred share.

In this room: a broker in this process on files that are counted as they are read, its memory for
new data switched off, so that everything comes from the store. Once as the flushes left it, once
rolled up, once after `kafscale pipeline compact`.
Next door: the table and the bars (lanes.py).
"""

import asyncio
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import msgspec

from benchmarks import many, run
from kafscale.log.upkeep import rollup
from kafscale.log.writer.log import Log
from kafscale.objects.files import FileObjectStore
from kafscale.settings.sections import CacheSection, StorageSection
from kafscale.settings.values import Size
from kafscale.testing.in_process import FOR_TESTS, InProcessBroker
from tests.support import wire

LANE = 42
LANES = 100
CONFIG = msgspec.structs.replace(
    FOR_TESTS,
    cache=CacheSection(tail_cache_size=Size(0)),
    storage=StorageSection(flush_interval_ms=50),
)


class Counted(FileObjectStore):
    """Counts what is read of segments and their indexes; a manifest belongs to opening."""

    requests = 0
    size = 0

    async def read(self, key: str, start: int = 0, length: int | None = None) -> memoryview:
        data = await super().read(key, start, length)
        if key.endswith((".kfs", ".index")):
            self.requests += 1
            self.size += len(data)
        return data


class Read(NamedTuple):
    """One partition read from its beginning to its end."""

    when: str
    objects: int
    object_bytes: int  # of the log, all lanes
    lane_bytes: int
    read_bytes: int
    requests: int

    @property
    def ratio(self) -> float:
        return self.read_bytes / self.lane_bytes


def measure(value_bytes: int, flushes: int, *, with_spark: bool) -> list[Read]:
    """Every partition gets a batch of one record in every flush."""
    with TemporaryDirectory(prefix="lanes-") as folder:
        return asyncio.run(_measure(Path(folder), value_bytes, flushes, with_spark=with_spark))


async def _measure(folder: Path, value_bytes: int, flushes: int, *, with_spark: bool) -> list[Read]:
    store = Counted(folder)
    broker = await InProcessBroker(config=CONFIG, store=store).start()
    batch = wire.batch([b"x" * value_bytes], timestamp_ms=run.NOW_MS)
    try:
        await _beside(lambda: _write(broker.port, batch, flushes))
        found = [await _read(broker, store, "flushes")]
        await rollup.roll_up(_log(broker))
        await broker.restart()
        found.append(await _read(broker, store, "rolled up"))
        if with_spark:
            await broker.stop()
            await _beside(lambda: _compact(folder))
            await broker.start()
            found.append(await _read(broker, store, "compacted"))
        return found
    finally:
        await broker.stop()


async def _beside(work: Callable[[], None]) -> None:
    """In a thread: the broker has this one."""
    await asyncio.get_running_loop().run_in_executor(None, work)


def _write(port: int, batch: bytes, flushes: int) -> None:
    with many.Line(port) as line:
        many.create(line, "t", LANES, {"physical.partitions": "1"})
        request = many.produce_frame("t", range(LANES), batch)
        for _ in range(flushes):
            line.send(request)
            many.check_produced(line.answer())


async def _read(broker: InProcessBroker, store: Counted, when: str) -> Read:
    topic = broker.engine.topics.get("t")
    await broker.engine._parts.logs.open(topic, LANE)  # reads the tail as a whole: another figure
    log = _log(broker)
    spans = [span for span, _ in log.lane(LANE).spans]
    store.requests = store.size = 0
    await _beside(lambda: _fetch_all(broker.port, log.lane(LANE).high))
    entries = {entry.name: entry.size for _, entry in log.lane(LANE).spans}
    return Read(
        when,
        len(entries),
        sum(entries.values()),
        sum(span.length for span in spans),
        store.size,
        store.requests,
    )


def _fetch_all(port: int, end: int) -> None:
    at = 0
    with many.Line(port) as line:
        while at < end:
            line.send(many.fetch_frame("t", [(LANE, at)]))
            (row,) = many.fetched(line.answer())
            at = many.next_offset(row.records, at)


def _log(broker: InProcessBroker) -> Log:
    ((_, log),) = broker.engine._parts.logs.each()
    return log


def _compact(folder: Path) -> None:
    command = [sys.executable, "-m", "kafscale.cli.main", "pipeline", "compact"]
    command += ["--store", f"file://{folder}", "--topic", "t", "--tail-idle", "0"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"pipeline compact: {done.stderr[-2000:]}")
