"""A little of everything, on whatever Spark runs this file; prints what came out as JSON.

Run by an interpreter that has another pyspark than the tests have, and nothing of the tests:
only kafscale, what it needs and the standard library are imported. Who starts it knows what must
come out.
"""

import json
import sys
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
from deltalake import DeltaTable
from pyspark.sql import DataFrame, SparkSession

from kafscale.spark import export_topic, register_topics
from kafscale.spark.bucket import Bucket
from kafscale.spark.job import Context
from kafscale.spark.jobs.audit import audit
from kafscale.spark.jobs.stopping import Stop
from kafscale.spark.lake.parquet import committed_files
from kafscale.spark.lake.tables import table_url
from kafscale.spark.runner.planner import Rhythm
from kafscale.spark.runner.run import shared
from kafscale.spark.runner.runner import Runner, RunnerOptions
from kafscale.spark.runner.series import RunnerSeries
from kafscale.spark.session import open_session
from kafscale.spark.sink import bulk

DEADLINE_S = 200


def listed(frame: DataFrame) -> list[list[Any]]:
    rows = frame.selectExpr(
        "partition", "offset", "string(key)", "string(value)", "unix_millis(timestamp)", "headers"
    ).collect()
    return sorted(
        [*row[:5], [[h["key"], bytes(h["value"]).decode()] for h in row["headers"] or ()]]
        for row in rows
    )


def stream(spark: SparkSession, store: str, topic: str, **options: object) -> DataFrame:
    reader = spark.readStream.format("kafscale").option("store", store).option("subscribe", topic)
    reader = reader.option("startingOffsets", "earliest").option("includeHeaders", "true")
    return reader.options(**options).load()


def followed(spark: SparkSession, found: DataFrame, folder: Path, count: int) -> dict[str, Any]:
    """Into files until so many rows are there; a new run of the query then adds nothing."""
    batches: list[int] = []
    for wanted in (count, 0):
        query = (
            found.writeStream.format("parquet")
            .option("path", str(folder / "rows"))
            .option("checkpointLocation", str(folder / "checkpoint"))
            .trigger(processingTime="0 seconds")
            .start()
        )
        deadline = time.monotonic() + DEADLINE_S
        seen = 0
        while seen < wanted or not query.recentProgress:
            assert query.isActive, query.exception()
            assert time.monotonic() < deadline, batches
            time.sleep(0.1)
            batches = [row["numInputRows"] for row in query.recentProgress if row["numInputRows"]]
            seen = sum(batches)
        query.stop()
        if wanted:
            first = batches
    return {"rows": listed(spark.read.parquet(str(folder / "rows"))), "batches": first}


def available_now(found: DataFrame, folder: Path) -> list[int]:
    """The sizes of the batches of a run that ends by itself."""
    query = (
        found.writeStream.format("noop")
        .option("checkpointLocation", str(folder))
        .trigger(availableNow=True)
        .start()
    )
    assert query.awaitTermination(DEADLINE_S)
    return [row["numInputRows"] for row in query.recentProgress if row["numInputRows"]]


def write(spark: SparkSession, given: dict[str, Any], scratch: Path) -> None:
    """Through brokers as a batch and as a stream, and twice as new topics."""
    store, bootstrap = given["store"], given["bootstrap"]
    rows = spark.range(200, numPartitions=3).selectExpr(
        "string(id % 7) as key",
        "string(id) as value",
        "array(named_struct('key', 'n', 'value', binary(string(id)))) as headers",
        "timestamp_millis(1700000000000 + id) as timestamp",
    )
    out = rows.write.format("kafscale").mode("append")
    out.option("kafka.bootstrap.servers", bootstrap).option("topic", given["sunk"]).save()
    out = rows.write.format("kafscale").mode("append").option("topic.retention.ms", "-1")
    out.option("store", store).option("topic", given["loaded"]).option("partitions", 3).save()
    bulk.load(rows, Bucket(store), given["bulk"], 3, configs={"retention.ms": "-1"})
    query = (
        stream(spark, store, given["bulk"])
        .select("key", "value", "headers", "timestamp", "partition")
        .writeStream.format("kafscale")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("topic", given["streamed"])
        .option("checkpointLocation", str(scratch / "out"))
        .trigger(availableNow=True)
        .start()
    )
    assert query.awaitTermination(DEADLINE_S)


def tables(spark: SparkSession, given: dict[str, Any]) -> dict[str, Any]:
    """A runner brings two declared tables up to date; SQL reads one of them and the log behind."""
    bucket = Bucket(given["store"])
    rows = spark.range(60, numPartitions=2).selectExpr("string(id % 9) as key", "id")

    def send(topic: str, kept: str) -> None:
        some = rows.where(kept).selectExpr("key", "to_json(struct(id)) as value")
        out = some.write.format("kafscale").mode("append").option("topic", topic)
        out.option("kafka.bootstrap.servers", given["bootstrap"]).save()

    def run() -> None:
        names = (given["declared"], given["upserted"])
        context = shared(Context(bucket, names, master="local[2]", session=spark))
        runner = Runner(
            context, RunnerOptions(rhythm=Rhythm({}), once=True), RunnerSeries(bucket.clock)
        )
        runner.run(Stop())
        assert (runner.done, runner.failed) == (2, 0)

    send(given["declared"], "id < 40")
    send(given["upserted"], "id < 40")
    run()
    send(given["upserted"], "id >= 40")
    run()
    send(given["declared"], "id >= 40")
    topic = given["declared"]
    query = f"select count(*), sum(value.id), count(distinct value.id) from topic.{topic}"
    [counted] = register_topics(spark, given["store"], [topic]).sql(query).collect()
    return {
        "rows": [table_rows(bucket, topic), table_rows(bucket, given["upserted"])],
        "sql": list(counted),
    }


def table_rows(bucket: Bucket, topic: str) -> int:
    """By a library that knows nothing of us."""
    table = DeltaTable(table_url(bucket, bucket.topic(topic)))
    return sum(pa.table(table.get_add_actions()).column("num_records").to_pylist())


def main() -> None:
    given = json.loads(sys.argv[1])
    store, topic, scratch = given["store"], given["topic"], Path(given["scratch"])
    conf = {"spark.driver.memory": "1g", "spark.local.dir": str(scratch)}
    spark = open_session("any_version", "local[2]", conf)
    try:
        reader = spark.read.format("kafscale").option("store", store).option("subscribe", topic)
        whole = reader.option("includeHeaders", "true").option("maxRecordsPerPartition", 50).load()
        found: dict[str, Any] = {"version": spark.version, "batch": listed(whole)}
        some = whole.where("partition = 1 and offset >= 100 and offset < 110")
        found["filtered"] = listed(some)
        found["tasks"] = [whole.rdd.getNumPartitions(), some.rdd.getNumPartitions()]
        count = len(found["batch"])
        limited = stream(spark, store, topic, maxOffsetsPerTrigger=150)
        found["stream"] = followed(spark, limited, scratch / "stream", count)
        found["now"] = available_now(limited, scratch / "now")
        write(spark, given, scratch)
        counted = register_topics(spark, store, [topic]).sql(
            f"select partition, count(*) from topic.{topic} group by 1 order by 1"
        )
        found["sql"] = [list(row) for row in counted.collect()]
        table = str(scratch / "table")
        export_topic(store, topic, table, value_format="string", spark=spark)
        rows = spark.read.parquet(*committed_files(table))
        found["export"] = sorted(
            list(row) for row in rows.select("_partition", "_offset", "value").collect()
        )
        report = audit(Context(Bucket(store), (topic,), session=spark))
        found["tables"] = tables(spark, given)
        found["audit"] = [report.facts["records"], report.facts["errors"]]
        print(json.dumps(found))
    finally:
        spark.stop()


if __name__ == "__main__":
    main()
