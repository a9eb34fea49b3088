"""The batch source against a Kafka consumer, on objects of every kind."""

import json
import time
from collections.abc import Iterator

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from kafscale.spark.bucket import Bucket
from kafscale.spark.source import pins
from tests.spark import kafka
from tests.spark.kafka import Row
from tests.support.broker import KafscaleProcess

CODECS = ["none", "gzip", "snappy", "lz4", "zstd"]


def frame(spark: SparkSession, store: str, topic: str, **options: object) -> DataFrame:
    reader = spark.read.format("kafscale").option("store", store).option("subscribe", topic)
    for name, value in options.items():
        reader = reader.option(name, str(value))
    return reader.load()


def rows_of(found: DataFrame) -> list[Row]:
    rows = found.selectExpr(
        "topic", "partition", "offset", "key", "value",
        "unix_millis(timestamp) as timestamp_ms", "timestampType", "headers",
    ).collect()  # fmt: skip
    return sorted(
        Row(
            row["topic"],
            row["partition"],
            row["offset"],
            None if row["key"] is None else bytes(row["key"]),
            None if row["value"] is None else bytes(row["value"]),
            row["timestamp_ms"],
            row["timestampType"],
            tuple(
                (h["key"], None if h["value"] is None else bytes(h["value"]))
                for h in row["headers"] or ()
            ),
        )
        for row in rows
    )


@pytest.mark.parametrize("codec", CODECS)
def test_spark_reads_what_a_consumer_reads(
    spark: SparkSession, broker: KafscaleProcess, store: str, codec: str
) -> None:
    topic = f"same-{codec}"
    kafka.create(broker.bootstrap, topic, 3)
    mixed = [
        (n % 3, None if n % 7 == 0 else b"k%d" % n, None if n % 11 == 0 else b"v" * (n % 400))
        for n in range(3000)
    ]
    kafka.produce(broker.bootstrap, topic, mixed, codec=codec)
    kafka.produce(
        broker.bootstrap, topic, mixed[:50], codec=codec, headers=[("a", b"1"), ("b", None)]
    )
    expected = kafka.consume(broker.bootstrap, topic, 3)
    assert len(expected) == 3050
    assert rows_of(frame(spark, store, topic, includeHeaders=True)) == expected


def test_rolled_up_and_fresh_objects_are_read_while_the_broker_writes(
    spark: SparkSession, broker: KafscaleProcess, store: str
) -> None:
    kafka.create(broker.bootstrap, "rolled", 1)
    for number in range(40):
        kafka.produce(broker.bootstrap, "rolled", [(0, b"%d" % number, b"v" * 300)] * 20)
    bucket = Bucket(store)
    deadline = time.monotonic() + 120
    while not bucket.snapshots(bucket.topic("rolled"))[0].manifest.segments:
        assert time.monotonic() < deadline, "the broker did not roll up"
        kafka.produce(broker.bootstrap, "rolled", [(0, b"more", b"v")])
    expected = kafka.consume(broker.bootstrap, "rolled", 1)
    assert rows_of(frame(spark, store, "rolled", includeHeaders=True))[: len(expected)] == expected
    kinds = {r["kind"] for r in frame(spark, store, "rolled", table="segments").collect()}
    assert "history" in kinds


@pytest.fixture
def orders(broker: KafscaleProcess, store: str) -> str:
    """A topic of JSON, made once."""
    bucket = Bucket(store)
    if "orders" not in [topic.name for topic in bucket.topics()]:
        kafka.create(broker.bootstrap, "orders", 4)
        rows = (
            (n % 4, b"%d" % n, json.dumps({"id": n, "name": f"n{n}"}).encode()) for n in range(400)
        )
        kafka.produce(broker.bootstrap, "orders", rows)
    return "orders"


@pytest.fixture(params=["true", "false"])
def pushdown(spark: SparkSession, request: pytest.FixtureRequest) -> Iterator[bool]:
    """With Spark's filter pushdown, and without, which is its default."""
    name = "spark.sql.python.filterPushdown.enabled"
    before = spark.conf.get(name)
    spark.conf.set(name, request.param)
    yield request.param == "true"
    spark.conf.set(name, str(before))


def test_filters_give_the_same_rows_and_fewer_tasks(
    spark: SparkSession, store: str, orders: str, pushdown: bool
) -> None:
    found = frame(spark, store, orders, maxRecordsPerPartition=10).where(
        "partition = 2 and offset >= 20 and offset < 30 and timestamp > timestamp'2023-01-01'"
    )
    assert sorted(row["offset"] for row in found.collect()) == list(range(20, 30))
    tasks = found.rdd.getNumPartitions()
    assert tasks == 1 if pushdown else tasks == 40


def test_a_narrower_schema_decodes_only_those_columns(
    spark: SparkSession, store: str, orders: str
) -> None:
    reader = spark.read.format("kafscale").schema("value binary, offset bigint")
    found = reader.option("store", store).option("subscribe", orders).load()
    assert found.columns == ["value", "offset"]
    assert found.count() == 400
    wrong = spark.read.format("kafscale").schema("offset int").option("store", store)
    with pytest.raises(PySparkException, match="offset: this column is bigint"):
        wrong.option("subscribe", orders).load().count()


def test_offsets_and_partitions_are_as_the_options_say(
    spark: SparkSession, store: str, orders: str
) -> None:
    starts, ends = json.dumps({orders: {"1": 5}}), json.dumps({orders: {"1": 9}})
    reader = spark.read.format("kafscale").option("store", store)
    found = (
        reader.option("assign", json.dumps({orders: [1]}))
        .option("startingOffsets", starts)
        .option("endingOffsets", ends)
        .option("minPartitions", 3)
        .load()
    )
    assert [(row["partition"], row["offset"]) for row in found.orderBy("offset").collect()] == [
        (1, offset) for offset in range(5, 9)
    ]
    assert found.rdd.getNumPartitions() == 3


def test_values_are_typed_and_bad_ones_set_apart(
    spark: SparkSession, broker: KafscaleProcess, store: str, orders: str
) -> None:
    kafka.create(broker.bootstrap, "mixed-values", 1)
    kafka.produce(
        broker.bootstrap, "mixed-values", [(0, None, b'{"id": 1, "name": "a"}'), (0, None, b"no")]
    )
    ddl = "id bigint, name string"
    found = frame(spark, store, orders, valueFormat="json", valueSchema=ddl)
    assert found.selectExpr("sum(value.id) as s").collect()[0]["s"] == sum(range(400))
    apart = frame(
        spark, store, "mixed-values", valueFormat="json", valueSchema=ddl, badRecords="column"
    )
    rows = apart.orderBy("offset").select("value", "badValue").collect()
    assert rows[0]["value"].asDict() == {"id": 1, "name": "a"}
    assert (rows[1]["value"], bytes(rows[1]["badValue"])) == (None, b"no")
    failing = frame(spark, store, "mixed-values", valueFormat="json", valueSchema=ddl)
    with pytest.raises(PySparkException, match="the value at offset 1 cannot be decoded"):
        failing.count()


def test_a_snapshot_gives_the_same_answer_after_more_was_written(
    spark: SparkSession, broker: KafscaleProcess, store: str
) -> None:
    kafka.create(broker.bootstrap, "pinned", 1)
    kafka.produce(broker.bootstrap, "pinned", [(0, None, b"x")] * 10)
    pins.take(Bucket(store), "before", ["pinned"])
    kafka.produce(broker.bootstrap, "pinned", [(0, None, b"x")] * 10)
    assert frame(spark, store, "pinned", asOf="before").count() == 10
    assert frame(spark, store, "pinned").count() == 20


def test_batches_are_a_table(spark: SparkSession, store: str, orders: str) -> None:
    found = frame(spark, store, orders, table="batches")
    assert found.selectExpr("sum(records) as s").collect()[0]["s"] == 400


def test_a_topic_is_a_view_in_sql(spark: SparkSession, store: str, orders: str) -> None:
    spark.sql(
        "create or replace temporary view orders using kafscale "
        f"options (store '{store}', subscribe '{orders}')"
    )
    assert (
        spark.sql("select count(*) as n from orders where partition = 0").collect()[0]["n"] == 100
    )


@pytest.mark.parametrize(
    ("options", "about"),
    [
        ({"colour": "red"}, "colour: no option"),
        ({"startingOffsets": '{"orders": {"0": 5}}'}, "nothing said about orders-1"),
        ({"subscribe": "missing"}, "there is no topic 'missing'"),
        ({"asOf": "never"}, "no snapshot 'never'"),
    ],
)
def test_mistakes_are_named_without_the_way_they_came(
    spark: SparkSession, store: str, orders: str, options: dict[str, str], about: str
) -> None:
    with pytest.raises(PySparkException, match=about) as told:
        frame(spark, store, orders, **options).count()
    assert "Traceback" not in str(told.value)


def test_an_empty_topic_has_no_rows(
    spark: SparkSession, broker: KafscaleProcess, store: str
) -> None:
    kafka.create(broker.bootstrap, "empty", 2)
    assert frame(spark, store, "empty").collect() == []
