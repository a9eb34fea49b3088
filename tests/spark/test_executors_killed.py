"""Executors of a cluster killed while they work: the jobs get there all the same, row by row.

Of every job a Python worker or an executor's JVM is killed in the middle of a unit of work, by the
seed; both and more of them with a higher KAFSCALE_TEST_ROUNDS.
Next door: drivers that are killed (test_crashes.py, test_jobs_killed.py).
"""

import os
import random
from pathlib import Path

import psutil

from benchmarks.topics import make_topic
from kafscale.log.protocol import commits
from kafscale.spark.bucket import Bucket
from tests.spark.killing import Jobs
from tests.spark.test_crashes import contents, whole_load
from tests.spark.test_jobs_killed import FOLDER, newest_of_each_key, rows
from tests.support.spark_cluster import SparkCluster
from tests.unit.spark.jobs.test_export import Lake
from tests.unit.spark.loaded import load, numbered, records_of

SEED = int(os.environ.get("KAFSCALE_TEST_SEED", str(random.randrange(2**32))))
ROUNDS = int(os.environ.get("KAFSCALE_TEST_ROUNDS", "1"))
COUNT = 30_000


def kill(pid: int, what: str, cluster: SparkCluster) -> None:
    """The process that works on a unit, or the executor it belongs to."""
    try:
        worker = psutil.Process(pid)
        family = [worker, *worker.parents()]
    except psutil.NoSuchProcess:
        raise AssertionError("the worker was gone before it was killed") from None
    jvms = {process.pid for process in cluster.executors()}
    (jvm,) = [process for process in family if process.pid in jvms]
    (jvm if what == "executor" else worker).kill()


def test_jobs_whose_executors_are_killed_give_what_they_would_have_given(
    cluster: SparkCluster, tmp_path: Path
) -> None:
    print(f"seed {SEED}")
    dice = random.Random(SEED)
    folder = tmp_path / "objects"
    bucket = Bucket(make_topic(folder, "killed", 2_000_000, object_bytes=5000, batch_records=10))
    written = rows(bucket)
    tasks = [[numbered(at, 3000)] for at in range(0, 15_000, 3000)]
    old = load(bucket, "old", 4, tasks, segment_bytes="100000")
    lake = Lake(tmp_path, "delta")
    jobs: list[tuple[str, dict[str, object]]] = [
        ("load", {"topic": "loaded", "count": COUNT, "segment.bytes": "100000"}),
        ("convert", {"topic": "old", "to": "new", "partitions": 3}),
        ("export", {"topic": "old", "table": lake.url, "format": "delta"}),
        ("compact", {"topic": "killed"}),
        ("by-key", {"topic": "killed"}),
    ]
    conf = cluster.conf(PYTHONPATH=cluster.installed())
    with Jobs(folder, jobs, marks=True, master=cluster.url, conf=conf) as run:
        kinds = dice.sample(["worker", "executor"] * len(jobs) * ROUNDS, len(jobs) * ROUNDS)
        for job, _ in jobs:
            run.wait_for("working")
            for what in (kinds.pop() for _ in range(ROUNDS)):
                kill(run.next_mark(), what, cluster)
                print(f"{job}: killed the {what}")
            run.wait_for("done")
            if job == "compact":
                assert rows(bucket) == written
        assert run.process.wait(120) == 0

    assert whole_load(bucket, "loaded", COUNT)
    expected = records_of(bucket, old)
    assert contents(records_of(bucket, bucket.topic("new"))) == contents(expected)
    found = {place: (row["_key"], row["value"]) for place, row in lake.rows().items()}
    assert found == {
        (number, record.offset): (record.key, record.value)
        for number, log in enumerate(expected)
        for record in log
    }
    assert rows(bucket) == newest_of_each_key(written)
    newest = bucket.run(lambda store: commits.read_newest(store, FOLDER))
    assert len(newest.segments) < 50
