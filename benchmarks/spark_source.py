"""How fast topics become rows in Spark: `python -m benchmarks.spark_source`.

In this room: a topic of 200-byte records in segments of 64 MB on local files, read by Spark on two
cores. CPU seconds are those of the JVM and all its Python workers together, since wall time means
little on a shared machine; of several runs the best counts, after one that warms up. The ceiling is
a source that sends one ready-made Arrow batch over and over: what remains when nothing is decoded.
The consumer is confluent-kafka, one process, reading the same records from a broker. The connector
is Spark's own, reading them through that broker, whose CPU seconds count as well.

Bars: all columns >= 180 MB per CPU second, two columns >= 300, >= 0.9 of the ceiling, >= 4 times
the rows per second of the consumer.
"""

import argparse
import asyncio
import os
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Self

import psutil
from confluent_kafka import Consumer, Producer
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from benchmarks import orders
from benchmarks.meter import tree
from kafscale.objects.files import FileObjectStore
from kafscale.records.compression import Codec
from kafscale.spark.session import open_session
from tests.support.broker import KafscaleProcess
from tests.support.maven import Unavailable
from tests.support.spark_kafka import add_connector
from tests.support.topics import Log, lay

SEGMENT = 64_000_000
ALL = (
    "key binary, value binary, topic string, partition int, offset bigint, timestamp timestamp, "
    "timestampType int"
)
TWO = "offset bigint, value binary"


HEAD = f"{'query':34}{'wall s':>8}{'CPU s':>9}{'Mrows/s':>10}{'MB/s':>9}{'MB/CPU-s':>12}"


class Cost(NamedTuple):
    """One query."""

    name: str
    rows: int
    raw_bytes: int
    wall_s: float
    cpu_s: float

    @property
    def cpu_s_per_gb(self) -> float:
        return self.cpu_s / self.raw_bytes * 1e9

    def __str__(self) -> str:
        return (
            f"{self.name:34}{self.wall_s:8.2f}{self.cpu_s:9.2f}"
            f"{self.rows / self.wall_s / 1e6:10.2f}{self.raw_bytes / self.wall_s / 1e6:9.0f}"
            f"{1000 / self.cpu_s_per_gb:12.0f}"
        )


def main() -> None:
    """Print the table and the ratios."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--gb", type=float, default=1.0, help="raw gigabytes of the topic")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--codecs", default="none,lz4,zstd", help="of the topics, by comma")
    parser.add_argument("--no-consumer", action="store_true", help="leave out what uses a broker")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="kafscale-spark-") as folder:
        spark = open_session("bench", "local[2]", {"spark.driver.memory": "1g"})
        try:
            codecs = [Codec.named(name) for name in given.codecs.split(",")]
            measure(spark, Path(folder), given.gb, given.runs, codecs)
        finally:
            spark.stop()
        if not given.no_consumer:
            against_consumer(Path(folder), min(given.gb, 0.3), given.runs)


def measure(
    spark: SparkSession, folder: Path, gb: float, runs: int, codecs: Sequence[Codec]
) -> None:
    spark.dataSource.register(CeilingSource)
    frames: dict[str, tuple[DataFrame, int, int]] = {}
    for codec in codecs:
        url, rows, raw = lay_topic(folder / codec.name, gb, codec)
        frames[f"{codec.name.lower()}, all columns"] = read(spark, url, ALL), rows, raw
        if codec is Codec.NONE:
            tasks = max(1, round(raw / SEGMENT))
            for name, schema in (("all", ALL), ("two", TWO)):
                frames[f"ceiling, {name} columns"] = ceiling(spark, schema, tasks), rows, raw
            frames["none, two columns"] = read(spark, url, TWO), rows, raw
            frames["none, offset only"] = read(spark, url, "offset bigint"), rows, raw
    found: dict[str, list[Cost]] = {name: [] for name in frames}
    for run in range(runs + 1):  # in turn, so that a busy minute hits all alike; one to warm up
        for name, (frame, rows, raw) in frames.items():
            cost = query(name, rows, raw, frame)
            if run:
                found[name].append(cost)
    print(f"{gb} GB, local[2], best of {runs} runs")
    print(HEAD)
    best = {name: min(costs, key=lambda cost: cost.cpu_s_per_gb) for name, costs in found.items()}
    for cost in best.values():
        print(cost)
    for columns in ("all", "two") if Codec.NONE in codecs else ():
        ours, most = best[f"none, {columns} columns"], best[f"ceiling, {columns} columns"]
        ratio = most.cpu_s_per_gb / ours.cpu_s_per_gb
        print(f"{columns} columns against the ceiling: {ratio:.2f}")


def lay_topic(root: Path, gb: float, codec: Codec) -> tuple[str, int, int]:
    """A topic of one partition; its URL, records and raw bytes."""
    raw = len(next(iter(orders.batches(1))))
    every = orders.batches(int(gb * 1e9), codec)
    count = int(gb * 1e9) // raw
    per_segment = SEGMENT // raw

    async def write() -> None:
        store = FileObjectStore(root / "objects")
        rows = list(every)
        cut = [rows[at : at + per_segment] for at in range(0, len(rows), per_segment)]
        await lay(store, "orders", 1, [Log(history=[{0: part} for part in cut])])
        await store.aclose()

    asyncio.run(write())
    return f"file://{root}", count * orders.PER_BATCH, count * raw


def read(spark: SparkSession, url: str, schema: str) -> DataFrame:
    return (
        spark.read.format("kafscale")
        .schema(schema)
        .option("store", url)
        .option("subscribe", "orders")
        .load()
    )


def query(name: str, rows: int, raw: int, frame: DataFrame) -> Cost:
    """Count and add up, so that no row can be left out. A new query each time.

    Asked twice, Spark would answer the same query from what it has kept.
    """
    sums = ["max(offset)"] + ["sum(length(value))"] * ("value" in frame.columns)
    with CpuWatch() as watch:
        began = time.perf_counter()
        counted = frame.selectExpr("count(*) as rows", *sums).collect()[0]["rows"]
        wall = time.perf_counter() - began
    if counted != rows and not name.startswith("ceiling"):
        raise RuntimeError(f"{name}: {counted} rows, not {rows}")
    return Cost(name, counted, raw * counted // rows, wall, watch.spent_s())


class CpuWatch:
    """CPU seconds of this process and all below it, also of those that end meanwhile."""

    def __enter__(self) -> Self:
        self._first = self._look()
        self._last = dict(self._first)
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()
        self._last.update(self._look())

    def spent_s(self) -> float:
        return sum(last - self._first.get(pid, 0.0) for pid, last in self._last.items())

    def _watch(self) -> None:
        while not self._over.wait(0.1):
            self._last.update(self._look())

    @staticmethod
    def _look() -> dict[int, float]:
        found = {}
        for process in tree(os.getpid()):
            try:
                found[process.pid] = sum(process.cpu_times()[:2])
            except psutil.NoSuchProcess:
                continue
        return found


# -- the ceiling -------------------------------------------------------------------------------


class CeilingSource(DataSource):
    """Sends one Arrow batch of 4 MiB as often as it takes."""

    @classmethod
    def name(cls) -> str:
        return "kafscale-ceiling"

    def reader(self, schema: StructType) -> DataSourceReader:
        return CeilingReader(schema.fieldNames(), int(self.options["tasks"]))


class CeilingReader(DataSourceReader):
    def __init__(self, columns: list[str], tasks: int) -> None:
        self._columns = columns
        self._tasks = tasks

    def partitions(self) -> list[InputPartition]:
        return [InputPartition(number) for number in range(self._tasks)]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        from benchmarks import orders as made
        from kafscale.spark.kernels.decoder import ObjectPiece, PartitionWindow, RecordDecoder
        from kafscale.spark.source.rows.reading import settle

        settle()
        decoder = RecordDecoder(tuple(self._columns))
        data = b"".join(made.batches(4 << 20))
        (batch,) = decoder.decode(PartitionWindow("orders", 0), [ObjectPiece("o", 0, [data])])
        for _ in range(SEGMENT // len(data)):
            yield batch


def ceiling(spark: SparkSession, schema: str, tasks: int) -> DataFrame:
    return spark.read.format("kafscale-ceiling").schema(schema).option("tasks", tasks).load()


# -- the consumer ------------------------------------------------------------------------------


def against_consumer(folder: Path, gb: float, runs: int) -> None:
    """The same records through a broker to one consumer, and from its objects to Spark."""
    with KafscaleProcess() as broker:
        count = produce(broker.bootstrap, int(gb * 1e9))
        theirs = min(_timed(lambda: consume(broker.bootstrap, count)) for _ in range(runs))
        spark = open_session("bench", "local[2]", {"spark.driver.memory": "1g"})
        try:
            frame = read(spark, f"file://{broker.data}", ALL)
            ours = best_of(runs, "from a broker's objects", count, frame)
            against_connector(spark, broker.bootstrap, count, runs, ours)
        finally:
            spark.stop()
    print(
        f"confluent-kafka consumer: {count / theirs[0] / 1e6:.2f} Mrows/s, "
        f"{count / theirs[1] / 1e6:.2f} per CPU-s; Spark {count / ours.wall_s / 1e6:.2f} and "
        f"{count / ours.cpu_s / 1e6:.2f}: {theirs[0] / ours.wall_s:.1f} times by the clock"
    )


def best_of(runs: int, name: str, count: int, frame: DataFrame) -> Cost:
    costs = [query(name, count, count * 205, frame) for _ in range(runs + 1)]
    return min(costs[1:], key=lambda cost: cost.cpu_s)


def against_connector(
    spark: SparkSession, bootstrap: str, count: int, runs: int, ours: Cost
) -> None:
    """The same rows through Spark's Kafka connector; the broker is a process below this one."""
    print(ours)
    try:
        add_connector(spark)
    except Unavailable as reason:
        print(f"Spark's Kafka connector is left out: {reason}")
        return
    reader = spark.read.format("kafka").option("kafka.bootstrap.servers", bootstrap)
    frame = reader.option("subscribe", "orders").option("minPartitions", 8).load()
    theirs = best_of(runs, "Spark's Kafka connector, broker", count, frame)
    print(theirs)
    print(
        f"the connector takes {theirs.cpu_s / ours.cpu_s:.1f} times our CPU, broker "
        f"included, and {theirs.wall_s / ours.wall_s:.1f} times as long"
    )


def _timed(work: Callable[[], None]) -> tuple[float, float]:
    wall, cpu = time.perf_counter(), time.process_time()
    work()
    return time.perf_counter() - wall, time.process_time() - cpu


def produce(bootstrap: str, size: int) -> int:
    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "linger.ms": 20,
            "batch.size": 16_000,
            "queue.buffering.max.messages": 1_000_000,
        }
    )
    count = size // 205
    now_ms = int(time.time() * 1000)
    for number in range(count):
        record = orders.order(number % 10_000)
        while True:
            try:
                producer.produce("orders", record.value, record.key, timestamp=now_ms)
                break
            except BufferError:
                producer.poll(0.1)
        producer.poll(0)
    if producer.flush(60):
        raise RuntimeError("not all records were taken")
    return count


def consume(bootstrap: str, count: int) -> None:
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": f"bench-{time.time_ns()}",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
    )
    consumer.subscribe(["orders"])
    seen = 0
    while seen < count:
        for message in consumer.consume(10_000, 1.0):
            if not message.error():
                message.value()
                seen += 1
    consumer.close()


if __name__ == "__main__":
    main()
