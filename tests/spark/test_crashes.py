"""Drivers and workers killed at any moment: nothing half made is ever seen, a rerun is right."""

import contextlib
import json
import os
import random
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from kafscale.model.errors import UnknownTopic
from kafscale.records.record import Record
from kafscale.spark.bucket import Bucket
from tests.spark.kafka import consume, create, produce
from tests.support.broker import KafscaleProcess
from tests.unit.spark.loaded import bucket_in, load, numbered, objects, records_of

ROOT = Path(__file__).parents[2]
COUNT = 400_000
SEED = int(os.environ.get("KAFSCALE_TEST_SEED", "7"))
ROUNDS = int(os.environ.get("KAFSCALE_TEST_ROUNDS", "3"))


class Job:
    """A job's process; killing it kills Spark's JVM and the workers with it."""

    def __init__(self, folder: Path, job: str, **arguments: object) -> None:
        scratch = folder.parent / "scratch"
        scratch.mkdir(exist_ok=True)
        given = {"store": f"file://{folder}", "scratch": str(scratch), "spark": True, **arguments}
        self._output = (folder.parent / "output").open("ab")
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.spark.crashing", job, json.dumps(given)],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=self._output,
            text=True,
        )

    def wait_for(self, word: str) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if line.strip() == word:
                return
        raise AssertionError(f"the job ended before it said {word!r}")

    def family(self) -> list[psutil.Process]:
        """The driver, the JVM and all workers."""
        return [psutil.Process(self.process.pid), *psutil.Process(self.process.pid).children(True)]

    def kill(self) -> None:
        """All at once, as when a machine loses power."""
        for one in reversed(self.family()):
            with contextlib.suppress(psutil.NoSuchProcess):  # it went with one killed before
                one.kill()
        self.process.wait()
        self._close()

    def kill_alone(self) -> None:
        """A driver without Spark has no children."""
        self.process.kill()
        self.process.wait()
        self._close()

    def kill_a_worker(self) -> bool:
        """One of the Python processes that do the work, if there is any now."""
        workers = [one for one in self.family() if is_worker(one)]
        for one in workers:
            try:
                one.kill()
            except psutil.NoSuchProcess:
                continue  # it has ended meanwhile: the next one
            return True
        return False

    def finish(self) -> None:
        self.wait_for("done")
        assert self.process.wait(60) == 0
        self._close()

    def _close(self) -> None:
        assert self.process.stdout is not None
        self.process.stdout.close()
        self._output.close()


def is_worker(process: psutil.Process) -> bool:
    """Whether this is a process of Spark's that runs our code; one that ends right now is none."""
    try:
        return "pyspark.daemon" in " ".join(process.cmdline()) and not process.children()
    except psutil.Error:
        return False


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    found = tmp_path / "objects"
    found.mkdir()
    bucket_in(found)
    return found


def is_visible(bucket: Bucket, topic: str) -> bool:
    try:
        bucket.topic(topic)
    except UnknownTopic:
        return False
    return True


def whole_load(bucket: Bucket, topic: str) -> bool:
    """Every row of the DataFrame, once, in order within its partition."""
    logs = records_of(bucket, bucket.topic(topic))
    numbers = [[int((r.value or b"")[: len(r.value or b"") // 5]) for r in log] for log in logs]
    assert all(log == sorted(log) for log in numbers)
    return sorted(number for log in numbers for number in log) == list(range(COUNT))


@pytest.mark.timeout(280)
def test_a_bulk_load_whose_driver_is_killed_shows_nothing_or_everything(folder: Path) -> None:
    bucket = Bucket(f"file://{folder}")
    dice = random.Random(SEED)
    topic = "loaded"
    job = Job(folder, "load", topic=topic, count=COUNT)
    job.wait_for("working")
    time.sleep(dice.uniform(0.2, 4.0))
    job.kill()
    if is_visible(bucket, topic):
        assert whole_load(bucket, topic)
        topic += "-again"
    job = Job(folder, "load", topic=topic, count=COUNT)
    job.wait_for("working")
    while not job.kill_a_worker():
        assert job.process.poll() is None, "no worker was ever seen"
    job.finish()
    assert whole_load(bucket, topic)


@pytest.mark.deep
@pytest.mark.timeout(600)
def test_a_conversion_that_is_killed_goes_on_and_is_the_same(folder: Path) -> None:
    bucket = Bucket(f"file://{folder}")
    dice = random.Random(SEED)
    tasks = [[numbered(at, 4000)] for at in range(0, 80_000, 4000)]
    old = load(bucket, "old", 4, tasks, segment_bytes="100000")
    arguments = {"topic": "old", "to": "new", "partitions": 3}
    for _ in range(2):
        job = Job(folder, "convert", **arguments)
        job.wait_for("working")
        time.sleep(dice.uniform(0.2, 3.0))
        job.kill()
        if is_visible(bucket, "new"):
            break
        assert not [key for key in objects(bucket, "default/new") if "descriptor" in key]
    job = Job(folder, "convert", **arguments)
    job.finish()
    before, after = (
        sorted(tuple(map(repr, record[1:])) for log in records_of(bucket, topic) for record in log)
        for topic in (old, bucket.topic("new"))
    )
    assert after == before
    assert objects(bucket, "default/@convert") == []


# -- many kills, without Spark: the same drivers, working on their units themselves -----------


def killed_often(folder: Path, job: str, rounds: int, **arguments: object) -> int:
    """Start, kill at a random moment, look; how often it was killed before it was done."""
    dice = random.Random(SEED)
    killed = 0
    for _ in range(rounds):
        run = Job(folder, job, spark=False, **arguments)
        run.wait_for("working")
        time.sleep(dice.expovariate(2.0))
        if run.process.poll() is None:
            killed += 1
        run.kill_alone()
    return killed


def test_a_conversion_killed_many_times_is_right_in_the_end(folder: Path) -> None:
    bucket = Bucket(f"file://{folder}")
    tasks = [[numbered(at, 4000)] for at in range(0, 80_000, 4000)]
    old = load(bucket, "old", 4, tasks, segment_bytes="40000")
    for to, partitions in (("new", 3), ("same", 4)):
        arguments = {"topic": "old", "to": to, "partitions": partitions}
        assert killed_often(folder, "convert", ROUNDS, **arguments) > 0
        Job(folder, "convert", spark=False, **arguments).finish()
        found = records_of(bucket, bucket.topic(to))
        if partitions == old.partitions:
            assert found == records_of(bucket, old)
        assert contents(found) == contents(records_of(bucket, old))


def contents(logs: list[list[Record]]) -> list[tuple[str, ...]]:
    return sorted(tuple(map(repr, record[1:])) for log in logs for record in log)


def test_a_load_killed_many_times_appears_once_and_whole(folder: Path) -> None:
    bucket = Bucket(f"file://{folder}")
    assert killed_often(folder, "load", ROUNDS, topic="t", count=COUNT) > 0
    if not is_visible(bucket, "t"):
        Job(folder, "load", spark=False, topic="t", count=COUNT).finish()
    assert whole_load(bucket, "t")


def test_a_mirror_killed_many_times_has_every_record_once(
    folder: Path, broker: KafscaleProcess
) -> None:
    bucket = Bucket(f"file://{folder}")
    create(broker.bootstrap, "far", 2)
    some = [(at % 2, b"k%d" % at, b"v" * 500) for at in range(20_000)]
    produce(broker.bootstrap, "far", some)
    arguments = {"topic": "far", "source": broker.bootstrap}
    assert killed_often(folder, "mirror", ROUNDS, **arguments) > 0
    Job(folder, "mirror", spark=False, **arguments).finish()
    ours = [
        ("far", number, r.offset, r.key, r.value, r.timestamp_ms)
        for number, log in enumerate(records_of(bucket, bucket.topic("far")))
        for r in log
    ]
    assert ours == [row[:6] for row in consume(broker.bootstrap, "far", 2)]
