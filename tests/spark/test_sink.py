"""`df.write.format("kafscale")`: through brokers and into new topics."""

from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from kafscale.spark.bucket import Bucket
from tests.spark.kafka import consume, create
from tests.support.broker import KafscaleProcess


def rows(spark: SparkSession, count: int) -> DataFrame:
    return spark.range(count, numPartitions=3).selectExpr(
        "concat('k', cast(id % 7 as string)) as key",
        "cast(id as string) as value",
        "array(named_struct('key', 'n', 'value', cast(cast(id as string) as binary))) as headers",
        "timestamp_millis(1700000000000 + id) as timestamp",
    )


def test_rows_go_through_brokers_with_everything_they_have(
    spark: SparkSession, broker: KafscaleProcess
) -> None:
    create(broker.bootstrap, "sunk", 3)
    create(broker.bootstrap, "sunk-2", 1)
    frame = rows(spark, 300).selectExpr(
        "*",
        "if(int(value) % 2 = 0, 'sunk', 'sunk-2') as topic",
        "if(int(value) % 2 = 0, 2, 0) as partition",
    )
    frame.write.format("kafscale").option("kafka.bootstrap.servers", broker.bootstrap).mode(
        "append"
    ).save()
    found = consume(broker.bootstrap, "sunk", 3)
    assert {row.partition for row in found} == {2}
    assert sorted(int(row.value or b"") for row in found) == list(range(0, 300, 2))
    for row in found:
        number = int(row.value or b"")
        assert row.key == b"k%d" % (number % 7)
        assert row.headers == (("n", row.value),)
        assert row.timestamp_ms == 1_700_000_000_000 + number
    assert len(consume(broker.bootstrap, "sunk-2", 1)) == 150


def test_the_option_goes_before_the_column_and_keys_go_where_java_puts_them(
    spark: SparkSession, broker: KafscaleProcess, store: str
) -> None:
    frame = rows(spark, 200).selectExpr("*", "'elsewhere' as topic")
    create(broker.bootstrap, "by-broker", 5)
    frame.write.format("kafscale").option("kafka.bootstrap.servers", broker.bootstrap).option(
        "topic", "by-broker"
    ).mode("append").save()
    frame.write.format("kafscale").option("store", store).option("topic", "by-bulk").option(
        "partitions", 5
    ).option("compression", "zstd").option("topic.retention.ms", "-1").mode("append").save()
    ways = [consume(broker.bootstrap, topic, 5) for topic in ("by-broker", "by-bulk")]
    one, other = ({(row.key, row.partition) for row in found} for found in ways)
    assert one == other
    assert len(one) == 7
    contents = [
        sorted((row.value, row.key, row.timestamp_ms, row.headers) for row in found)
        for found in ways
    ]
    assert contents[0] == contents[1]
    assert Bucket(store).topic("by-bulk").configs == {"retention.ms": "-1"}


def test_a_stream_is_written_through_brokers(
    spark: SparkSession, broker: KafscaleProcess, store: str, tmp_path: Path
) -> None:
    create(broker.bootstrap, "stream-out", 1)
    rows(spark, 50).write.format("kafscale").option("store", store).option(
        "topic", "stream-in"
    ).option("partitions", 2).option("topic.retention.ms", "-1").mode("append").save()
    query = (
        spark.readStream.format("kafscale")
        .option("store", store)
        .option("subscribe", "stream-in")
        .option("startingOffsets", "earliest")
        .load()
        .select("key", "value")
        .writeStream.format("kafscale")
        .option("kafka.bootstrap.servers", broker.bootstrap)
        .option("topic", "stream-out")
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    assert query.awaitTermination(120)
    found = consume(broker.bootstrap, "stream-out", 1)
    assert sorted(int(row.value or b"") for row in found) == list(range(50))


@pytest.mark.parametrize(
    ("columns", "options", "complaint"),
    [
        (["value"], {"kafka.bootstrap.servers": "there"}, "which topic"),
        (["key"], {"kafka.bootstrap.servers": "there", "topic": "t"}, "no column 'value'"),
        (["id as value"], {"kafka.bootstrap.servers": "there", "topic": "t"}, "bigint"),
        (
            ["value", "array(1) as headers"],
            {"kafka.bootstrap.servers": "there", "topic": "t"},
            "array<int>",
        ),
        (["value"], {"topic": "t"}, "say where to write"),
        (["value"], {"topic": "t", "store": "STORE"}, "how many partitions"),
        (["value"], {"topic": "t t", "store": "STORE", "partitions": "1"}, "letters, digits"),
        (["value", "string(null) as topic"], {"kafka.bootstrap.servers": "BROKER"}, "is null"),
    ],
)
def test_what_cannot_be_written_is_refused_in_words(
    spark: SparkSession,
    broker: KafscaleProcess,
    store: str,
    columns: list[str],
    options: dict[str, str],
    complaint: str,
) -> None:
    names = {"STORE": store, "BROKER": broker.bootstrap}
    frame = spark.range(3).selectExpr("id", "'k' as key", "'v' as value").selectExpr(*columns)
    writer = frame.write.format("kafscale").mode("append")
    for name, value in options.items():
        writer = writer.option(name, names.get(value, value))
    with pytest.raises(PySparkException, match=complaint):
        writer.save()


def test_records_that_are_not_acknowledged_fail_the_query(
    spark: SparkSession, broker: KafscaleProcess
) -> None:
    create(broker.bootstrap, "small", 1, max_message_bytes="1000")
    frame = spark.range(3).selectExpr("repeat('x', 5000) as value", "'small' as topic")
    writer = frame.write.format("kafscale").option("kafka.bootstrap.servers", broker.bootstrap)
    with pytest.raises(PySparkException, match=r"(?i)too large"):
        writer.mode("append").save()
