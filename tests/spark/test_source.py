"""The batch source against a Kafka consumer, on objects of every kind."""

import pytest
from pyspark.sql import DataFrame, SparkSession

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
