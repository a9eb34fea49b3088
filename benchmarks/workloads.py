"""What is measured, and one broker's way through it.

In this room: the list of workloads and their order within one life of a broker.
Next door: how each is done (clients.py, raw.py), what it costs (meter.py), what it costs at least
(limit.py), the table (report.py).
"""

import random
import time
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass, replace

from benchmarks import clients, limit, raw
from benchmarks.meter import Cost, Meter, rss_mb
from tests.support.process import BrokerProcess

SIZES = {"1KiB": 1024, "100B": 100, "mixed100B": 100}
PARTITIONS = (1, 6)
MANY_PARTITIONS = 1000
ACKS = ("1", "all")
_LATENCY_WARM_UP = 4000  # records: the JVM compiles
LATENCY = "latency 1KiB acks=all, one in flight"


@dataclass(frozen=True, slots=True)
class Scale:
    """How much: bytes per workload by record size, records for latency."""

    bytes_of: dict[str, int]
    latency_records: int
    warm_up_bytes_of: dict[str, int]
    idle_s: float
    touched_bytes: int  # of memory, before each broker starts


FULL = Scale(
    {"1KiB": 200_000_000, "100B": 50_000_000, "mixed100B": 50_000_000},
    2000,
    {"1KiB": 300_000_000, "100B": 50_000_000},
    5.0,
    4_000_000_000,
)
QUICK = Scale(
    {"1KiB": 40_000_000, "100B": 15_000_000, "mixed100B": 15_000_000},
    300,
    {"1KiB": 60_000_000, "100B": 10_000_000},
    2.0,
    1_000_000_000,
)


@dataclass(frozen=True, slots=True)
class Figure:
    """One measured number, with what it cost the broker where that is known."""

    workload: str
    unit: str
    value: float
    cpu_s_per_gb: float | None = None
    peak_rss_mb: float | None = None
    client_cpu_share: float | None = None
    limit_cpu_s_per_gb: float | None = None  # of the bare program, right before (limit.py)


def values_of(size: str) -> list[bytes]:
    """Values of this size: all equal, or between half and one and a half of it, from a seed."""
    mean = SIZES[size]
    if not size.startswith("mixed"):
        return [bytes(mean)]
    dice = random.Random(size)
    return [bytes(dice.randint(mean // 2, mean * 3 // 2)) for _ in range(1000)]


# Does the work, metering the part that counts, and says how many bytes it was.
Work = Callable[[Meter], int]


class Life:
    """One start of a broker, everything measured once, the broker gone again."""

    def __init__(self, broker: BrokerProcess, scale: Scale, wanted: Callable[[str], bool]) -> None:
        self._broker, self._scale, self._wanted = broker, scale, wanted
        self._cold: list[tuple[str, Work]] = []

    def figures(self) -> Iterator[Figure]:
        with self._broker:
            yield from self._start()
            self._warm_up()
            for size in SIZES:
                for partitions in PARTITIONS:
                    for acks in ACKS:
                        yield from self._topic(size, partitions, acks)
                    yield from self._raw_topic(size, partitions)
            yield from self._topic("1KiB", MANY_PARTITIONS, "all")
            if self._cold:
                self._broker.restart()
                for name, work in self._cold:
                    yield self._measured(name, work)

    def _start(self) -> Iterator[Figure]:
        if self._wanted("start"):
            yield Figure("start to first ApiVersions", "s", self._broker.started_in_s)
        if self._wanted("idle"):
            time.sleep(self._scale.idle_s)
            yield Figure("idle memory after start", "MB", rss_mb(self._broker.pid))

    def _warm_up(self) -> None:
        """Not measured: the JVM compiles, both brokers grow to working size."""
        at = self._broker.bootstrap
        for size, total_bytes in self._scale.warm_up_bytes_of.items():
            topic, count = f"warm-up-{size}", total_bytes // SIZES[size]
            clients.create_topic(at, topic, 6)
            clients.produce(nullcontext(), at, topic, 6, values_of(size), count, "all")
            clients.consume(nullcontext(), at, topic, 6, count)

    def _topic(self, size: str, partitions: int, acks: str) -> Iterator[Figure]:
        shape = f"{size} p{partitions}"
        writing = f"produce {shape} acks={acks}"
        tail, cold = f"consume {shape} tail", f"consume {shape} cold"
        # Reading is measured once per shape, on what acks=all wrote.
        is_read = acks == "all" and partitions != MANY_PARTITIONS
        reading = [name for name in (tail, cold) if is_read and self._wanted(name)]
        if not self._wanted(writing) and not reading:
            return
        topic, at = f"t-{size}-{partitions}-{acks}", self._broker.bootstrap
        count = self._scale.bytes_of[size] // SIZES[size]
        clients.create_topic(at, topic, partitions)

        def write(meter: Meter) -> int:
            clients.produce(meter, at, topic, partitions, values_of(size), count, acks)
            return count * SIZES[size]

        def read(meter: Meter) -> int:
            clients.consume(meter, at, topic, partitions, count)
            return count * SIZES[size]

        written = self._measured_beside_limit(writing, write, self._scale.bytes_of[size])
        if self._wanted(writing):
            yield written
        if tail in reading:
            yield self._measured(tail, read)
        if cold in reading:
            self._cold.append((cold, read))

    def _raw_topic(self, size: str, partitions: int) -> Iterator[Figure]:
        shape = f"{size} p{partitions}"
        writing, tail, cold = (f"raw {what} {shape}" for what in ("produce", "tail", "cold"))
        if not any(map(self._wanted, (writing, tail, cold))):
            return
        topic, port = f"raw-{size}-{partitions}", self._broker.port
        values, counts = values_of(size), [0]
        clients.create_topic(self._broker.bootstrap, topic, partitions)

        def write(meter: Meter) -> int:
            # Twice as much: without a client in the way it is soon over.
            wanted = 2 * self._scale.bytes_of[size] // SIZES[size]
            counts[0] = raw.produce(meter, port, topic, partitions, values, wanted)
            return counts[0] * SIZES[size]

        def read(meter: Meter) -> int:
            raw.fetch(meter, port, topic, partitions, min(map(len, values)), counts[0])
            return counts[0] * SIZES[size]

        written = self._measured_beside_limit(writing, write, 2 * self._scale.bytes_of[size])
        if self._wanted(writing):
            yield written
        if self._wanted(tail):
            yield self._measured(tail, read)
        if self._wanted(cold):
            self._cold.append((cold, read))

    def _measured(self, name: str, work: Work) -> Figure:
        meter = Meter(self._broker)
        done_bytes = work(meter)
        return _figure(name, meter.cost, done_bytes)

    def _measured_beside_limit(self, name: str, work: Work, total_bytes: int) -> Figure:
        bare = limit.cpu_s_per_gb(total_bytes)
        return replace(self._measured(name, work), limit_cpu_s_per_gb=bare)


def latency_figures(broker: BrokerProcess, scale: Scale, where: str) -> Iterator[Figure]:
    """One record in flight, in a life of its own: the broker's folder has no history."""
    name = f"{LATENCY}, {where}"
    with broker:
        clients.create_topic(broker.bootstrap, "latency", 1)
        clients.latencies_ms(broker.bootstrap, "latency", bytes(1024), _LATENCY_WARM_UP)
        with Meter(broker) as meter:
            p50, p99 = clients.latencies_ms(
                broker.bootstrap, "latency", bytes(1024), scale.latency_records
            )
        yield Figure(f"{name}, p50", "ms", p50, peak_rss_mb=meter.cost.peak_rss_mb)
        yield Figure(f"{name}, p99", "ms", p99, peak_rss_mb=meter.cost.peak_rss_mb)


def _figure(name: str, cost: Cost, done_bytes: int) -> Figure:
    return Figure(
        name,
        "MB/s",
        done_bytes / 1e6 / cost.wall_s,
        cpu_s_per_gb=cost.broker_cpu_s / (done_bytes / 1e9),
        peak_rss_mb=cost.peak_rss_mb,
        client_cpu_share=cost.client_cpu_s / cost.wall_s,
    )
