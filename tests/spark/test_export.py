"""Exports that are killed, on Spark and without it: no record is lost or doubled.

Next door: every step an export can die between, one by one (tests/unit/spark/jobs/test_export.py).
"""

import multiprocessing
import os
import random
import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psutil
import pytest
from pyspark.sql import SparkSession

from kafscale.records.compression import Codec
from kafscale.spark.bucket import Bucket
from kafscale.spark.job import Context
from kafscale.spark.jobs.export import Done, Wish, run_export
from kafscale.spark.kernels import decoder
from kafscale.spark.kernels.positions_plain import PlainEngine
from kafscale.spark.lake import values
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


def export(url: str, wish: Wish, session: SparkSession | None = None) -> Done:
    """In many small units and rounds, so that there are many moments to die at."""
    (done,) = run_export(Context(Bucket(url), ("orders",), session=session), wish)
    return done


def export_at_once(url: str, wish: Wish) -> None:
    """In a new process, without the seconds it takes to compile a decoder."""
    decoder.engine = lambda fast=None: PlainEngine()  # type: ignore[assignment]
    export(url, wish)


def small(lake: Lake, **more: int) -> Wish:
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
        time.sleep(dice.uniform(0.1, 2.5))
        assert process.pid is not None
        os.kill(process.pid, signal.SIGKILL)
        process.join()
        killed += process.exitcode == -signal.SIGKILL
        print(f"left behind: {sum(1 for _ in tmp_path.rglob('*.parquet'))} files")
        topic.flush(dice.randrange(3), [b'{"id":1}', b"broken too"] * 20)
    print(f"killed {killed} of 5 while at work")
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


def test_on_spark_a_worker_may_die(spark: SparkSession, topic: Topic, tmp_path: Path) -> None:
    """The units of a dead worker are lost with the job, and the next export makes up for it."""
    lake = Lake(tmp_path, "parquet")
    for number in range(2):
        victim = threading.Timer(0.3 + 0.5 * number, _kill_a_worker)
        victim.start()
        try:
            export(topic.url, small(lake, round_bytes=1 << 20), spark)
        except Exception as failed:  # whatever Spark says of it
            print(type(failed).__name__)
        victim.join()
    done = export(topic.url, small(lake), spark)
    check(topic, lake)
    assert done.races_lost == 0


def _kill_a_worker() -> None:
    """One that runs Python for Spark, not the daemon that starts them."""
    children = psutil.Process().children(recursive=True)
    workers = [
        child
        for child in children
        if any("pyspark" in word for word in child.cmdline())
        and any("pyspark" in word for word in child.parent().cmdline())  # type: ignore[union-attr]
        and child.name().startswith("python")
        and child.parent().name().startswith("python")  # type: ignore[union-attr]
    ]
    if workers:
        workers[-1].kill()
