"""A client of Spark Connect: `python -m tests.spark.on_connect sc://... STORE SCRATCH`.

Prints what it found as JSON; who started it knows what must come out. It is a process of its own
because pyspark serves one kind of session in a process.
"""

import json
import sys
from pathlib import Path

from deltalake import DeltaTable
from pyspark.sql import SparkSession

from kafscale.spark import export_topic, register_topics
from kafscale.spark.session import open_session


def look(spark: SparkSession, store: str, scratch: Path) -> dict[str, object]:
    read = spark.read.format("kafscale").options(store=store, subscribe="orders")
    stream = spark.readStream.format("kafscale").options(store=store, subscribe="orders")
    query = (
        stream.option("startingOffsets", "earliest").load()
        .writeStream.format("parquet")
        .option("path", str(scratch / "rows"))
        .option("checkpointLocation", str(scratch / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )  # fmt: skip
    query.awaitTermination()
    topics = register_topics(spark, store)
    export_topic(store, "orders", str(scratch / "table"), format="delta", spark=spark)
    ids = "select value.id from topic.orders order by 1"
    return {
        "batch": read.load().count(),
        "narrow": read.schema("offset bigint").load().where("offset > 0").count(),
        "stream": spark.read.parquet(str(scratch / "rows")).count(),
        "sql": [row[0] for row in topics.sql(ids).collect()],
        "exported": DeltaTable(scratch / "table").to_pyarrow_table().num_rows,
    }


if __name__ == "__main__":
    session = open_session("tests", sys.argv[1])
    print(json.dumps(look(session, sys.argv[2], Path(sys.argv[3]))))
