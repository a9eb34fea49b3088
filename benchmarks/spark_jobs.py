"""What the jobs of the data pipeline cost, per byte: `python -m benchmarks.spark_jobs`.

In this room: topics made of ready batches, the jobs on `local[2]`, processor seconds of driver, JVM
and workers together. The data is in memory; Spark has run each job before.

On a disk (`--folder`) writing may cost more CPU than the job itself: in one virtual machine the
kernel's copy into its cache took 1.0 s for 500 MB of new files (79 % of all samples of a program
that did nothing else), and 0.13 s where the same file was written again.
Next door: brokers under clients (compare.py).
"""

import argparse
import asyncio
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import psutil

from benchmarks.topics import ReadCold, make_topic, read_cold
from kafscale.spark.bucket import Bucket
from kafscale.spark.job import Context, Report
from kafscale.spark.jobs.audit import audit
from kafscale.spark.jobs.compact import compact
from kafscale.spark.jobs.compaction.by_key import compact_by_key
from kafscale.spark.session import open_session

MB = 1_000_000


class Line(NamedTuple):
    """One line of the table."""

    what: str
    size: int
    wall_s: float
    cpu_s: float
    bar: float | None  # MB per CPU second it must reach


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mb", type=int, default=500, help="megabytes of batches per job")
    parser.add_argument("--objects", type=int, default=20_000, help="one-flush objects to join")
    parser.add_argument("--runs", type=int, default=3, help="the best of so many counts")
    parser.add_argument("--folder", help="for the data; else memory (/dev/shm), where it fits")
    args = parser.parse_args()
    args.folder = args.folder or _in_memory(args)
    with tempfile.TemporaryDirectory(prefix="kafscale-jobs-", dir=args.folder) as folder:
        spark = open_session(
            "benchmark", "local[2]", {"spark.driver.memory": "1g", "spark.local.dir": folder}
        )
        try:
            _measure(spark, Path(folder), args)
        finally:
            spark.stop()


def _in_memory(args: argparse.Namespace) -> str | None:
    """A file system in memory: a disk's own costs are not the jobs'."""
    shared = Path("/dev/shm")
    room = shutil.disk_usage(shared).free if shared.is_dir() else 0
    return str(shared) if room > 3 * args.mb * MB + 300 * MB else None


def _measure(spark: Any, folder: Path, args: argparse.Namespace) -> None:
    where = args.folder or tempfile.gettempdir()
    print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}, local[2], files in {where},")
    print(f"records of 200 bytes in batches of 16 KB; best of {args.runs} by CPU\n")
    warm = make_topic(folder / "warm", "warm", 400 * MB, object_bytes=4 << 20)
    for _ in range(3):  # until both workers have loaded and compiled what they need
        audit(Context(Bucket(warm), session=spark))
    compact(Context(Bucket(warm), session=spark))
    shutil.rmtree(folder / "warm")
    lines = []
    for codec in ("none", "lz4", "zstd"):
        url = make_topic(folder / codec, "big", args.mb * MB, object_bytes=4 << 20, codec=codec)
        bar = 600.0 if codec == "none" else None
        lines.append(_best(args, f"audit, {codec}", args.mb * MB, bar, _audit(spark, url)))
        shutil.rmtree(folder / codec)
    lines.append(_merge(spark, folder, args))
    lines.append(_by_key(spark, folder, args))
    _print(lines)
    with tempfile.TemporaryDirectory(prefix="kafscale-cold-") as on_disk:
        _cold(spark, Path(on_disk), args)


def _audit(spark: Any, url: str) -> Callable[[], Report]:
    return lambda: audit(Context(Bucket(url), session=spark))


def _merge(spark: Any, folder: Path, args: argparse.Namespace) -> Line:
    found = []
    for run in range(args.runs):
        url = make_topic(folder / f"merge-{run}", "big", args.mb * MB, object_bytes=4 << 20)
        job = lambda url=url: compact(Context(Bucket(url), session=spark))  # noqa: E731
        found.append(_timed("merge 4 MiB objects into 100 MiB", args.mb * MB, 350.0, job))
        shutil.rmtree(folder / f"merge-{run}")
    return min(found, key=lambda line: line.cpu_s)


def _by_key(spark: Any, folder: Path, args: argparse.Namespace) -> Line:
    url = make_topic(folder / "keys", "big", args.mb * MB, object_bytes=4 << 20)
    job = lambda: compact_by_key(Context(Bucket(url), session=spark), dirty_ratio=0)  # noqa: E731
    line = _timed("compact by key", args.mb * MB, None, job)
    shutil.rmtree(folder / "keys")
    return line


def _best(
    args: argparse.Namespace, what: str, size: int, bar: float | None, job: Callable[[], Report]
) -> Line:
    found = [_timed(what, size, bar, job) for _ in range(args.runs)]
    return min(found, key=lambda line: line.cpu_s)


def _timed(what: str, size: int, bar: float | None, job: Callable[[], Report]) -> Line:
    cpu, wall = _cpu_s(), time.perf_counter()
    report = job()
    line = Line(what, size, time.perf_counter() - wall, _cpu_s() - cpu, bar)
    if report.exit_code:
        sys.exit(f"{what}: {report.rows[:3]} {report.notes[:3]}")
    return line


def _cpu_s() -> float:
    """This process, the JVM it started, the workers that one started, and those that ended."""
    me = psutil.Process()
    total = 0.0
    for process in (me, *me.children(recursive=True)):
        times = process.cpu_times()
        total += times.user + times.system + times.children_user + times.children_system
    return total


def _print(lines: Sequence[Line]) -> None:
    print(f"{'job':<36}{'MB':>7}{'wall s':>9}{'CPU s':>9}{'MB/CPU s':>10}{'bar':>7}")
    for line in lines:
        rate = line.size / MB / line.cpu_s
        bar = "" if line.bar is None else f"{line.bar:.0f}"
        print(
            f"{line.what:<36}{line.size / MB:>7.0f}{line.wall_s:>9.2f}{line.cpu_s:>9.2f}"
            f"{rate:>10.0f}{bar:>7}"
        )


def _fastest(url: str, runs: int) -> ReadCold:
    return min((asyncio.run(read_cold(url)) for _ in range(runs)), key=lambda one: one.seconds)


def _cold(spark: Any, folder: Path, args: argparse.Namespace) -> None:
    """How fast a broker's reader gets through a topic it has nothing of in memory."""
    url = make_topic(
        folder / "cold", "cold", args.objects * 850, object_bytes=1000, batch_records=4
    )
    before = _fastest(url, args.runs)
    job = lambda: compact(Context(Bucket(url), session=spark))  # noqa: E731
    line = _timed("", before.size, None, job)
    after = _fastest(url, args.runs)
    print("\none-flush objects on disk, read from the beginning with empty caches:")
    for name, one in (("before", before), ("after", after)):
        print(f"  {name:<7}{one.size / MB / one.seconds:>9.1f} MB/s  ({one.objects:,} objects)")
    print(f"  compaction took {line.wall_s:.1f} s and {line.cpu_s:.1f} CPU s;", end=" ")
    print(f"reading is {before.seconds / after.seconds:.1f} times as fast (bar: 10)")


if __name__ == "__main__":
    main()
