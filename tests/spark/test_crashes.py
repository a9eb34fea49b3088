"""Drivers and workers killed at any moment: nothing half made is ever seen, a rerun is right."""

import os
import random
import time
from pathlib import Path

import pytest

from kafscale.model.errors import UnknownTopic
from kafscale.records.record import Record
from kafscale.spark.bucket import Bucket
from tests.spark.kafka import consume, create, produce
from tests.spark.killing import Jobs, one_job
from tests.support.broker import KafscaleProcess
from tests.unit.spark.jobs.test_export import Lake
from tests.unit.spark.loaded import bucket_in, load, numbered, objects, records_of

COUNT = 400_000
SEED = int(os.environ.get("KAFSCALE_TEST_SEED", "7"))
ROUNDS = int(os.environ.get("KAFSCALE_TEST_ROUNDS", "3"))


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


def whole_load(bucket: Bucket, topic: str, count: int = COUNT) -> bool:
    """Every row of the DataFrame, once, in order within its partition."""
    logs = records_of(bucket, bucket.topic(topic))
    numbers = [[int((r.value or b"")[: len(r.value or b"") // 5]) for r in log] for log in logs]
    assert all(log == sorted(log) for log in numbers)
    return sorted(number for log in numbers for number in log) == list(range(count))


def test_a_bulk_load_whose_driver_is_killed_shows_nothing_or_everything(folder: Path) -> None:
    bucket = Bucket(f"file://{folder}")
    dice = random.Random(SEED)
    topic = "loaded"
    job = one_job(folder, "load", topic=topic, count=COUNT)
    job.wait_for("working")
    time.sleep(dice.uniform(0.2, 4.0))
    job.kill()
    if is_visible(bucket, topic):
        assert whole_load(bucket, topic)
        topic += "-again"
    job = one_job(folder, "load", topic=topic, count=COUNT)
    job.wait_for("working")
    while not job.kill_a_worker():
        assert job.process.poll() is None, "no worker was ever seen"
    job.finish()
    assert whole_load(bucket, topic)


@pytest.mark.deep
def test_a_conversion_that_is_killed_goes_on_and_is_the_same(folder: Path) -> None:
    bucket = Bucket(f"file://{folder}")
    dice = random.Random(SEED)
    tasks = [[numbered(at, 4000)] for at in range(0, 80_000, 4000)]
    old = load(bucket, "old", 4, tasks, segment_bytes="100000")
    arguments = {"topic": "old", "to": "new", "partitions": 3}
    for _ in range(2):
        job = one_job(folder, "convert", **arguments)
        job.wait_for("working")
        time.sleep(dice.uniform(0.2, 3.0))
        job.kill()
        if is_visible(bucket, "new"):
            break
        assert not [key for key in objects(bucket, "default/new") if "descriptor" in key]
    job = one_job(folder, "convert", **arguments)
    job.finish()
    before, after = (
        sorted(tuple(map(repr, record[1:])) for log in records_of(bucket, topic) for record in log)
        for topic in (old, bucket.topic("new"))
    )
    assert after == before
    assert objects(bucket, "default/@convert") == []


# -- a few kills of drivers on Spark, at random moments ---------------------------------------


def killed_on_spark(folder: Path, job: str, dice: random.Random, **arguments: object) -> None:
    """Start it on Spark and kill everything after some units have begun, at any point of them."""
    with Jobs(folder, [(job, arguments)], marks=True) as run:
        run.wait_for("working")
        begun, later_s = dice.randrange(1, 5), dice.uniform(0, 0.8)
        run.next_mark(begun)
        time.sleep(later_s)
        print(f"{job}: killed {later_s:.2f} s after unit {begun} had begun")
        run.kill()


def test_an_export_on_spark_whose_driver_is_killed_doubles_and_loses_nothing(
    folder: Path, tmp_path: Path
) -> None:
    bucket = Bucket(f"file://{folder}")
    dice = random.Random(SEED)
    print(f"seed {SEED}")
    topic = load(bucket, "old", 3, [[numbered(at, 3000)] for at in range(0, 60_000, 3000)])
    lake = Lake(tmp_path, "delta")
    arguments = {"topic": "old", "table": lake.url, "format": "delta"}
    killed_on_spark(folder, "export", dice, **arguments)
    one_job(folder, "export", spark=False, **arguments).finish()
    found = [
        (
            row["_partition"],
            row["_offset"],
            row["_key"],
            row["value"],
            row["_timestamp"].timestamp(),
        )
        for _, row in sorted(lake.rows().items())
    ]
    assert found == [
        (number, record.offset, record.key, record.value, record.timestamp_ms / 1000)
        for number, log in enumerate(records_of(bucket, topic))
        for record in log
    ]


def test_a_mirror_on_spark_whose_driver_is_killed_has_every_record_once(
    folder: Path, broker: KafscaleProcess
) -> None:
    bucket = Bucket(f"file://{folder}")
    dice = random.Random(SEED)
    print(f"seed {SEED}")
    create(broker.bootstrap, "far-off", 4)
    produce(broker.bootstrap, "far-off", [(at % 4, b"k%d" % at, b"v" * 300) for at in range(8000)])
    arguments = {"topic": "far-off", "source": broker.bootstrap}
    killed_on_spark(folder, "mirror", dice, **arguments)
    one_job(folder, "mirror", spark=False, **arguments).finish()
    assert copied(bucket, "far-off") == [row[:6] for row in consume(broker.bootstrap, "far-off", 4)]


# -- many kills, without Spark: the same drivers, working on their units themselves -----------


def killed_often(folder: Path, job: str, rounds: int, **arguments: object) -> int:
    """Start, kill at a random moment, look; how often it was killed before it was done."""
    dice = random.Random(SEED)
    killed = 0
    for _ in range(rounds):
        run = one_job(folder, job, spark=False, **arguments)
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
        one_job(folder, "convert", spark=False, **arguments).finish()
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
        one_job(folder, "load", spark=False, topic="t", count=COUNT).finish()
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
    one_job(folder, "mirror", spark=False, **arguments).finish()
    assert copied(bucket, "far") == [row[:6] for row in consume(broker.bootstrap, "far", 2)]


def copied(bucket: Bucket, topic: str) -> list[tuple[object, ...]]:
    """What a mirror has, as a consumer of its source would see it."""
    return [
        (topic, number, r.offset, r.key, r.value, r.timestamp_ms)
        for number, log in enumerate(records_of(bucket, bucket.topic(topic)))
        for r in log
    ]
