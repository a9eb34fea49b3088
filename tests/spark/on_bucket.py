"""SQL over a topic in a bucket and its table there: `python -m tests.spark.on_bucket s3://...`.

Prints what it found as JSON; who started it knows what must come out. It is a process of its own
because Spark's workers have the environment that Spark was started with.
"""

import json
import sys

from pyspark.sql import SparkSession

from kafscale.spark.history.queries import register_topics
from kafscale.spark.session import open_session
from tests.spark.test_tables import QUERY
from tests.unit.spark.history.reading import Reading
from tests.unit.spark.runner.test_runner import JSON


def look(spark: SparkSession, url: str) -> dict[str, object]:
    both = register_topics(spark, url, ())
    log = register_topics(
        spark, url, (), use_tables=False,
        valueFormat="json", valueSchema=JSON["table.value.schema"],
    )  # fmt: skip
    rows = sorted(tuple(row) for row in both.sql(QUERY).collect())
    narrow = (
        spark.read.format("kafscale")
        .schema("partition int, offset bigint, value struct<id bigint>")
        .options(store=url, subscribe="orders", useTable="true")
        .load()
        .where("partition = 0 and value.id is not null")
        .selectExpr("offset", "value.id")
    )
    joined = both.sql(
        "select count(*), max(o.value.name) from topic.orders o cross join topic.plain p "
        "where o.partition = 0 and o.offset >= 2"
    )
    return {
        "both": rows,
        "log": sorted(tuple(row) for row in log.sql(QUERY).collect()),
        "files": len(Reading(url, "orders").files),
        "narrow": sorted(tuple(row) for row in narrow.collect()),
        "joined": [tuple(row) for row in joined.collect()],
    }


if __name__ == "__main__":
    session = open_session("tests", "local[2]", {"spark.driver.memory": "1g"})
    print(json.dumps(look(session, sys.argv[1])))
    session.stop()
