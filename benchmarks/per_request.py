"""What one request costs the broker, without a network: to compare two versions of the code.

    python -m benchmarks.per_request [--only PATTERN] [--store memory|files]
                                     [--against FOLDER]  (another checkout; the two take turns)

In this room: a broker inside this process and one connection whose transport only counts answers.
Requests are prepared frames. Each workload is repeated in short slices, and the slice that took
least counts: CPU time of this process, which other programs disturb and do not add to. Calls of
functions are counted in a slice of their own: they do not depend on the machine at all.
Next door: the whole broker, beside Kafka (compare.py).
"""

import argparse
import asyncio
import gc
import json
import math
import os
import platform
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from fnmatch import fnmatch
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import uvloop
from msgspec.structs import replace

from benchmarks import groups, many, run
from kafscale.gateways.connection import Connection
from kafscale.objects.files import FileObjectStore
from kafscale.objects.memory import MemoryObjectStore
from kafscale.testing.in_process import FOR_TESTS, InProcessBroker
from kafscale.wire.kafka.messages.create_topics import CreatableTopic, CreateTopicsRequest
from kafscale.wire.kafka.messages.heartbeat import HeartbeatRequest
from kafscale.wire.kafka.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from tests.support import wire

ROOT = Path(__file__).resolve().parents[1]
TOPIC = "t"
PARTITIONS = 50
IN_FLIGHT = 8
_LARGE = 256 << 10
_TAIL_BYTES = 16 << 20  # what lies before it is read from the store
CALLS = ", calls"


class Wire:
    """A transport without a network: it counts the answers and keeps the last one."""

    def __init__(self) -> None:
        self.answers = 0
        self.last = b""
        self.keeps = False
        self._reading = asyncio.Event()
        self._reading.set()
        self._wanted = 0
        self._there: asyncio.Future[None] | None = None

    def writelines(self, buffers: Sequence[bytes]) -> None:
        if self.keeps:
            self.last = b"".join(buffers)
        # Small answers of several requests may come together: each begins a buffer of its own.
        at = 0
        while at < len(buffers):
            left = int.from_bytes(bytes(buffers[at][:4]), "big") + 4
            while left > 0:
                left -= len(buffers[at])
                at += 1
            self.answers += 1
        if self._there is not None and self.answers >= self._wanted:
            self._there.set_result(None)
            self._there = None

    async def wait_for(self, answers: int) -> None:
        if self.answers < answers:
            self._wanted = answers
            self._there = asyncio.get_running_loop().create_future()
            await self._there

    def get_extra_info(self, _: str) -> tuple[str, int]:
        return "127.0.0.1", 0

    def is_closing(self) -> bool:
        return False

    def get_write_buffer_size(self) -> int:
        return 0

    def set_write_buffer_limits(self, high: int) -> None: ...
    def close(self) -> None: ...

    def pause_reading(self) -> None:
        self._reading.clear()

    def resume_reading(self) -> None:
        self._reading.set()

    async def until_read_from(self) -> None:
        if not self._reading.is_set():
            await self._reading.wait()

    def abort(self) -> None:
        raise RuntimeError("the broker ended the connection")


class Line:
    """One connection to the broker of this process."""

    def __init__(self, broker: InProcessBroker) -> None:
        self.wire = Wire()
        self._connection = _connection(broker)
        self._connection.connection_made(self.wire)  # type: ignore[arg-type]

    async def send(self, frame: bytes) -> None:
        """Give the connection a frame as a socket does: as much as it has room for."""
        at, connection = 0, self._connection
        while at < len(frame):
            await self.wire.until_read_from()
            room = connection.get_buffer(-1)
            size = min(len(room), len(frame) - at)
            room[:size] = frame[at : at + size]
            connection.buffer_updated(size)
            at += size

    async def ask(self, frame: bytes) -> bytes:
        """One answer, without its length."""
        self.wire.keeps, wanted = True, self.wire.answers + 1
        await self.send(frame)
        await self.wire.wait_for(wanted)
        answer, self.wire.last, self.wire.keeps = self.wire.last, b"", False
        return answer[4:]

    def close(self) -> None:
        """Leave, as a client does."""
        self._connection.connection_lost(None)

    async def pump(self, frames: Sequence[bytes], in_flight: int) -> None:
        """Send all frames, so many before the first of them is answered."""
        for at in range(0, len(frames), in_flight):
            some = frames[at : at + in_flight]
            wanted = self.wire.answers + len(some)
            for frame in some:
                await self.send(frame)
            await self.wire.wait_for(wanted)


def _connection(broker: InProcessBroker) -> Connection:
    doors = broker.parts.doors
    (listener,) = doors.listeners
    return Connection(doors.connections, listener.name, listener._make_session)


class Workload(NamedTuple):
    name: str
    frames: Callable[[], Sequence[bytes]]  # of one slice
    error_of: Callable[[bytes], int]  # in an answer without its length
    in_flight: int = 1
    slices: int = 0  # 0: as many as asked for


def _produced(answer: bytes) -> int:
    return wire.produce_error(answer[4:])[0]


def _fetched(answer: bytes) -> int:
    error, _, records = wire.fetched(answer[4:])
    return error or (0 if len(records) else -1)


def _beaten(answer: bytes) -> int:
    return int(struct.unpack_from(">h", answer, 9)[0])  # after correlation id, tags, throttle


def _committed(answer: bytes) -> int:
    return int(struct.unpack_from(">h", answer, len(answer) - 5)[0])


class Bench:
    """A broker with a topic and a group, and what is asked of it."""

    def __init__(self, line: Line) -> None:
        self._line = line
        self._offset = 0
        self._cold = iter(range(1 << 30))

    async def begin(self) -> None:
        topic = CreatableTopic(TOPIC, 2 * PARTITIONS, 1)
        await self._line.ask(many.framed(CreateTopicsRequest([topic], 60_000), many.CREATE_VERSION))
        small, large = _records(1, 1024), _records(_LARGE // 1024, 1024)
        self._small = wire.produce(TOPIC, 0, small, -1, 1)
        self._large = [wire.produce(TOPIC, p, large, -1, 1) for p in range(PARTITIONS)]
        self._mixed = wire.produce(TOPIC, 0, _mixed(_LARGE), -1, 1)
        self._many = many.produce_frame(TOPIC, range(PARTITIONS), _records(3, 100))
        self._tail = wire.fetch(TOPIC, 8, 0, 1)
        ends = [(p, 0) for p in range(PARTITIONS, 2 * PARTITIONS)]
        self._idle = many.fetch_frame(TOPIC, ends, wait_ms=0)
        # For the cold reads: far more than the tail memory keeps.
        for _ in range(4 * _TAIL_BYTES // _LARGE):
            await self._produce(self._large[7])
        for _ in range(8):
            await self._produce(self._large[8])
        await self._join()

    async def _produce(self, frame: bytes) -> None:
        if error := _produced(await self._line.ask(frame)):
            raise RuntimeError(f"produce answered error {error}")

    async def _join(self) -> None:
        crowd = groups._Crowd(None, groups.QUICK)  # type: ignore[arg-type]
        self._member = member = groups.Member()
        member.send = self._line.ask  # type: ignore[method-assign]
        await crowd._join(member, 0)

    def workloads(self) -> Iterator[Workload]:
        """Slices are short, so that some of them are not disturbed by other programs."""
        yield Workload("fetch 1 MiB, just written", lambda: [self._tail] * 24, _fetched)
        yield Workload("ApiVersions", lambda: [wire.frame(18, 0, 1, b"")] * 48, lambda _: 0)
        yield Workload("produce 1 KiB, one in flight", lambda: [self._small] * 24, _produced)
        large, mixed = self._large, self._mixed
        yield Workload("produce 256 KiB, 1 partition", lambda: large[:1] * 8, _produced, IN_FLIGHT)
        yield Workload("produce 256 KiB, 6 partitions", lambda: large[:6] * 2, _produced, 12)
        yield Workload("produce 256 KiB of mixed 100 B", lambda: [mixed] * 8, _produced, IN_FLIGHT)
        yield Workload("produce 50 partitions at once", lambda: [self._many], _produced)
        yield Workload("fetch 1 MiB, from the store", self._cold_fetches, _fetched, slices=14)
        idle = [self._idle] * 12
        yield Workload("fetch of nothing new, 50 partitions", lambda: idle, lambda _: 0)
        beat = HeartbeatRequest("g-0", self._member.generation, self._member.member_id)
        yield Workload("heartbeat", lambda: [groups.prepared(beat, 4)] * 48, _beaten)
        yield Workload("offset commit, one in flight", lambda: self._commits(24), _committed)
        commits = partial(self._commits, 24)
        yield Workload("offset commit, 8 in flight", commits, _committed, IN_FLIGHT)

    def _cold_fetches(self) -> list[bytes]:
        """Another stretch of old batches each time: none was read before."""
        per_batch = _LARGE // 1024
        return [wire.fetch(TOPIC, 7, next(self._cold) * 4 * per_batch, 1) for _ in range(3)]

    def _commits(self, count: int) -> list[bytes]:
        member, frames = self._member, []
        for _ in range(count):
            self._offset += 1
            row = OffsetCommitRequestPartition(0, self._offset, committed_metadata="")
            topics = [OffsetCommitRequestTopic(TOPIC, [row])]
            request = OffsetCommitRequest("g-0", member.generation, member.member_id, topics=topics)
            frames.append(groups.prepared(request, 8))
        return frames


def _records(count: int, value_bytes: int) -> bytes:
    return wire.batch([bytes(value_bytes)] * count, run.NOW_MS)


def _mixed(size: int) -> bytes:
    sizes = [60 + 37 * at % 81 for at in range(size // 100)]
    return wire.batch([bytes(one) for one in sizes], run.NOW_MS)


async def _measure(options: argparse.Namespace) -> dict[str, float]:
    """By workload: microseconds of CPU per request, and calls."""
    found: dict[str, float] = {}
    with ExitStack() as undo:
        if options.store == "files":
            folder = undo.enter_context(tempfile.TemporaryDirectory(prefix="per-request-"))
            store: Any = FileObjectStore(Path(folder))
        else:
            store = MemoryObjectStore()
        tail_bytes = type(FOR_TESTS.cache.tail_cache_size)(_TAIL_BYTES)
        cache = replace(FOR_TESTS.cache, tail_cache_size=tail_bytes)
        async with InProcessBroker(config=replace(FOR_TESTS, cache=cache), store=store) as broker:
            line = Line(broker)
            bench = Bench(line)
            await bench.begin()
            gc.collect()
            gc.freeze()
            gc.set_threshold(20_000, 5, 200)  # as a broker does
            for workload in bench.workloads():
                if options.only is None or fnmatch(workload.name, f"*{options.only}*"):
                    slices = workload.slices or options.slices
                    found[workload.name] = await _least(line, workload, slices)
                    found[f"{workload.name}{CALLS}"] = await _calls(line, workload)
            line.close()
    return found


async def _least(line: Line, workload: Workload, slices: int) -> float:
    """Microseconds of CPU per request in the best of all slices."""
    least = math.inf
    if error := workload.error_of(await line.ask(workload.frames()[0])):
        raise RuntimeError(f"{workload.name}: the broker answered error {error}")
    for _ in range(slices + 1):  # the first one warms up
        frames = workload.frames()
        began_s = time.process_time()
        await line.pump(frames, workload.in_flight)
        least = min(least, (time.process_time() - began_s) * 1e6 / len(frames))
    return least


async def _calls(line: Line, workload: Workload) -> float:
    """Calls of functions per request, in Python and from Python into C."""
    count = 0

    def profile(frame: object, event: str, argument: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    frames = workload.frames()
    sys.setprofile(profile)
    await line.pump(frames, workload.in_flight)
    sys.setprofile(None)
    return count / len(frames)


# -- turns ---------------------------------------------------------------------------------------


def _run_child(options: argparse.Namespace, source: Path) -> dict[str, float]:
    """The figures of one process that runs the code of a checkout."""
    command = [sys.executable, "-m", "benchmarks.per_request", "--json", "--store", options.store]
    command += ["--slices", str(options.slices)]
    if options.only:
        command += ["--only", options.only]
    paths = os.pathsep.join((str(source / "src"), str(ROOT)))
    env = {**os.environ, "PYTHONPATH": paths, "PYTHONHASHSEED": "0"}
    said = subprocess.run(command, cwd=ROOT, env=env, check=True, stdout=subprocess.PIPE)
    found: dict[str, float] = json.loads(said.stdout)
    return found


def main() -> int:
    options = _options()
    if options.json:
        run.hide_log_lines()
        print(json.dumps(uvloop.run(_measure(options))))
        return 0
    sources = [Path(options.against).resolve()] if options.against else []
    sources.append(ROOT)
    print(
        f"{platform.python_version()} at {sys.executable}; store: {options.store}; us of CPU and "
        f"calls per request; least of {options.turns} x {options.slices} slices; "
        f"load {os.getloadavg()[0]:.1f}; ratio: this / the other checkout"
    )
    found: list[dict[str, float]] = [{} for _ in sources]
    for _ in range(options.turns):
        for source, least in zip(sources, found, strict=True):
            for name, figure in _run_child(options, source).items():
                least[name] = min(figure, least.get(name, math.inf))
    for name in found[-1]:
        if not name.endswith(CALLS):
            print(f"{name:36}" + _columns(name, found) + _columns(name + CALLS, found))
    return 0


def _columns(name: str, found: list[dict[str, float]]) -> str:
    row = "".join(f"{one[name]:>10,.1f}" for one in found)
    return row + (f"{found[1][name] / found[0][name]:>7.2f}" if len(found) > 1 else "")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="benchmarks.per_request", description=__doc__.split("\n")[0]
    )
    parser.add_argument("--only", metavar="PATTERN", help="workloads with this in their name")
    parser.add_argument("--store", choices=("memory", "files"), default="memory")
    parser.add_argument("--slices", type=int, default=100, metavar="N", help="per process (100)")
    parser.add_argument("--turns", type=int, default=3, metavar="N", help="processes each (3)")
    parser.add_argument("--against", metavar="FOLDER", help="another checkout to compare with")
    parser.add_argument("--quick", action="store_true", help="only whether it runs")
    parser.add_argument("--json", action="store_true", help="one process, its figures as JSON")
    options = parser.parse_args()
    if options.quick:
        options.turns, options.slices = 1, 3
    return options


if __name__ == "__main__":
    sys.exit(main())
