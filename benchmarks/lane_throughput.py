"""Writing and reading a thousand partitions that share a few logs, beside six ordinary ones.

In this room: the same bytes in the same batches and requests, whatever the layout; then a client
library with its own settings, whose batches get smaller the more partitions it writes to.
Next door: the table and the bars (lanes.py), the requests (many.py).
"""

import statistics
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import NamedTuple

from benchmarks import clients, many, run
from benchmarks.meter import Cost, Meter
from tests.support import wire
from tests.support.broker import KafscaleProcess

VALUE_BYTES = 1000
RECORDS = 16  # of a batch: about the 16 KiB that a Java producer sends
PER_REQUEST = 6  # batches, each of another partition
IN_FLIGHT = 8
TIMES = 4  # that the tail is read
WAYS = ("produce", "consume tail", "consume cold")
SETTINGS = (
    f"a batch: {RECORDS} records of {VALUE_BYTES} bytes; a produce request: {PER_REQUEST} batches "
    f"of {PER_REQUEST} partitions, {IN_FLIGHT} requests in flight on one connection, acks=all;\n"
    "a fetch: every partition that has more, 1 MiB of each, 50 MiB in all, one in flight; "
    "one broker, files.\n"
    "tail: from memory, read before; cold: for the first time after a restart"
)


class Shape(NamedTuple):
    """A topic."""

    name: str
    partitions: int
    logs: int | None = None  # None: a log for each partition

    @property
    def configs(self) -> dict[str, str]:
        return {} if self.logs is None else {"physical.partitions": str(self.logs)}


def shapes(partitions: int) -> tuple[Shape, ...]:
    """The first one is what the others are compared with."""
    return (
        Shape("6 ordinary", 6),
        Shape(f"{partitions:,} on 6 logs", partitions, 6),
        Shape(f"{partitions:,} on 3 logs", partitions, 3),
        Shape(f"{partitions:,} ordinary", partitions),
    )


class Row(NamedTuple):
    shape: Shape
    way: str
    mb_s: float
    cpu_s_gb: float


def measure(compared: Sequence[Shape], megabytes: int, runs: int) -> list[Row]:
    """Medians, the shapes taking turns."""
    found: dict[tuple[Shape, str], list[Row]] = {}
    for _ in range(runs):
        for shape in compared:
            for row in _life(shape, megabytes * 1_000_000):
                found.setdefault((shape, row.way), []).append(row)
    return [_median(rows) for rows in found.values()]


def _life(shape: Shape, wanted_bytes: int) -> list[Row]:
    """A broker with one topic, from the first batch to reading it after a restart."""
    with KafscaleProcess() as broker:
        with many.Line(broker.port) as line:
            many.create(line, "t", shape.partitions, shape.configs)
            turns = max(1, wanted_bytes // (VALUE_BYTES * RECORDS * shape.partitions))
            total = turns * RECORDS * VALUE_BYTES * shape.partitions
            produce(Meter(broker), line, shape.partitions, 1)  # opens the logs
            rows = [_row(shape, WAYS[0], _metered(broker, line, shape.partitions, turns), total)]
            total += RECORDS * VALUE_BYTES * shape.partitions
            end = (turns + 1) * RECORDS
            consume(nullcontext(), line, shape.partitions, end)  # its series are born
            meter = Meter(broker)
            consume(meter, line, shape.partitions, end, times=TIMES)
            rows.append(_row(shape, WAYS[1], meter.cost, total * TIMES))
        broker.extra_env["KAFSCALE_CONFIG"] = _without_memory(broker.folder)
        broker.restart()
        with many.Line(broker.port) as line:
            # What opening costs is another figure.
            everything = [(number, 0) for number in range(shape.partitions)]
            line.send(many.fetch_frame("t", everything, answer_bytes=1))
            line.answer()
            meter = Meter(broker)
            consume(meter, line, shape.partitions, end)
            rows.append(_row(shape, WAYS[2], meter.cost, total))
    return rows


def _without_memory(folder: Path) -> str:
    """Settings of a broker that keeps no new data: opening a log would load its newest part."""
    file = folder / "cold.yaml"
    file.write_text("cache:\n  tailCacheSize: 0\n", encoding="utf-8")
    return str(file)


def _metered(broker: KafscaleProcess, line: many.Line, partitions: int, turns: int) -> Cost:
    meter = Meter(broker)
    produce(meter, line, partitions, turns)
    return meter.cost


def produce(
    meter: AbstractContextManager[object], line: many.Line, partitions: int, turns: int
) -> None:
    """So many batches into every partition."""
    batch = wire.batch([b"x" * VALUE_BYTES] * RECORDS, timestamp_ms=run.NOW_MS)
    frames = [
        many.produce_frame("t", range(at, min(at + PER_REQUEST, partitions)), batch)
        for at in range(0, partitions, PER_REQUEST)
    ]
    waiting = 0
    with meter:
        for number in range(turns * len(frames)):
            if waiting == IN_FLIGHT:
                many.check_produced(line.answer())
                waiting -= 1
            line.send(frames[number % len(frames)])
            waiting += 1
        for _ in range(waiting):
            many.check_produced(line.answer())


def consume(
    meter: AbstractContextManager[object],
    line: many.Line,
    partitions: int,
    end: int,
    times: int = 1,
) -> None:
    """Every partition from its beginning to `end`."""
    with meter:
        for _ in range(times):
            at = [(number, 0) for number in range(partitions)]
            while at:
                line.send(many.fetch_frame("t", at))
                at = _left(at, line.answer(), end)


def _left(at: list[tuple[int, int]], answer: memoryview, end: int) -> list[tuple[int, int]]:
    """Who has more to read: first those who got nothing, then those who were served."""
    served = {
        row.partition: many.next_offset(row.records, 0)
        for row in many.fetched(answer)
        if len(row.records)
    }
    waiting = [(number, offset) for number, offset in at if number not in served]
    return waiting + [(number, offset) for number, offset in served.items() if offset < end]


def _row(shape: Shape, way: str, cost: Cost, done_bytes: int) -> Row:
    return Row(shape, way, done_bytes / 1e6 / cost.wall_s, cost.broker_cpu_s / (done_bytes / 1e9))


def _median(rows: Sequence[Row]) -> Row:
    return rows[0]._replace(
        mb_s=statistics.median(row.mb_s for row in rows),
        cpu_s_gb=statistics.median(row.cpu_s_gb for row in rows),
    )


# -- a client library ------------------------------------------------------------------------


def with_a_client(compared: Sequence[Shape], megabytes: int) -> list[Row]:
    """confluent-kafka as it comes, records round-robin; the mean batch is told with the shape."""
    rows = []
    for shape in compared:
        count = megabytes * 1_000_000 // VALUE_BYTES
        with KafscaleProcess() as broker:
            with many.Line(broker.port) as line:
                many.create(line, "t", shape.partitions, shape.configs)
            meter = Meter(broker)
            clients.produce(
                meter, broker.bootstrap, "t", shape.partitions, [b"x" * VALUE_BYTES], count, "all"
            )
            with many.Line(broker.port) as line:
                per_batch = records_per_batch(line)
            told = shape._replace(name=f"{shape.name}, {per_batch:.0f} records a batch")
            rows.append(_row(told, WAYS[0], meter.cost, count * VALUE_BYTES))
            meter = Meter(broker)
            clients.consume(meter, broker.bootstrap, "t", shape.partitions, count)
            rows.append(_row(told, WAYS[1], meter.cost, count * VALUE_BYTES))
    return rows


def records_per_batch(line: many.Line) -> float:
    """Of partition 0, as far as one fetch of it goes."""
    line.send(many.fetch_frame("t", [(0, 0)], partition_bytes=8 << 20))
    (row,) = many.fetched(line.answer())
    batches = list(wire.batches(row.records))
    return batches[-1].next_offset / len(batches)
