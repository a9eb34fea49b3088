"""`compact` on Spark, beside a live broker and its clients, and beside itself."""

import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from pyspark.sql import SparkSession

from kafscale.spark.bucket import Bucket
from kafscale.spark.job import Context, Report
from kafscale.spark.jobs.audit import audit
from kafscale.spark.jobs.compact import compact
from kafscale.spark.jobs.compaction.by_key import compact_by_key
from kafscale.spark.jobs.retain import retain
from tests.spark import kafka
from tests.spark.hurried import GRACE_S, HurriedBroker
from tests.support.clients import CLIENTS


@pytest.fixture(scope="module")
def hurried() -> Iterator[HurriedBroker]:
    with HurriedBroker() as broker:
        yield broker


def context_of(spark: SparkSession, broker: HurriedBroker, *topics: str) -> Context:
    return Context(Bucket(broker.store), topics, session=spark)


def trickle(broker: HurriedBroker, topic: str, values: range, pause_s: float = 0) -> None:
    """Many small flushes: each record is acknowledged before the next is sent."""
    producer = Producer(
        {"bootstrap.servers": broker.bootstrap, "linger.ms": 0, "enable.idempotence": True}
    )
    for number in values:
        producer.produce(topic, b"value %d" % number, b"k%d" % (number % 7), 0)
        producer.flush()
        time.sleep(pause_s)


SMALL: dict[str, Any] = {"batch.num.messages": 37}


class Follower(threading.Thread):
    """Reads a topic from its beginning, slowly enough to be overtaken by every change of it."""

    def __init__(self, broker: HurriedBroker, topic: str, until: int) -> None:
        super().__init__(daemon=True)
        self.found: list[tuple[int, bytes]] = []
        self.errors: list[str] = []
        self._until = until
        self._consumer = Consumer(
            {
                "bootstrap.servers": broker.bootstrap,
                "group.id": f"follower-{topic}",
                "fetch.message.max.bytes": 2000,
                "queued.min.messages": 1,
                "queued.max.messages.kbytes": 1,
            }
        )
        self._consumer.assign([TopicPartition(topic, 0, 0)])

    def run(self) -> None:
        deadline = time.monotonic() + 240
        while len(self.found) < self._until and time.monotonic() < deadline:
            for message in self._consumer.consume(20, 0.05):
                if message.error():
                    self.errors.append(str(message.error()))
                else:
                    self.found.append((message.offset(), message.value()))
        self._consumer.close()


def test_a_consumer_notices_nothing_of_two_compactions_at_once(
    spark: SparkSession, hurried: HurriedBroker
) -> None:
    kafka.create(hurried.bootstrap, "busy")
    trickle(hurried, "busy", range(300))
    follower = Follower(hurried, "busy", 900)
    writer = threading.Thread(target=trickle, args=(hurried, "busy", range(300, 900), 0.01))
    reports: list[Report] = []

    def job(tail_idle_s: float) -> None:
        context = context_of(spark, hurried, "busy")
        while writer.is_alive() or len(reports) < 4:
            reports.append(compact(context, target=100_000, tail_idle_s=tail_idle_s))

    # One of the two takes the tail in while its owner is writing it.
    jobs = [threading.Thread(target=job, args=(idle_s,)) for idle_s in (0, 900)]
    threads = [writer, follower, *jobs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    expected = [(number, b"value %d" % number) for number in range(900)]
    assert follower.errors == []
    assert follower.found == expected
    assert [report.exit_code for report in reports] == [0] * len(reports)
    assert sum(report.facts["objects_replaced"] for report in reports) > 5
    found = kafka.consume(hurried.bootstrap, "busy", 1)
    assert [(row.offset, row.value) for row in found] == expected


def test_replaced_objects_are_deleted_and_an_abandoned_tail_is_taken_in(
    spark: SparkSession,
) -> None:
    with HurriedBroker() as broker:
        kafka.create(broker.bootstrap, "left")
        trickle(broker, "left", range(55))
        broker.kill()
        context = context_of(spark, broker, "left")
        topic = context.bucket.topic("left")
        [before] = context.bucket.snapshots(topic)
        assert before.tail
        plan = Context(context.bucket, ("left",), dry_run=True)
        assert compact(plan, tail_idle_s=0).rows[0]["tail_to_take_in"] == len(before.tail)
        report = compact(context, tail_idle_s=0)
        [after] = context.bucket.snapshots(topic)
        assert (report.exit_code, len(after.pieces), after.end) == (0, 1, 55)
        assert report.rows[0]["objects_after"] == 1
        again = compact(context, tail_idle_s=0)
        assert again.facts["objects_replaced"] == 0
        broker.start()
        trickle(broker, "left", range(55, 60))
        found = kafka.consume(broker.bootstrap, "left", 1)
        assert [(row.offset, row.value) for row in found] == [
            (n, b"value %d" % n) for n in range(60)
        ]
        deadline = time.monotonic() + 60 * GRACE_S
        folder = broker.data / "objects" / topic.folder / "0"
        flushes = {f"segment-{number:020d}.kfs" for number in range(55)}
        while left := flushes & {path.name for path in folder.iterdir()}:
            assert time.monotonic() < deadline, left
            time.sleep(0.2)
        assert len(kafka.consume(broker.bootstrap, "left", 1)) == 60


def test_a_topic_compacted_by_key_reads_rightly_with_every_client(
    spark: SparkSession, hurried: HurriedBroker
) -> None:
    topic = "states"
    kafka.create(hurried.bootstrap, topic, 2, cleanup_policy="compact", segment_bytes="20000")
    start_ms = 1_700_000_000_000
    for codec in ("none", "gzip", "snappy", "lz4", "zstd"):
        records = [
            (
                n % 2,
                b"key-%d" % (n * 7 % 50),
                None if n % 13 == 0 else b"%s %d" % (codec.encode(), n),
            )
            for n in range(2000)
        ]
        kafka.produce(hurried.bootstrap, topic, records, codec=codec, **SMALL)
    written = kafka.consume(hurried.bootstrap, topic, 2)
    context = context_of(spark, hurried, topic)
    hurried.restart()  # nothing in memory, an idle tail
    report = compact_by_key(context, tail_idle_s=0, dirty_ratio=0.0)
    assert report.exit_code == 0
    assert all(row["complete"] for row in report.rows)
    newest = {(row.partition, row.key): row.offset for row in written}
    expected = [row for row in written if newest[row.partition, row.key] == row.offset]
    assert len(expected) < 110 < len(written)
    hurried.restart()
    assert kafka.consume(hurried.bootstrap, topic, 2) == expected
    _check_other_clients(hurried, topic, expected)
    _check_times(hurried, topic, expected, start_ms)
    again = compact_by_key(context, tail_idle_s=0)
    assert again.facts["objects_replaced"] == 0
    found = audit(context)
    assert (found.exit_code, found.facts["errors"]) == (0, 0)
    assert retain(context, grace_s=GRACE_S).exit_code == 0
    frame = spark.read.format("kafscale").option("store", hurried.store)
    rows = frame.option("subscribe", topic).load().select("partition", "offset").collect()
    assert sorted((row[0], row[1]) for row in rows) == [
        (row.partition, row.offset) for row in expected
    ]


def _check_other_clients(broker: HurriedBroker, topic: str, expected: list[kafka.Row]) -> None:
    for name in ("kafka-python", "aiokafka"):
        client = CLIENTS[name](broker.bootstrap)
        found = client.consume(topic, [0, 1], len(expected))
        client.close()
        assert sorted((row.partition, row.offset, row.value) for row in found) == [
            (row.partition, row.offset, row.value) for row in expected
        ], name


def _check_times(
    broker: HurriedBroker, topic: str, expected: list[kafka.Row], start_ms: int
) -> None:
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "times"})
    for wanted in (0, start_ms + 1500, start_ms + 1900, start_ms + 1999, start_ms + 5000):
        [answer] = consumer.offsets_for_times([TopicPartition(topic, 0, wanted)], 30)
        later = [r.offset for r in expected if r.partition == 0 and r.timestamp_ms >= wanted]
        high = consumer.get_watermark_offsets(TopicPartition(topic, 0), 30)[1]
        assert answer.offset in ((later[0],) if later else (-1, high)), wanted
    for partition in (0, 1):
        offsets = [row.offset for row in expected if row.partition == partition]
        for wanted in (0, offsets[0] - 1, offsets[0] + 1, offsets[-1]):
            consumer.assign([TopicPartition(topic, partition, max(0, wanted))])
            message = None
            while message is None:
                message = consumer.poll(5)
            assert message.error() is None
            assert message.offset() == min(one for one in offsets if one >= wanted)
    consumer.close()
