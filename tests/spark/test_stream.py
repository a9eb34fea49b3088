"""The stream source: exactly the planned offsets, whatever stops and starts again."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import StreamingQuery

from tests.spark import kafka
from tests.support.broker import KafscaleProcess
from tests.support.process import BrokerProcess

DEADLINE_S = 240
ROOT = Path(__file__).parents[2]


def stream(spark: SparkSession, store: str, topic: str, **options: object) -> DataFrame:
    reader = (
        spark.readStream.format("kafscale")
        .schema("partition int, offset bigint, value binary")
        .option("store", store)
        .option("subscribe", topic)
        .option("startingOffsets", "earliest")
    )
    for name, value in options.items():
        reader = reader.option(name, str(value))
    return reader.load()


def write(frame: DataFrame, folder: Path, **trigger: Any) -> StreamingQuery:
    """Into files, whose sink takes each batch once."""
    return (
        frame.writeStream.format("json")
        .option("path", str(folder / "rows"))
        .option("checkpointLocation", str(folder / "checkpoint"))
        .trigger(**trigger)
        .start()
    )


def run(frame: DataFrame, folder: Path) -> StreamingQuery:
    """Read what is there now and stop."""
    query = write(frame, folder, availableNow=True)
    assert query.awaitTermination(DEADLINE_S)
    return query


def offsets(spark: SparkSession, folder: Path) -> Counter[tuple[int, int]]:
    rows = spark.read.json(str(folder / "rows")).select("partition", "offset").collect()
    return Counter((row["partition"], row["offset"]) for row in rows)


def once(partitions: int, each: int) -> Counter[tuple[int, int]]:
    return Counter((p, offset) for p in range(partitions) for offset in range(each))


def fill(broker: BrokerProcess, topic: str, partitions: int, each: int) -> None:
    rows = ((n % partitions, b"k%d" % n, b"v%d" % n) for n in range(partitions * each))
    kafka.produce(broker.bootstrap, topic, rows)


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.1)


def test_available_now_reads_all_in_limited_batches_and_nothing_twice(
    spark: SparkSession, broker: KafscaleProcess, store: str, tmp_path: Path
) -> None:
    kafka.create(broker.bootstrap, "now", 2)
    fill(broker, "now", 2, 500)
    limited = stream(spark, store, "now", maxOffsetsPerTrigger=300)
    query = run(limited, tmp_path)
    counts = [row["numInputRows"] for row in query.recentProgress if row["numInputRows"]]
    assert counts == [300, 300, 300, 100]
    latest = json.loads(query.recentProgress[-1]["sources"][0]["latestOffset"])
    assert latest == {"now": {"0": 500, "1": 500}}
    assert offsets(spark, tmp_path) == once(2, 500)
    run(limited, tmp_path)
    assert offsets(spark, tmp_path) == once(2, 500)
    fill(broker, "now", 2, 10)
    run(limited, tmp_path)
    assert offsets(spark, tmp_path) == once(2, 510)


def test_a_query_killed_at_any_point_goes_on_without_a_lost_or_doubled_row(
    spark: SparkSession, broker: KafscaleProcess, store: str, tmp_path: Path
) -> None:
    kafka.create(broker.bootstrap, "killed", 3)
    writer = threading.Thread(target=fill, args=(broker, "killed", 3, 2000))
    writer.start()
    limited = stream(spark, store, "killed", maxOffsetsPerTrigger=700)
    for _ in range(3):
        query = write(limited, tmp_path, processingTime="0 seconds")
        until(lambda query=query: query.lastProgress is not None or not query.isActive)
        query.stop()  # in the middle of whatever it does
        # A crash after the sink took a batch and before Spark noted it: the batch comes again.
        commits = sorted(
            (tmp_path / "checkpoint/commits").glob("[0-9]*"), key=lambda p: int(p.name)
        )
        if commits:
            commits[-1].unlink()
            commits[-1].with_name(f".{commits[-1].name}.crc").unlink(missing_ok=True)
    writer.join()
    run(limited, tmp_path)
    assert offsets(spark, tmp_path) == once(3, 2000)


def test_a_process_killed_in_mid_batch_loses_and_doubles_nothing(
    spark: SparkSession, broker: KafscaleProcess, store: str, tmp_path: Path
) -> None:
    kafka.create(broker.bootstrap, "murdered", 2)
    writer = threading.Thread(target=fill, args=(broker, "murdered", 2, 5000))
    writer.start()
    command = [sys.executable, "-m", "tests.spark.follower", store, "murdered", str(tmp_path)]
    with (tmp_path / "output.txt").open("wb") as output:
        follower = subprocess.Popen(
            command, stdout=output, stderr=output, start_new_session=True, cwd=ROOT
        )
        try:
            commits = tmp_path / "checkpoint/commits"
            until(lambda: commits.exists() and len(list(commits.glob("[0-9]*"))) >= 2)
        finally:
            os.killpg(follower.pid, signal.SIGKILL)  # the driver, its JVM and all workers
            follower.wait()
    writer.join()
    run(stream(spark, store, "murdered"), tmp_path)
    assert offsets(spark, tmp_path) == once(2, 5000)


def test_a_log_start_beyond_the_checkpoint_fails_or_goes_on(
    spark: SparkSession, broker: KafscaleProcess, store: str, tmp_path: Path
) -> None:
    kafka.create(broker.bootstrap, "lost", 1)
    fill(broker, "lost", 1, 100)
    run(stream(spark, store, "lost"), tmp_path)
    fill(broker, "lost", 1, 100)
    kafka.delete_before(broker.bootstrap, "lost", 0, 150)
    query = write(stream(spark, store, "lost"), tmp_path, availableNow=True)
    with pytest.raises(StreamingQueryException, match="offsets 100 to 149 have been deleted"):
        query.awaitTermination(DEADLINE_S)
    run(stream(spark, store, "lost", failOnDataLoss=False), tmp_path)
    assert sorted(offset for _, offset in offsets(spark, tmp_path)) == [
        *range(100),
        *range(150, 200),
    ]


def test_partitions_that_appear_later_are_read_from_their_start(
    spark: SparkSession, broker: KafscaleProcess, store: str, tmp_path: Path
) -> None:
    kafka.create(broker.bootstrap, "grows", 1)
    fill(broker, "grows", 1, 50)
    run(stream(spark, store, "grows"), tmp_path)
    kafka.grow(broker.bootstrap, "grows", 2)
    kafka.produce(broker.bootstrap, "grows", [(1, None, b"x")] * 50)
    run(stream(spark, store, "grows"), tmp_path)
    assert offsets(spark, tmp_path) == once(2, 50)
