"""Declared tables on real Spark: the runner's work as tasks, and topics read from table and log."""

import re
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from kafscale.spark.history.queries import register_topics
from kafscale.spark.job import Context
from kafscale.spark.jobs.stopping import Stop
from kafscale.spark.runner.planner import TABLE_UPKEEP, Rhythm
from kafscale.spark.runner.run import shared
from kafscale.spark.runner.runner import Runner, RunnerOptions
from kafscale.spark.runner.series import RunnerSeries
from tests.unit.spark.runner.test_runner import JSON, Place, by_key

QUERY = (
    "select partition, offset, value.id, value.name, cast(key as string) k, "
    "unix_millis(timestamp) t, timestampType, size(headers) h from topic.orders"
)


def run_on_spark(place: Place, spark: SparkSession, rhythm: Rhythm | None = None) -> Runner:
    assert place.bucket is not None
    options = RunnerOptions(rhythm=rhythm or Rhythm({}), once=True, parallel=2)
    series = RunnerSeries(place.bucket.clock)
    runner = Runner(shared(Context(place.bucket, session=spark)), options, series)
    runner.run(Stop())
    assert runner.failed == 0
    return runner


@pytest.mark.parametrize("kind", ["delta", "iceberg"])
def test_a_topic_is_read_from_its_table_and_the_rest_from_the_log_each_record_once(
    spark: SparkSession, tmp_path: Path, kind: str
) -> None:
    place = Place(tmp_path / "objects")
    orders = place.topic("orders", 2, table_format=kind, **JSON)
    orders.flush(0, [b'{"id":%d,"name":"n"}' % at for at in range(20)])
    orders.flush(1, [b'{"id":1}', b"bad", None, b'{"id":2,"name":"x"}'])
    run_on_spark(place, spark)
    orders.flush(0, [b'{"id":100}', None, b"worse"])
    orders.flush(1, [b'{"id":101}'])
    both = register_topics(spark, orders.url, ())
    plan = both.sql(QUERY)._jdf.queryExecution().toString()
    assert "parquet" in plan.lower(), "the table is not read"
    rows = sorted(tuple(row) for row in both.sql(QUERY).collect())
    log = register_topics(
        spark,
        orders.url,
        (),
        use_tables=False,
        valueFormat="json",
        valueSchema=JSON["table.value.schema"],
    )
    assert rows == sorted(tuple(row) for row in log.sql(QUERY).collect())
    assert len(rows) == 28


def test_a_query_reads_the_columns_and_fields_that_it_names_and_no_others(
    spark: SparkSession, tmp_path: Path
) -> None:
    place = Place(tmp_path / "objects")
    orders = place.topic("orders", 1, table_format="delta", **JSON)
    orders.flush(0, [b'{"id":1,"name":"a"}', b'{"id":2}', None, b'{"name":"b"}'])
    run_on_spark(place, spark)
    topics = register_topics(spark, orders.url, ())
    assert topics.sql("select count(value.id) from topic.orders").collect() == [(2,)]
    orders.flush(0, [b'{"id":5,"name":"a"}', None])

    def ask(query: str) -> list[tuple[object, ...]]:
        return sorted((tuple(row) for row in topics.sql(query).collect()), key=str)

    def columns_of(query: str) -> str:
        plan = topics.sql(query)._jdf.queryExecution().executedPlan().toString()
        assert "python" not in plan.lower(), "the short end of the log needs no worker"
        return ",".join(re.findall(r"ReadSchema: struct<([^>]*)>", plan))

    by_name = "select value.name, sum(value.id) from topic.orders group by 1"
    assert columns_of(by_name) == "id:bigint,name:string"
    assert ask(by_name) == [("a", 6), ("b", None), (None, 2)]
    since = "select value.id from topic.orders where offset > 2"
    assert columns_of(since) == "_offset:bigint,id:bigint"
    assert ask(since) == [(5,), (None,), (None,)]
    # These need the whole value, each in its own way.
    for query, count in {
        "select count(*) from topic.orders": 6,
        "select count(*) from topic.orders where value is null": 2,
        "select count(v) from (select value v from topic.orders) where v.id > 0 or v is null": 3,
        "with c as (select * from topic.orders) select count(value) from c": 4,
        "select count(*) from (select distinct value from topic.orders)": 5,
        "select count(*) from topic.orders a join topic.orders b on a.value.id = b.value.id": 3,
        "select max(offset) from topic.orders where 5 in (select value.id from topic.orders)": 5,
    }.items():
        assert ask(query) == [(count,)], query


def test_a_registered_view_sees_records_that_come_after_a_query(
    spark: SparkSession, tmp_path: Path
) -> None:
    place = Place(tmp_path / "objects")
    orders = place.topic("orders", 1, table_format="delta", **JSON)
    orders.flush(0, [b'{"id":1}'])
    run_on_spark(place, spark)
    topics = register_topics(spark, orders.url)
    assert topics.sql("select value.id from topic.orders").collect() == [(1,)]
    orders.flush(0, [b'{"id":2}'])
    assert spark.sql("select count(value.id) from `topic.orders`").collect() == [(2,)]
    assert topics.sql("select max(value.id) from topic.orders").collect() == [(2,)]
    assert spark.sql("select max(value.id) from `topic.orders`").collect() == [(2,)]
    spark.catalog.dropTempView("topic.orders")
    others = register_topics(spark, orders.url, ())
    assert others.sql("select max(value.id) from topic.orders").collect() == [(2,)]
    assert not [table for table in spark.catalog.listTables() if table.name == "topic.orders"]


def test_upsert_and_upkeep_run_as_tasks_of_spark(spark: SparkSession, tmp_path: Path) -> None:
    place = Place(tmp_path / "objects")
    states = place.topic("states", 2, table_format="delta", table_mode="upsert", **JSON)
    lines = place.topic("lines", table_format="delta")
    for number in range(4):
        keys_given = [b"k%d" % (at % 10) for at in range(50)]
        states.flush(
            0, [b'{"id":%d}' % (number * 50 + at) for at in range(50)], keys_given=keys_given
        )
        states.flush(1, [None if number else b'{"id":1}'], keys_given=[b"gone"])
        lines.flush(0, [b"%d" % number])
        run_on_spark(place, spark)
    assert by_key(place.delta("states")) == {b"k%d" % at: 190 + at for at in range(10)}
    run_on_spark(place, spark, Rhythm({TABLE_UPKEEP: 1}))
    assert sorted(row["_offset"] for row in place.delta("lines")) == [0, 1, 2, 3]
