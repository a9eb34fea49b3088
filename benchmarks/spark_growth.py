"""What becomes of the cost when data, cores or objects grow: `python -m benchmarks.spark_growth`.

In this room: the source and the export of one topic of 200-byte records at several sizes on two
cores, the smallest size on one core and on two; and a topic of very many one-flush objects, read
from its beginning before and after compaction, by Spark and as a broker reads it. Everything lies
in files. CPU seconds are those of the driver, the JVM and all workers; the best of several
runs counts, after one that warms up. A ratio near 1 per gigabyte means that size costs nothing
extra; twice the cores should take half the time at the same CPU seconds.
Next door: single figures and bars (spark_source.py, spark_export.py, spark_jobs.py).
"""

import argparse
import asyncio
import os
import resource
import shutil
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from pyspark.sql import SparkSession

from benchmarks import spark_export
from benchmarks.spark_source import ALL, TWO, CpuWatch, query
from benchmarks.spark_source import read as read_topic
from benchmarks.topics import make_topic, read_cold
from kafscale.records.compression import Codec
from kafscale.spark.bucket import Bucket
from kafscale.spark.job import Context
from kafscale.spark.jobs.compact import compact
from kafscale.spark.jobs.export import ExportRequest, run_export
from kafscale.spark.session import open_session

DRIVER_MEMORY = "1g"  # whatever the size
HEAD = f"{'work':30}{'GB':>6}{'cores':>7}{'wall s':>9}{'CPU s':>9}{'CPU-s/GB':>10}"


class Spent(NamedTuple):
    """One piece of work."""

    wall_s: float
    cpu_s: float


class Line(NamedTuple):
    """One line of the table."""

    work: str
    gb: float
    cores: int
    spent: Spent

    def __str__(self) -> str:
        wall_s, cpu_s = self.spent
        return (
            f"{self.work:30}{self.gb:6.2f}{self.cores:7}{wall_s:9.2f}{cpu_s:9.2f}"
            f"{cpu_s / self.gb:10.2f}"
        )


def main() -> None:
    """Print the tables and the ratios."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--gb", default="1,10", help="raw gigabytes, rising, by comma")
    parser.add_argument("--runs", type=int, default=2)
    parser.add_argument("--objects", type=int, default=100_000, help="one-flush objects; 0: none")
    parser.add_argument("--folder", help="for the data; else the place for temporary files")
    given = parser.parse_args()
    sizes = [float(one) for one in given.gb.split(",") if one]
    print(
        f"{os.cpu_count()} cores, load average {os.getloadavg()[0]:.1f} at the start, "
        f"best of {given.runs} runs after one to warm up"
    )
    with tempfile.TemporaryDirectory(prefix="kafscale-growth-", dir=given.folder) as folder:
        if sizes:
            growth(Path(folder), sizes, given.runs)
        if given.objects:
            many_objects(Path(folder), given.objects, given.runs)


def growth(folder: Path, sizes: list[float], runs: int) -> None:
    topics = {}
    for gb in sizes:
        root = folder / f"{gb}"
        bucket, rows, raw = spark_export.fill(root / "objects", int(gb * 1e9), Codec.NONE)
        topics[gb] = bucket, rows, raw
    print(HEAD, flush=True)
    found: dict[tuple[str, float, int], Spent] = {}
    for cores, some in ((1, sizes[:1]), (2, sizes)):
        spark = session(folder, cores)
        try:
            for gb in some:
                for work, spent in measured(spark, folder, *topics[gb], runs).items():
                    found[work, gb, cores] = spent
                    print(Line(work, topics[gb][2] / 1e9, cores, spent), flush=True)
        finally:
            spark.stop()
    for work in dict.fromkeys(work for work, _, _ in found):
        small, large = (found[work, gb, 2] for gb in (sizes[0], sizes[-1]))
        one = found[work, sizes[0], 1]
        per_gb = large.cpu_s / topics[sizes[-1]][2] / (small.cpu_s / topics[sizes[0]][2])
        print(
            f"{work}: {sizes[0]:g} -> {sizes[-1]:g} GB {per_gb:.2f} times the CPU per GB; "
            f"1 -> 2 cores {one.wall_s / small.wall_s:.2f} times as fast, "
            f"{small.cpu_s / one.cpu_s:.2f} times the CPU"
        )
    most_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"memory of the driver: {DRIVER_MEMORY} for the JVM, {most_mb:.0f} MB in Python at most")


def session(folder: Path, cores: int) -> SparkSession:
    conf = {"spark.driver.memory": DRIVER_MEMORY, "spark.local.dir": str(folder)}
    return open_session("growth", f"local[{cores}]", conf)


def measured(
    spark: SparkSession, folder: Path, bucket: Bucket, rows: int, raw: int, runs: int
) -> dict[str, Spent]:
    """The source with all columns and with two, and the export to zstd Parquet."""
    table = folder / "table"

    def scan(schema: str) -> None:
        query("", rows, raw, read_topic(spark, bucket.url, schema))

    def export() -> None:
        shutil.rmtree(table, ignore_errors=True)
        wish = ExportRequest(str(table), partition_by="none")
        (done,) = run_export(Context(bucket, ("orders",), session=spark), wish)
        if done.rows != rows:
            raise RuntimeError(f"{done.rows} rows were exported, not {rows}")

    works: dict[str, Callable[[], None]] = {
        "source, all columns": lambda: scan(ALL),
        "source, two columns": lambda: scan(TWO),
        "export to zstd Parquet": export,
    }
    found = {name: best(work, runs, warm_up=True) for name, work in works.items()}
    shutil.rmtree(table, ignore_errors=True)
    return found


def best(work: Callable[[], None], runs: int, *, warm_up: bool) -> Spent:
    """The cheapest of several runs by CPU."""
    found = []
    for _ in range(runs + warm_up):
        with CpuWatch() as watch:
            began = time.perf_counter()
            work()
            wall_s = time.perf_counter() - began
        found.append(Spent(wall_s, watch.spent_s()))
    return min(found[warm_up:], key=lambda one: one.cpu_s)


def many_objects(folder: Path, count: int, runs: int) -> None:
    """A topic of one-flush objects, read by Spark and as a broker reads, before and after."""
    began = time.perf_counter()
    size = count * 632  # what one batch of four records takes
    url = make_topic(folder / "cold", "orders", size, object_bytes=1000, batch_records=4)
    bucket = Bucket(url)
    [before] = bucket.snapshots(bucket.topic("orders"))
    size, rows = sum(piece.size for piece in before.pieces), before.end
    print(f"\n{len(before.pieces):,} objects, {size / 1e6:.0f} MB, {rows:,} records, ", end="")
    print(f"made in {time.perf_counter() - began:.0f} s; read with our caches empty:")
    print(HEAD, flush=True)
    spark = session(folder, 2)
    try:
        reading: dict[str, Callable[[], None]] = {
            "Spark": lambda: _scan(spark, url, rows, size),
            "a broker's reader": lambda: _read_cold(url),
        }
        first = {name: best(work, runs, warm_up=True) for name, work in reading.items()}
        _print(first, "before", size)
        joined = best(lambda: _compact(spark, bucket), 1, warm_up=False)
        print(Line("compact", size / 1e9, 2, joined), flush=True)
        second = {name: best(work, runs, warm_up=True) for name, work in reading.items()}
        _print(second, "after", size)
    finally:
        spark.stop()
    for name in reading:
        by_cpu = first[name].cpu_s / second[name].cpu_s
        by_clock = first[name].wall_s / second[name].wall_s
        print(f"{name}: after compaction {by_cpu:.1f} times less CPU, {by_clock:.1f} times as fast")


def _scan(spark: SparkSession, url: str, rows: int, size: int) -> None:
    query("", rows, size, read_topic(spark, url, ALL))


def _read_cold(url: str) -> None:
    asyncio.run(read_cold(url))


def _compact(spark: SparkSession, bucket: Bucket) -> None:
    report = compact(Context(bucket, session=spark))
    if report.exit_code:
        raise RuntimeError(str(report.notes))


def _print(found: dict[str, Spent], when: str, size: int) -> None:
    for name, spent in found.items():
        cores = 2 if name == "Spark" else 1
        print(Line(f"{name}, {when}", size / 1e9, cores, spent), flush=True)


if __name__ == "__main__":
    main()
