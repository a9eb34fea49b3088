"""JSON, Avro and Protobuf through Spark: in the source, in SQL, in an export on Spark."""

import datetime as dt
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from google.protobuf import descriptor_pb2, timestamp_pb2
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import col, from_json

import kafscale.spark
from kafscale.spark import export_topic
from tests.unit.spark.jobs.test_export import Lake, check
from tests.unit.spark.topics import Topic
from tests.unit.spark.values.schema_registry import FakeSchemaRegistry
from tests.unit.spark.values.writers import (
    AvroWriter,
    ProtobufWriter,
    avro_schema,
    message_class,
    shop_files,
)

NOON = dt.datetime(2026, 11, 16, 12, tzinfo=dt.UTC)
PREFIX = 5  # a zero byte and the schema's number
TYPES = (
    "b boolean, t tinyint, s smallint, i int, l bigint, f float, d double, x string, day date, "
    "at timestamp, local timestamp_ntz, n decimal(20,3), tags array<string>, "
    "m map<string,bigint>, st struct<x:int,y:array<struct<z:int>>>"
)


@pytest.fixture
def schema_registry() -> Iterator[FakeSchemaRegistry]:
    made = FakeSchemaRegistry()
    yield made
    made.close()


@pytest.fixture
def topic(tmp_path: Path) -> Topic:
    return Topic(tmp_path / "objects")


def frame(spark: SparkSession, topic: Topic, **options: str) -> DataFrame:
    reader = spark.read.format("kafscale").option("store", topic.url).option("subscribe", "orders")
    return reader.options(**options).load()


def value_rows(found: DataFrame) -> list[Any]:
    rows = sorted(found.collect(), key=lambda row: (row["partition"], row["offset"]))
    return [None if row["value"] is None else row["value"].asDict(True) for row in rows]


def test_json_is_what_sparks_own_reader_makes_of_it(spark: SparkSession, topic: Topic) -> None:
    full = (
        b'{"b":true,"t":-7,"s":300,"i":70000,"l":5000000000,"f":1.5,"d":1e300,"x":"\\u00e4",'
        b'"day":"2026-01-02","at":"2026-01-02T03:04:05.678901Z","local":"2026-01-02T03:04:05",'
        b'"n":12345678901234567.125,"tags":["a",null],"m":{"k":1},'
        b'"st":{"x":1,"y":[{"z":2},{}]},"unknown":[{}]}'
    )
    topic.flush(0, [full, b"{}", b'{"d":1}', None])
    ours = frame(spark, topic, valueFormat="json", valueSchema=TYPES)
    text = frame(spark, topic, valueFormat="string")
    theirs = text.withColumn("value", from_json(col("value"), TYPES, {"mode": "FAILFAST"}))
    found = value_rows(ours)
    assert found == value_rows(theirs)
    assert found[0]["l"] == 5_000_000_000
    assert found[0]["st"] == {"x": 1, "y": [{"z": 2}, {"z": None}]}


def test_json_that_does_not_fit_fails_the_query_or_is_null(
    spark: SparkSession, topic: Topic
) -> None:
    topic.flush(0, [b'{"id":1}', b'{"id":1.0}', b'{"id":3}'])
    shape = {"valueFormat": "json", "valueSchema": "id bigint"}
    found = value_rows(frame(spark, topic, **shape, mode="PERMISSIVE"))
    assert found == [{"id": 1}, None, {"id": 3}]
    with pytest.raises(PySparkException, match=r"offset 1 cannot be decoded: Expected `int"):
        frame(spark, topic, **shape, mode="FAILFAST").collect()
    apart = frame(spark, topic, **shape, badRecords="column").where("value is null").collect()
    assert [bytes(row["badValue"]) for row in apart] == [b'{"id":1.0}']


def test_avro_of_several_schemas_of_a_registry(
    spark: SparkSession, topic: Topic, schema_registry: FakeSchemaRegistry
) -> None:
    old = AvroWriter(schema_registry, avro_schema(id="int"))
    moment = {"type": "long", "logicalType": "timestamp-micros"}
    new = AvroWriter(schema_registry, avro_schema(id="long", at=moment, name=["null", "string"]))
    topic.flush(0, [old(id=1), new(id=2, at=NOON, name="two"), None])
    topic.flush(1, [new(id=3, at=NOON)])
    options = {"valueFormat": "avro", "schemaRegistry": schema_registry.url}
    rows = value_rows(frame(spark, topic, **options))
    local = NOON.astimezone().replace(tzinfo=None)  # as Spark hands times to Python
    assert rows == [
        {"id": 1, "at": None, "name": None},
        {"id": 2, "at": local, "name": "two"},
        None,
        {"id": 3, "at": local, "name": None},
    ]
    topics = kafscale.spark.register_topics(spark, topic.url, (), **options)
    summed = topics.sql("select sum(value.id), max(value.name) from topic.orders").collect()
    assert tuple(summed[0]) == (6, "two")


def test_avro_by_a_schema_alone(spark: SparkSession, topic: Topic, tmp_path: Path) -> None:
    schema = avro_schema(id="long", tags={"type": "array", "items": "string"})
    file = tmp_path / "order.avsc"
    file.write_text(schema)
    topic.flush(0, [b"\x0e\x02\x02a\x00", b"\xff"])
    for more in ({"valueSchema": schema}, {"valueSchemaFile": str(file)}):
        found = frame(spark, topic, valueFormat="avro", badRecords="null", **more)
        assert value_rows(found) == [{"id": 7, "tags": ["a"]}, None]


def test_protobuf_by_a_registry_and_by_a_file(
    spark: SparkSession, topic: Topic, schema_registry: FakeSchemaRegistry, tmp_path: Path
) -> None:
    write = ProtobufWriter(schema_registry, message_class("shop.Order"))
    framed = write(id=7, at=NOON, place={"city": "Bonn"})
    topic.flush(0, [framed, None, framed[: PREFIX + 2]])
    local = NOON.astimezone().replace(tzinfo=None)
    expected = [
        {"id": 7, "at": local, "place": {"city": "Bonn"}},
        None,
        {"id": 0, "at": None, "place": None},
    ]
    options = {"valueFormat": "protobuf", "valueMessage": "shop.Order"}
    assert (
        value_rows(frame(spark, topic, schemaRegistry=schema_registry.url, **options)) == expected
    )
    file = tmp_path / "shop.desc"
    times = descriptor_pb2.FileDescriptorProto.FromString(timestamp_pb2.DESCRIPTOR.serialized_pb)
    whole = descriptor_pb2.FileDescriptorSet(file=[times, *shop_files()])
    file.write_bytes(whole.SerializeToString())
    by_file = {**options, "valueSchemaFile": str(file), "valueFraming": "confluent"}
    assert value_rows(frame(spark, topic, **by_file)) == expected


@pytest.mark.parametrize("kind", ["avro", "protobuf"])
def test_exports_on_spark_grow_columns_in_the_middle_of_a_topic(
    spark: SparkSession,
    topic: Topic,
    schema_registry: FakeSchemaRegistry,
    tmp_path: Path,
    kind: str,
) -> None:
    if kind == "avro":
        old: Any = AvroWriter(schema_registry, avro_schema(id="long"))
        new: Any = AvroWriter(schema_registry, avro_schema(id="long", note="string"), topic="later")
    else:
        old = ProtobufWriter(schema_registry, message_class("shop.Order"))
        new = ProtobufWriter(
            schema_registry, message_class("shop.Order", newer=True), topic="later"
        )
    topic.flush(0, [old(id=n) for n in range(50)])
    topic.flush(0, [new(id=n, note=f"n{n}") for n in range(50)])
    topic.flush(1, [b"junk", old(id=1)])
    lake = Lake(tmp_path, "delta")
    report = export_topic(
        topic.url,
        "orders",
        lake.url,
        format="delta",
        value_format=kind,
        value_message="" if kind == "avro" else "shop.Order",
        schema_registry=schema_registry.url,
        spark=spark,
    )
    assert (report.rows[0]["records"], report.rows[0]["dead_letters"]) == (101, 1)
    check(topic, lake)
    rows = lake.rows()
    assert (rows[0, 70]["id"], rows[0, 70]["note"]) == (20, "n20")
    assert (rows[0, 20]["id"], rows[0, 20]["note"]) == (20, None)
