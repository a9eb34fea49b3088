"""Spark's Kafka connector streaming a topic into Delta: what a user would do without the pipeline.

Run by an interpreter whose Spark has a release of Delta, which is older than ours; pyspark and
psutil are all it imports. `python spark_delta_peer.py '{"bootstrap": ..., "mode": ...}'` prints the
processor seconds and wall seconds of the best run as JSON. With the mode `follow` it streams until
its standard input ends, a batch every `every_s` seconds; its parent measures.
"""

import json
import shutil
import sys
import time
from typing import Any

import psutil
from pyspark.sql import DataFrame, SparkSession

CONF = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    "spark.ui.enabled": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.driver.memory": "2g",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.sql.shuffle.partitions": "8",
}


def main() -> None:
    given = json.loads(sys.argv[1])
    builder = SparkSession.builder.master("local[2]").config("spark.jars", ",".join(given["jars"]))
    for name, value in CONF.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    if given["mode"] == "follow":
        follow(spark, given)
        return
    found = []
    for _ in range(given["runs"] + 1):  # one to warm up
        shutil.rmtree(given["folder"], ignore_errors=True)
        before, began = cpu(), time.perf_counter()
        run(spark, given)
        found.append((cpu() - before, time.perf_counter() - began))
    rows = spark.read.format("delta").load(f"{given['folder']}/table").count()
    best = min(found[1:])
    print(json.dumps({"cpu": best[0], "wall": best[1], "rows": rows, "spark": spark.version}))
    spark.stop()


def cpu() -> float:
    """Processor seconds of this process and the JVM."""
    me = psutil.Process()
    return sum(sum(one.cpu_times()[:2]) for one in [me, *me.children(recursive=True)])


def follow(spark: SparkSession, given: dict[str, Any]) -> None:
    """Append what comes until the parent closes the pipe."""
    writer = rows_of(spark, given).writeStream.format("delta")
    writer = writer.option("path", f"{given['folder']}/table")
    writer = writer.option("checkpointLocation", f"{given['folder']}/checkpoint")
    query = writer.trigger(processingTime=f"{given['every_s']} seconds").start()
    print("ready", flush=True)
    sys.stdin.read()
    query.stop()
    spark.stop()


def rows_of(spark: SparkSession, given: dict[str, Any]) -> DataFrame:
    """A stream of the topic's records with the fields of their values as columns."""
    return (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", given["bootstrap"])
        .option("subscribe", given["topic"])
        .option("startingOffsets", "earliest")
        .option("includeHeaders", "true")
        .load()
        .selectExpr(
            "topic", "partition", "offset", "timestamp", "key", "headers",
            f"from_json(cast(value as string), '{given['schema']}') as v",
        )
        .select("topic", "partition", "offset", "timestamp", "key", "headers", "v.*")
    )  # fmt: skip


def run(spark: SparkSession, given: dict[str, Any]) -> None:
    """The whole topic into a table from nothing."""
    rows = rows_of(spark, given)
    table, checkpoint = f"{given['folder']}/table", f"{given['folder']}/checkpoint"
    if given["mode"] == "append":
        writer = rows.writeStream.format("delta").option("path", table)
    else:
        spark.createDataFrame([], rows.schema).write.format("delta").save(table)
        writer = rows.writeStream.foreachBatch(lambda batch, _: merge(batch, table))
    query = writer.option("checkpointLocation", checkpoint).trigger(availableNow=True).start()
    query.awaitTermination()


def merge(batch: DataFrame, table: str) -> None:
    """The newest row of each key."""
    batch.createOrReplaceTempView("batch")
    batch.sparkSession.sql(
        f"""merge into delta.`{table}` t using (
            select * except (place) from (
              select *, row_number() over (partition by key order by offset desc) place from batch
            ) where place = 1
        ) s on t.key = s.key
        when matched then update set * when not matched then insert *"""
    )


if __name__ == "__main__":
    main()
