"""Exports that are killed, on Spark and without it: no record is lost or doubled.

Next door: every step an export can die between, one by one (tests/unit/spark/jobs/test_export.py).
"""

import multiprocessing
import os
import random
import signal
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from pathlib import Path

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from kafscale.records.compression import Codec
from kafscale.spark.bucket import Bucket
from kafscale.spark.job import Context
from kafscale.spark.jobs import export as export_job
from kafscale.spark.jobs.export import ExportRequest, ExportResult, run_export
from kafscale.spark.kernels import decoder
from kafscale.spark.kernels.positions_plain import PlainFinder
from kafscale.spark.lake.parquet import committed_files
from kafscale.spark.lake.unit import ExportedFiles, ExportTarget, export_unit
from kafscale.spark.source.plan.splits import Split
from kafscale.spark.values import formats as values
from tests.unit.spark.jobs.test_export import Lake, check
from tests.unit.spark.topics import HOUR_MS, Topic

JSON = values.spec_of("json", "id bigint, name string")


@pytest.fixture
def topic(tmp_path: Path) -> Topic:
    made = Topic(tmp_path / "objects", partitions=3)
    for flush in range(6):
        for partition in range(3):
            rows: list[bytes | None] = [
                b'{"id":%d,"name":"%s"}' % (at, b"x" * 50) if at % 97 else b"broken"
                for at in range(400)
            ]
            codec = (Codec.NONE, Codec.LZ4, Codec.ZSTD)[partition]
            made.flush(partition, rows, step_ms=HOUR_MS // 60 + flush, codec=codec)
    return made


def export(url: str, wish: ExportRequest, session: SparkSession | None = None) -> ExportResult:
    """In many small units and rounds, so that there are many moments to die at."""
    (done,) = run_export(Context(Bucket(url), ("orders",), session=session), wish)
    return done


def export_at_once(url: str, wish: ExportRequest) -> None:
    """In a new process, without the seconds it takes to compile a decoder."""
    decoder.position_finder = lambda fast=None: PlainFinder()  # type: ignore[assignment]
    export(url, wish)


def files_in(folder: Path) -> int:
    return sum(1 for _ in folder.rglob("*.parquet"))


def small(lake: Lake, **more: int) -> ExportRequest:
    return lake.wish(values=JSON, **{"unit_bytes": 1 << 15, "round_bytes": 1 << 17, **more})


@pytest.mark.parametrize("kind", ["parquet", "delta", "iceberg"])
def test_an_export_killed_again_and_again_gets_there(
    topic: Topic, tmp_path: Path, kind: str
) -> None:
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    dice = random.Random(seed)
    lake = Lake(tmp_path, kind)
    processes = multiprocessing.get_context("forkserver")
    processes.set_forkserver_preload(["tests.spark.test_export", f"kafscale.spark.lake.{kind}"])
    killed = 0
    for _ in range(5):
        process = processes.Process(target=export_at_once, args=(topic.url, small(lake)))
        process.start()
        # At a moment that does not depend on how busy the machine is: after so many more files.
        enough = files_in(tmp_path) + dice.randrange(8)
        while process.is_alive() and files_in(tmp_path) < enough:
            time.sleep(0.002)
        time.sleep(dice.uniform(0, 0.02))
        process.kill()
        process.join()
        killed += process.exitcode == -signal.SIGKILL
        print(f"left behind: {files_in(tmp_path)} files")
        topic.flush(dice.randrange(3), [b'{"id":1}', b"broken too"] * 20)
    print(f"killed {killed} of 5 while at work")
    assert killed
    export(topic.url, small(lake))
    check(topic, lake)
    assert export(topic.url, small(lake)).commits == 0


@pytest.mark.parametrize("kind", ["parquet", "delta", "iceberg"])
def test_two_exports_at_once_double_nothing(topic: Topic, tmp_path: Path, kind: str) -> None:
    lake = Lake(tmp_path, kind)
    wish = small(lake, round_bytes=1 << 15)
    with ThreadPoolExecutor(2) as both:
        done = [both.submit(export, topic.url, wish) for _ in range(2)]
    results = [one.result() for one in done]
    print([(one.commits, one.races_lost) for one in results])
    check(topic, lake)
    assert sum(one.rows for one in results) == len(lake.rows())


def dying_unit(marks: Path, unit: tuple[ExportTarget, Split]) -> ExportedFiles:
    """Do the work, and then die before Spark hears of it; the first two tasks that come here do."""
    result = export_unit(unit)
    for number in range(2):
        with suppress(FileExistsError):
            (marks / f"died-{number}").touch(exist_ok=False)
            os.kill(os.getpid(), signal.SIGKILL)
    return result


def test_on_spark_workers_may_die(
    spark: SparkSession, topic: Topic, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On one machine Spark gives a task one chance; the next export makes up for it."""
    lake = Lake(tmp_path, "parquet")
    wish = small(lake, unit_bytes=1 << 17, round_bytes=1 << 20)
    monkeypatch.setattr(export_job, "export_unit", partial(dying_unit, tmp_path))
    failures: list[str] = []
    while len(failures) < 3:
        try:
            export(topic.url, wish, spark)
            break
        except (PySparkException, Py4JJavaError) as failed:
            failures.append(str(failed))
    assert 1 <= len(failures) <= 2
    assert all("Python worker exited unexpectedly" in failed for failed in failures)
    check(topic, lake)
    orphans = sum(1 for _ in Path(lake.url).rglob("*.parquet")) - len(committed_files(lake.url))
    assert orphans > 0
