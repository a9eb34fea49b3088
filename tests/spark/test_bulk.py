"""A DataFrame becomes a topic, and clients of a broker that runs already read it at once."""

import collections

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from pyspark.sql import DataFrame, SparkSession

from kafscale.spark.bucket import Bucket
from kafscale.spark.sink import bulk
from tests.support.broker import KafscaleProcess

PARTITIONS = 4
RECORDS = 1_000_000


@pytest.fixture
def bucket(store: str) -> Bucket:
    return Bucket(store)


def rows(spark: SparkSession, count: int, tasks: int = 4) -> DataFrame:
    return spark.range(count, numPartitions=tasks).selectExpr(
        "case when id % 10 = 0 then null else concat('key-', cast(id % 5000 as string)) end as key",
        "cast(id as string) as value",
        "timestamp_millis(1700000000000 + id) as timestamp",
    )


def consume(broker: KafscaleProcess, topic: str, count: int) -> dict[int, list[tuple]]:
    """Everything of a topic as (offset, key, value, time), by partition."""
    consumer = Consumer(
        {
            "bootstrap.servers": broker.bootstrap,
            "group.id": f"{topic}-test",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "fetch.wait.max.ms": 50,
        }
    )
    found: dict[int, list[tuple]] = collections.defaultdict(list)
    consumer.subscribe([topic])
    left = count
    try:
        while left:
            some = consumer.consume(min(left, 10_000), timeout=120.0)
            assert some, f"{left} records of {topic} did not come"
            for one in some:
                assert one.error() is None, one.error()
                found[one.partition()].append(
                    (one.offset(), one.key(), one.value(), one.timestamp()[1])
                )
            left -= len(some)
        assert consumer.poll(0.2) is None, "more than there should be"
    finally:
        consumer.close()
    return found


def test_a_million_records_can_be_consumed_at_once(
    spark: SparkSession, broker: KafscaleProcess, bucket: Bucket
) -> None:
    loaded = bulk.load(
        rows(spark, RECORDS), bucket, "loaded", PARTITIONS, compression="lz4",
        configs={"retention.ms": "-1"},
    )  # fmt: skip
    assert loaded.records == RECORDS
    found = consume(broker, "loaded", RECORDS)
    seen: set[int] = set()
    where: dict[bytes, int] = {}
    for partition, log in found.items():
        assert [row[0] for row in log] == list(range(len(log)))
        numbers = [int(row[2]) for row in log]
        assert numbers == sorted(numbers), "the order of the DataFrame"
        assert [row[3] for row in log] == [1_700_000_000_000 + number for number in numbers]
        seen.update(numbers)
        where.update({row[1]: partition for row in log if row[1] is not None})
    assert seen == set(range(RECORDS))
    nulls = [sum(row[1] is None for row in found[one]) for one in range(PARTITIONS)]
    assert max(nulls) - min(nulls) <= 0.05 * sum(nulls)
    assert chosen_by_librdkafka(broker, list(where)) == where


def chosen_by_librdkafka(broker: KafscaleProcess, keys: list[bytes]) -> dict[bytes, int]:
    """Where a client with Java's partitioner puts these keys in a topic of as many partitions."""
    producer = Producer(
        {"bootstrap.servers": broker.bootstrap, "partitioner": "murmur2", "linger.ms": 20}
    )
    where: dict[bytes, int] = {}
    for key in keys:
        producer.produce(
            "loaded", key=key, on_delivery=lambda _, m: where.update({m.key(): m.partition()})
        )
    assert producer.flush(120) == 0
    return where


def test_a_loaded_topic_is_an_ordinary_topic(
    spark: SparkSession, broker: KafscaleProcess, bucket: Bucket
) -> None:
    bulk.load(rows(spark, 1000), bucket, "plain", 2, compression="zstd")
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    assert len(admin.list_topics("plain", timeout=60).topics["plain"].partitions) == 2
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "g"})
    low, high = consumer.get_watermark_offsets(TopicPartition("plain", 0), timeout=60)
    producer = Producer({"bootstrap.servers": broker.bootstrap, "enable.idempotence": True})
    placed = []
    producer.produce(
        "plain", b"more", partition=0, on_delivery=lambda _, m: placed.append(m.offset())
    )
    assert producer.flush(60) == 0
    assert (low, placed) == (0, [high])
    in_time = consumer.offsets_for_times(
        [TopicPartition("plain", 0, 1_700_000_000_500)], timeout=60
    )
    assert 200 < in_time[0].offset < 300
    consumer.close()
    admin.delete_topics(["plain"])["plain"].result(60)
    again = bulk.load(rows(spark, 10), bucket, "plain", 1)
    assert again.topic.incarnation == 2
    assert sum(map(len, consume(broker, "plain", 10).values())) == 10
