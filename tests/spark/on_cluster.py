"""Source, sink and compaction on a cluster, as a driver: `python -m tests.spark.on_cluster`.

Takes its wishes as JSON and prints what it found as JSON; who started it knows what must come out.
Its functions travel to the executors by value: they have kafscale there, and no tests.
"""

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from kafscale.spark.bucket import Bucket
from kafscale.spark.job import Context
from kafscale.spark.jobs.compact import compact
from kafscale.spark.session import open_session

DEADLINE_S = 240
COLUMNS = "partition int, offset bigint, key binary, value binary"


def about_executors(rows: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Which JVM started us, and where our package came from."""
    import kafscale

    for _ in rows:
        daemon = Path(f"/proc/{os.getppid()}/stat").read_text()
        jvm = int(daemon.rpartition(")")[2].split()[1])
        yield pa.RecordBatch.from_pydict(
            {"jvm": pa.array([jvm], pa.int32()), "file": [str(kafscale.__file__)]}
        )


def listed(frame: DataFrame) -> list[list[Any]]:
    """Partition, offset, key, value of every row, in order."""
    rows = frame.selectExpr("partition", "offset", "string(key)", "string(value)").collect()
    return sorted(list(row) for row in rows)


def read(spark: SparkSession, store: str, topic: str) -> list[list[Any]]:
    reader = spark.read.format("kafscale").schema(COLUMNS).option("store", store)
    reader = reader.option("subscribe", topic).option("maxRecordsPerPartition", 200)
    return listed(reader.load())


def follow(spark: SparkSession, store: str, topic: str, folder: Path) -> list[list[Any]]:
    """A stream over what is there now, into files, in several batches."""
    reader = spark.readStream.format("kafscale").schema(COLUMNS).option("store", store)
    reader = reader.option("subscribe", topic).option("startingOffsets", "earliest")
    query = (
        reader.option("maxOffsetsPerTrigger", 1500)
        .load()
        .writeStream.format("parquet")
        .option("path", str(folder / "rows"))
        .option("checkpointLocation", str(folder / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    assert query.awaitTermination(DEADLINE_S)
    return listed(spark.read.parquet(str(folder / "rows")))


def write(spark: SparkSession, store: str, bootstrap: str, sunk: str, loaded: str) -> None:
    """The same rows through the brokers into one topic and by bulk into a new one."""
    rows = spark.range(900, numPartitions=4).selectExpr(
        "string(id % 30) as key", "string(id) as value"
    )
    out = rows.write.format("kafscale").mode("append")
    out.option("kafka.bootstrap.servers", bootstrap).option("topic", sunk).save()
    out = rows.write.format("kafscale").mode("append").option("topic.retention.ms", "-1")
    out.option("store", store).option("topic", loaded).option("partitions", 3).save()


def main() -> None:
    given = json.loads(sys.argv[1])
    spark = open_session("on_cluster", given["master"], given["conf"])
    try:
        frame = spark.range(4, numPartitions=4).mapInArrow(about_executors, "jvm int, file string")
        found: dict[str, Any] = {"executors": [list(row) for row in frame.collect()]}
        for name, place in given["places"].items():
            store, topic = place["store"], place["topic"]
            write(spark, store, place["bootstrap"], place["sunk"], place["loaded"])
            found[name] = {
                "batch": read(spark, store, topic),
                "stream": follow(spark, store, topic, Path(given["scratch"]) / name),
            }
        context = Context(Bucket(given["compact"]), ("clustered",), session=spark)
        found["compact"] = compact(context, target=20_000).facts
        print(json.dumps(found))
    finally:
        spark.stop()


if __name__ == "__main__":
    main()
