"""What Spark reports of a stream's progress tells how far it is behind."""

from pathlib import Path

from pyspark.sql import SparkSession

from kafscale.spark import stream_lag
from tests.unit.spark.topics import Topic


def test_a_stream_catches_up_trigger_by_trigger(spark: SparkSession, tmp_path: Path) -> None:
    topic = Topic(tmp_path / "objects")
    topic.flush(0, [b"x"] * 100)
    topic.flush(1, [b"y"] * 20)
    rows = (
        spark.readStream.format("kafscale")
        .schema("partition int, offset bigint")
        .options(store=topic.url, subscribe="orders", startingOffsets="earliest")
        .option("maxOffsetsPerTrigger", "50")
        .load()
    )
    query = (
        rows.writeStream.format("noop")
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    assert query.awaitTermination(240)
    found = [stream_lag(progress) for progress in query.recentProgress if progress["numInputRows"]]
    behind = [lag.records for lag in found if lag is not None]
    assert behind[-1] == 0
    assert behind == sorted(behind, reverse=True)
    assert len(behind) == 3
    assert behind[0] >= 70, behind
