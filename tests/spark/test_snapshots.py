"""Named snapshots beside a live broker that deletes what is too old."""

import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from kafscale.cli.main import main
from kafscale.spark.bucket import Bucket
from kafscale.spark.job import Context
from kafscale.spark.jobs.compact import compact
from kafscale.spark.jobs.logs import removal
from kafscale.spark.source.pins import SnapshotError
from tests.spark import kafka
from tests.support.broker import KafscaleProcess
from tests.unit.spark.source.rows.test_reading import offsets, options, read

SETTINGS = (
    "storage.rollupObjects=5",
    "storage.gracePeriod=1s",
    "storage.housekeepingInterval=1s",
)
STEP, RECORDS = 100, 400
# One flush and no second one by mistake: five of them are rolled up, four would wait for a fifth.
IN_ONE_GO: dict[str, Any] = {"linger.ms": 10_000, "enable.idempotence": True}


@pytest.fixture
def hasty() -> Iterator[KafscaleProcess]:
    """A broker whose deleter does not wait for readers."""
    with KafscaleProcess(settings=SETTINGS) as process:
        yield process


def kafscale(*words: str) -> None:
    assert main(words) == 0


def eventually(what: str, is_so: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 120
    while not is_so():
        assert time.monotonic() < deadline, what
        time.sleep(0.1)


def objects(broker: KafscaleProcess, topic: str) -> set[str]:
    return {path.name for path in (broker.data / "objects" / "default" / topic).rglob("*.kfs")}


def fill(broker: KafscaleProcess, topic: str) -> set[str]:
    """A topic whose records all belong to its past, in four objects or more."""
    kafka.create(broker.bootstrap, topic, 1)
    bucket = Bucket(f"file://{broker.data}")
    for reached in range(STEP, RECORDS + 1, STEP):
        for at in range(reached - STEP, reached, 20):
            kafka.produce(broker.bootstrap, topic, [(0, b"k%d" % at, b"v" * 50)] * 20, **IN_ONE_GO)
        eventually(
            "the broker rolls up",
            lambda reached=reached: (
                bucket.snapshots(bucket.topic(topic))[0].manifest.end == reached
            ),
        )
    return objects(broker, topic)


def test_a_snapshot_outlives_retention_and_compaction_until_it_is_released(
    hasty: KafscaleProcess, spark: SparkSession, capsys: pytest.CaptureFixture[str]
) -> None:
    store = f"file://{hasty.data}"
    held, control = fill(hasty, "t"), fill(hasty, "control")
    assert min(len(held), len(control)) >= RECORDS // STEP
    kafscale("snapshots", "take", "before", "--store", store, "--topic", "t", "--keep", "1h")
    kafscale("snapshots", "take", "short", "--store", store, "--topic", "t", "--keep", "1s")
    capsys.readouterr()
    kafscale("snapshots", "list", "--store", store)
    listed = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in listed] == ["name", "before", "short"]
    (joined,) = compact(Context(Bucket(store), ("t",), session=spark)).rows
    assert joined["objects_after"] < joined["objects_before"]
    for topic in ("t", "control"):
        words = ("--bootstrap", hasty.bootstrap, "--set", "retention.ms=3600000")
        kafscale("configs", "alter", topic, *words)
    # What happened to the topic without a snapshot had its chance to happen to the other.
    eventually("retention deletes", lambda: not control & objects(hasty, "control"))
    # A broker in such a hurry may have to say "once more": a plain producer would write twice then.
    once = {"enable.idempotence": True}
    young = [(0, None, b"young")] * 3
    kafka.produce(hasty.bootstrap, "t", young, start_ms=int(time.time() * 1000), **once)
    time.sleep(1.1)
    removal.sweep_all(Context(Bucket(store), ("t",)), grace_s=1.0)
    assert offsets(read(options(store))) == [RECORDS, RECORDS + 1, RECORDS + 2]
    assert offsets(read(options(store, asOf="before"))) == list(range(RECORDS))

    late = spark.read.format("kafscale").options(store=store, subscribe="t", asOf="short")
    with pytest.raises(PySparkException, match="the snapshot 'short' has expired"):
        late.load().collect()

    kafscale("snapshots", "release", "before", "--store", store)
    eventually("what was held is deleted", lambda: not held & objects(hasty, "t"))
    with pytest.raises(SnapshotError, match="no snapshot 'before'"):
        read(options(store, asOf="before"))
