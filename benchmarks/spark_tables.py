"""Tables that topics declare: `python -m benchmarks.spark_tables`.

In this room: planning very many topics; processor seconds per GB of append and upsert tables beside
Spark's own Kafka connector streaming the same topic into Delta (on the newest Spark that has a
release of Delta) and into Parquet (on ours); SQL over table and log beside the log alone and the
table's files alone, on a small topic as well: what a query costs of whichever size, and per GB.
Values are typed JSON. Processor seconds are those of the driver, the JVM and all workers; those of
the broker, which only the connector needs, stand in a column of their own.
Bars: planning 10,000 topics takes less than a minute; append and upsert tables take at most half
the CPU of the connector's way; table and log together at most 1.2 times the table's files alone.
Next door: the export by itself (spark_export.py), which makes the topic; how old records are when
they become rows (spark_freshness.py); requests and money (spark_requests.py); the connector's way
into Delta (spark_delta_peer.py).
"""

import argparse
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import msgspec
import psutil
from pyspark.sql import SparkSession

from benchmarks.run import NOW_MS
from benchmarks.spark_all import BELOW_BAR
from benchmarks.spark_export import SCHEMA, Cpu, fill, measured, order
from kafscale.log.formats import keys, segment
from kafscale.log.formats.segment import NOTHING_BEFORE, LaneBatches
from kafscale.model.topics import TopicDescriptor
from kafscale.objects.files import FileObjectStore
from kafscale.records.compression import Codec
from kafscale.records.record import build_batch
from kafscale.spark.bucket import Bucket
from kafscale.spark.history.queries import register_topics
from kafscale.spark.job import Context
from kafscale.spark.jobs.export import ExportRequest, run_export
from kafscale.spark.runner import planner
from kafscale.spark.runner.planner import Rhythm
from kafscale.spark.session import open_session
from kafscale.spark.values.formats import spec_of
from kafscale.spark.views import read_views
from tests.support.broker import KafscaleProcess
from tests.support.maven import Unavailable, jars
from tests.support.spark_kafka import add_connector
from tests.support.venv import python_with

# The newest Spark for which Delta has a release, and what it takes to stream into it.
DELTA_SPARK = "4.1.*"
DELTA_JARS = (
    "io.delta:delta-spark_2.13:4.1.0",
    "io.delta:delta-storage:4.1.0",
    "org.apache.spark:spark-sql-kafka-0-10_2.13:4.1.1",
    "org.apache.spark:spark-token-provider-kafka-0-10_2.13:4.0.0",
    "org.apache.kafka:kafka-clients:3.9.2",
    "org.apache.commons:commons-pool2:2.13.1",
)
PARTS = ("planning", "ways", "sql")
CPU_BAR = 0.5  # of the connector's
SQL_BAR = 1.2  # of the files alone
QUERY = "select value.state, count(*), sum(value.amount) from topic.orders group by 1"


def plan_topics(folder: Path, count: int) -> bool:
    """How long a runner takes from nothing to what is due, and the memory for it."""
    FileObjectStore(folder)
    bucket = Bucket(f"file://{folder}")
    for number in range(count):
        topic = TopicDescriptor(
            name=f"t{number}", topic_id=f"{number:032x}", incarnation=1,
            folder=f"default/t{number}", partitions=1, logs=1, created_at="2025-11-15T00:00:00Z",
            configs={"table.format": "delta"},
        )  # fmt: skip
        bucket.put_new(keys.descriptor(topic.folder, 1), [topic.encode()])
    before = resource.getrusage(resource.RUSAGE_SELF)
    began = time.perf_counter()
    works = planner.mine(planner.works_of(bucket.topics(), Rhythm()), "a", ["a", "b", "c"])
    due = planner.due_work(works, {}, set(), bucket.clock.now_ms(), bucket.clock.now_ms())
    wall = time.perf_counter() - began
    after = resource.getrusage(resource.RUSAGE_SELF)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    print(
        f"planning {count:,} topics for one of three runners: {wall:.1f} s wall, {cpu:.1f} s CPU, "
        f"{len(works):,} pieces of work, {len(due):,} due, "
        f"{(after.ru_maxrss - before.ru_maxrss) / 1024:.0f} MB more memory"
    )
    return wall < 60


class Yard:
    """One topic of orders with a table, a session, and a broker for the connector."""

    def __init__(self, folder: Path, size: int, master: str, runs: int) -> None:
        folder.mkdir(parents=True)
        self.folder, self.runs = folder, runs
        self.broker = KafscaleProcess(folder)
        self.bucket, self.records, self.raw = fill(self.broker.data / "objects", size, Codec["LZ4"])
        self._declare()
        conf = {"spark.driver.memory": "2g", "spark.local.dir": str(folder)}
        self.spark: SparkSession = open_session("spark_tables", master, conf)
        self.cpu = Cpu()

    def _declare(self) -> None:
        """The topic has a table, as `kafscale configs alter` would say it."""
        configs = {
            "table.format": "delta", "table.value.format": "json", "table.value.schema": SCHEMA,
            "table.partition.by": "none",
        }  # fmt: skip
        declared = msgspec.structs.replace(self.bucket.topic("orders"), configs=configs)
        self.bucket.put_new(keys.descriptor("default/orders", 2), [declared.encode()])

    def export(self, table: str, *, upsert: bool) -> Callable[[], None]:
        """Bring a table from nothing up to date."""

        def work() -> None:
            shutil.rmtree(table, ignore_errors=True)
            wish = ExportRequest(
                table, "delta", values=spec_of("json", SCHEMA), partition_by="none", upsert=upsert
            )
            run_export(Context(self.bucket, ("orders",), session=self.spark), wish)

        return work

    def add_tail(self) -> None:
        """Some more records, which are not in the table: a minute's share of a day."""
        (view, *_) = read_views(self.bucket, self.bucket.topic("orders"), [0])
        count = max(1, self.records // 1440)
        records = [order(number) for number in range(count)]
        batch = build_batch(
            [one._replace(offset=n) for n, one in enumerate(records)], base_offset=view.end
        )
        lane = LaneBatches(
            0, view.end, view.end + count - 1, count, NOW_MS, NOW_MS + count, [bytes(batch)]
        )
        built = segment.build(
            view.end, view.end + count, [lane], created_ms=NOW_MS, token=view.end + 1,
            predecessor=NOTHING_BEFORE,
        )  # fmt: skip
        self.bucket.put_new(keys.segment("default/orders/0", view.end), built.body)

    def connector(self) -> None:
        """The same by Spark's own connector."""
        out = self.folder / "connector"
        shutil.rmtree(out, ignore_errors=True)
        query = (
            self.spark.readStream.format("kafka")
            .option("kafka.bootstrap.servers", self.broker.bootstrap)
            .option("subscribe", "orders")
            .option("startingOffsets", "earliest")
            .option("includeHeaders", "true")
            .load()
            .selectExpr(
                "topic", "partition", "offset", "timestamp", "key", "headers",
                f"from_json(cast(value as string), '{SCHEMA}') as v",
            )
            .select("topic", "partition", "offset", "timestamp", "key", "headers", "v.*")
            .writeStream.format("parquet")
            .option("compression", "zstd")
            .option("path", str(out / "rows"))
            .option("checkpointLocation", str(out / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )  # fmt: skip
        query.awaitTermination()
        rows = self.spark.read.parquet(str(out / "rows")).count()
        assert rows == self.records, (rows, self.records)


def compare_ways(yard: Yard) -> bool:
    """Append and upsert, ours and the connector's."""
    print(f"{'way':44}{'CPU-s/GB':>10}{'broker':>8}{'wall s':>8}")
    append = _row(yard, "ours: append", yard.export(str(yard.folder / "append"), upsert=False))
    upsert = _row(
        yard, "ours: upsert, every key new", yard.export(str(yard.folder / "u"), upsert=True)
    )
    with yard.broker:
        try:
            into_delta = [_peer_row(yard, mode) for mode in ("append", "upsert")]
            add_connector(yard.spark)
        except Unavailable as reason:
            print(f"the connector cannot be had: {reason}")
            return True
        theirs = _row(yard, "Spark's Kafka connector into Parquet", yard.connector)
    print(
        f"an append table takes {append / into_delta[0]:.2f} of the connector's CPU into Delta, "
        f"{append / theirs:.2f} into Parquet; an upsert table {upsert / into_delta[1]:.2f} into "
        f"Delta; the bar is {CPU_BAR}"
    )
    return append <= CPU_BAR * min(theirs, into_delta[0]) and upsert <= CPU_BAR * into_delta[1]


def _peer_row(yard: Yard, mode: str) -> float:
    """The connector into Delta, by another Spark; CPU-seconds per GB without the broker's."""
    command, env = peer_call(
        bootstrap=yard.broker.bootstrap, folder=str(yard.folder / "peer"), mode=mode,
        topic="orders", schema=SCHEMA, runs=yard.runs,
    )  # fmt: skip
    before = _broker_cpu(yard)
    ran = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    if ran.returncode:
        raise Unavailable(ran.stderr[-2000:])
    found = json.loads(ran.stdout.splitlines()[-1])
    # The same data was read several times. Keys repeat in a large topic.
    broker = (_broker_cpu(yard) - before) / (yard.runs + 1)
    assert mode == "upsert" or found["rows"] == yard.records, found
    per_gb = found["cpu"] / yard.raw * 1e9
    name = f"Spark {found['spark']}, connector into Delta: {mode}"
    print(f"{name:44}{per_gb:10.1f}{broker / yard.raw * 1e9:8.1f}{found['wall']:8.1f}", flush=True)
    return float(per_gb)


def peer_call(**given: object) -> tuple[list[str], dict[str, str]]:
    """The command that runs the connector's way into Delta, and its environment."""
    python = python_with(f"pyspark=={DELTA_SPARK}", "psutil")
    script = str(Path(__file__).parent / "spark_delta_peer.py")
    names = ("PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON", "SPARK_HOME")
    env = {name: value for name, value in os.environ.items() if name not in names}
    return [python, script, json.dumps({**given, "jars": jars(*DELTA_JARS)})], env


def _row(yard: Yard, name: str, work: Callable[[], None]) -> float:
    """CPU-seconds per GB without the broker's."""
    broker = 0.0

    def watched() -> None:
        nonlocal broker
        before = _broker_cpu(yard)
        work()
        broker = _broker_cpu(yard) - before

    cpu, wall = measured(watched, yard.runs, yard.cpu)
    per_gb = (cpu - broker) / yard.raw * 1e9
    print(f"{name:44}{per_gb:10.1f}{broker / yard.raw * 1e9:8.1f}{wall:8.1f}", flush=True)
    return per_gb


def _broker_cpu(yard: Yard) -> float:
    return sum(psutil.Process(yard.broker.pid).cpu_times()[:2]) if yard.broker.running else 0.0


def compare_sql(yard: Yard, small: Yard) -> bool:
    """One query over table and log, over the log, over the files; of two sizes."""
    print(f"{'SQL over':30}{'CPU-s':>8}{'wall s':>8}{'CPU-s, small':>14}{'CPU-s/GB':>10}")
    sized = {}
    for each in (small, yard):
        each.export(str(each.broker.data / "objects/default/@tables/orders"), upsert=False)()
        each.add_tail()
        sized[each] = _query_costs(each)
    for name, (cpu, wall) in sized[yard].items():
        fixed = sized[small][name][0]
        per_gb = (cpu - fixed) / (yard.raw - small.raw) * 1e9
        print(f"{name:30}{cpu:8.2f}{wall:8.2f}{fixed:14.2f}{per_gb:10.2f}", flush=True)
    found = {name: cpu for name, (cpu, _) in sized[yard].items()}
    both, files = found["table and log"], found["the files"]
    print(
        f"table and log take {both / files:.2f} of the CPU of the files alone (the bar is "
        f"{SQL_BAR}), {both / found['the log']:.2f} of the log alone; a lasting view "
        f"{found['the same by a lasting view'] / files:.2f} of the files alone"
    )
    return both <= SQL_BAR * files


def _query_costs(yard: Yard) -> dict[str, tuple[float, float]]:
    """CPU and wall seconds by way."""
    files = yard.spark.read.parquet(str(yard.broker.data / "objects/default/@tables/orders"))
    files.createOrReplaceTempView("files")
    views = register_topics(yard.spark, yard.bucket.url)

    def both() -> None:
        register_topics(yard.spark, yard.bucket.url, ()).sql(QUERY).collect()

    def view() -> None:
        yard.spark.sql(QUERY.replace("topic.orders", "`topic.orders`")).collect()

    def log() -> None:
        register_topics(
            yard.spark, yard.bucket.url, (), use_tables=False,
            valueFormat="json", valueSchema=SCHEMA,
        ).sql(QUERY).collect()  # fmt: skip

    def alone() -> None:
        yard.spark.sql("select state, count(*), sum(amount) from files group by 1").collect()

    assert views.names == ["orders"]
    ways = {"table and log": both, "the same by a lasting view": view, "the files": alone}
    measures = {name: measured(work, yard.runs, yard.cpu) for name, work in ways.items()}
    return measures | {"the log": measured(log, 1, yard.cpu)}


def main() -> int:
    """Print the tables; the exit code tells whether the bars were reached."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--mb", type=int, default=1000, help="raw megabytes of the topic")
    parser.add_argument("--topics", type=int, default=10_000, help="to be planned")
    parser.add_argument("--runs", type=int, default=2)
    parser.add_argument("--master", default="local[2]")
    parser.add_argument("--only", choices=PARTS, action="append", help="of the parts")
    given = parser.parse_args()
    parts = given.only or PARTS
    folder = Path(tempfile.mkdtemp(prefix="kafscale-tables-"))
    passed = []
    try:
        if "planning" in parts:
            passed.append(plan_topics(folder / "many", given.topics))
        if {"ways", "sql"} & set(parts):
            yard = Yard(folder / "yard", given.mb * 10**6, given.master, given.runs)
            facts = {"raw_mb": yard.raw / 1e6, "records": yard.records}
            print(json.dumps({**facts, "load": os.getloadavg()[0], "spark": yard.spark.version}))
            if "ways" in parts:
                passed.append(compare_ways(yard))
            if "sql" in parts:
                small = Yard(folder / "small", given.mb * 10**4, given.master, given.runs)
                passed.append(compare_sql(yard, small))
            yard.spark.stop()
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return 0 if all(passed) else BELOW_BAR


if __name__ == "__main__":
    sys.exit(main())
