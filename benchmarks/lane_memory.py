"""What a partition costs a broker that it is idle on: memory, and time to open.

In this room: a broker process with very many partitions, each of which got a record once; its
resident memory beside that of one with few; then the time from starting the process until a fetch
of the last partition is answered with its record.
Next door: the table and the bars (lanes.py).
"""

import time
from collections.abc import Mapping
from contextlib import ExitStack
from typing import NamedTuple

from benchmarks import many, run
from benchmarks.meter import cpu_s, rss_mb
from tests.support import wire
from tests.support.broker import KafscaleProcess
from tests.support.seaweed import SeaweedServer

FEW = 10
PER_REQUEST = 1000
SETTLE_S = 3.0
OPENINGS = 3


class Opened(NamedTuple):
    """A broker with many partitions, and what it cost."""

    partitions: int
    touches: int
    rss_mb: float  # after the last record
    open_s: float  # the fastest of a few
    open_cpu_s: float


def measure(
    partitions: int,
    touches: int,
    configs: Mapping[str, str],
    store: str,
    openings: int = OPENINGS,
) -> Opened:
    """Every partition gets `touches` records, then the broker is killed and started again."""
    with ExitStack() as undo:
        env = {}
        if store == "s3":
            env = undo.enter_context(SeaweedServer()).broker_environment("lanes")
        broker = undo.enter_context(
            KafscaleProcess(env={**env, "KAFSCALE_FLUSH_INTERVAL_MS": "250"})
        )
        with many.Line(broker.port) as line:
            many.create(line, "t", partitions, configs)
            _touch(line, partitions, touches)
        time.sleep(SETTLE_S)
        resident = rss_mb(broker.pid)
        opened = []
        for _ in range(openings):
            broker.kill()
            opened.append(_open(broker, partitions))
        open_s, cpu = min(opened)
        return Opened(partitions, touches, resident, open_s, cpu)


def _touch(line: many.Line, partitions: int, touches: int) -> None:
    batch = wire.batch([b"x" * 100], timestamp_ms=run.NOW_MS)
    frames = [
        many.produce_frame("t", range(at, min(at + PER_REQUEST, partitions)), batch)
        for at in range(0, partitions, PER_REQUEST)
    ]
    for _ in range(touches):
        for frame in frames:
            line.send(frame)
        for _ in frames:
            many.check_produced(line.answer())


def _open(broker: KafscaleProcess, partitions: int) -> tuple[float, float]:
    """Seconds from the start of the process to the last partition's record; its CPU-seconds."""
    began = time.perf_counter()
    broker.start()
    with many.Line(broker.port) as line:
        line.send(many.fetch_frame("t", [(partitions - 1, 0)]))
        (row,) = many.fetched(line.answer())
        took_s = time.perf_counter() - began
        if not len(row.records):
            raise RuntimeError("the last partition has lost its record")
    return took_s, cpu_s(broker.pid)
