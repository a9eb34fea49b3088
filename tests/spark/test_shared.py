"""The pipeline on topics that share logs: each has what was written to it, whatever runs."""

import threading
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource
from pyspark.sql import SparkSession

from kafscale.log.formats import keys, places
from kafscale.model.topics import TopicDescriptor
from kafscale.spark.bucket import Bucket
from kafscale.spark.job import Context
from kafscale.spark.jobs.audit import audit
from kafscale.spark.jobs.compact import compact
from kafscale.spark.jobs.compaction.by_key import compact_by_key
from kafscale.spark.jobs.conversion.steps import NewTopicSpec
from kafscale.spark.jobs.convert import convert
from kafscale.spark.jobs.export import export_topic
from kafscale.spark.jobs.retain import retain
from kafscale.spark.jobs.stats import gather
from tests.spark import kafka
from tests.spark.hurried import GRACE_S, HurriedBroker
from tests.spark.test_source import frame, rows_of

Sent = tuple[int, bytes | None, bytes | None]
TOPICS = {"first": 3, "second": 5, "third": 1}


class SharedBroker(HurriedBroker):
    """Topics share two logs."""

    settings = (*HurriedBroker.settings, "storage.sharedLogs=2")


@pytest.fixture(scope="module")
def broker() -> Iterator[SharedBroker]:
    with SharedBroker() as process:
        yield process


def produce(bootstrap: str, topic: str, rows: Iterable[Sent]) -> None:
    """Each record once: brokers that find a job's work in their log ask producers to try again."""
    kafka.produce(bootstrap, topic, rows, **{"enable.idempotence": True})


def fill(broker: SharedBroker, turns: int) -> None:
    for turn in range(turns):
        for topic, partitions in TOPICS.items():
            rows = [(n % partitions, b"k%d" % n, b"%s %d-%d" % (topic.encode(), turn, n))
                    for n in range(40)]  # fmt: skip
            produce(broker.bootstrap, topic, rows)


def consumed(broker: SharedBroker, topic: str, partitions: int) -> list[kafka.Row]:
    return kafka.consume(broker.bootstrap, topic, partitions)


def test_every_job_leaves_every_topic_what_it_had(
    spark: SparkSession, broker: SharedBroker, tmp_path: Path
) -> None:
    for topic, partitions in TOPICS.items():
        kafka.create(broker.bootstrap, topic, partitions, storage_placement="shared")
    bucket = Bucket(broker.store)
    context = Context(bucket, session=spark)
    assert {topic.layout for topic in context.chosen()} == {"shared"}
    turns = 0
    while not lanes_alone(bucket):  # an owner that is busy with the same objects may come first
        assert turns < 40
        fill(broker, 8)
        turns += 8
        compact(context, target=8000, tail_idle_s=0)
    kafka.delete_before(broker.bootstrap, "second", 3, 25)
    expected = {topic: consumed(broker, topic, count) for topic, count in TOPICS.items()}
    counts = [len(rows) for rows in expected.values()]
    assert counts == [40 * turns, 40 * turns - 25, 40 * turns]

    def check() -> None:
        found = frame(spark, broker.store, ",".join(expected), includeHeaders=True)
        every = [row for rows in expected.values() for row in rows]
        assert sorted(rows_of(found)) == sorted(every)

    check()
    assert audit(context).exit_code == 0
    (counted,) = gather(Context(bucket, ("third",), session=spark)).topics
    assert counted.total("records") == 40 * turns
    for _ in range(2):  # the second run has nothing to add
        export_topic(broker.store, "second", f"file://{tmp_path}/table", spark=spark)
    exported = spark.read.parquet(f"{tmp_path}/table").select("_partition", "_offset").collect()
    assert sorted(map(tuple, exported)) == [(r.partition, r.offset) for r in expected["second"]]

    gone = bucket.topic("first")
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    admin.delete_topics(["first"])["first"].result(30)
    del expected["first"]
    deadline = time.monotonic() + 30
    while is_stored(bucket, gone):
        assert time.monotonic() < deadline, "what a deleted topic had is still there"
        retain(context, grace_s=GRACE_S)
        time.sleep(0.3)
    check()
    for topic, rows in expected.items():
        assert consumed(broker, topic, TOPICS[topic]) == rows
    assert audit(context).exit_code == 0


def lanes_alone(bucket: Bucket) -> bool:
    """Whether any lane has an object of its own."""
    return any(
        keys.is_rewritten(entry.name) and len(entry.spans()) == 1
        for log in bucket.snapshots(bucket.topic("second"))
        for entry in log.manifest.segments
    )


def is_stored(bucket: Bucket, topic: TopicDescriptor) -> bool:
    """Whether any object that counts has records of a topic, deleted or not."""
    mine = {place for _, place in places.each_place(topic)}
    return any(
        (log.folder, span.lane) in mine
        for log in bucket.snapshots(topic)
        for piece in log.pieces
        for span in piece.spans
    )


def test_a_topic_moves_into_logs_that_brokers_are_writing_and_out_again(
    spark: SparkSession, broker: SharedBroker
) -> None:
    kafka.create(broker.bootstrap, "own", 4)
    kafka.create(broker.bootstrap, "busy", 2, storage_placement="shared")
    rows = [(n % 4, b"k%d" % n, b"own %d" % n) for n in range(2000)]
    produce(broker.bootstrap, "own", rows)
    expected = consumed(broker, "own", 4)
    stop = threading.Event()
    sent: list[int] = []

    def write() -> None:
        while not stop.is_set():
            produce(broker.bootstrap, "busy", [(n % 2, None, b"busy") for n in range(20)])
            sent.append(20)

    writer = threading.Thread(target=write)
    writer.start()
    try:
        context = Context(Bucket(broker.store), ("own",), session=spark)
        convert(context, NewTopicSpec("own", "moved", layout="shared", logs=2))
    finally:
        stop.set()
        writer.join()
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    deadline = time.monotonic() + 30
    while len(admin.list_topics("moved", timeout=10).topics["moved"].partitions) < 4:
        assert time.monotonic() < deadline, "no broker has heard of the topic"
        time.sleep(0.2)
    told = [row._replace(topic="own") for row in consumed(broker, "moved", 4)]
    assert told == expected
    assert len(consumed(broker, "busy", 2)) == sum(sent)
    produce(broker.bootstrap, "moved", [(n, None, b"after") for n in range(4)])
    context = Context(Bucket(broker.store), ("moved",), session=spark)
    convert(context, NewTopicSpec("moved", "back", layout="virtual", logs=2))
    back = [row._replace(topic="own") for row in rows_of(frame(spark, broker.store, "back",
            includeHeaders=True)) if row.value != b"after"]  # fmt: skip
    assert back == expected
    assert audit(Context(Bucket(broker.store), session=spark)).exit_code == 0


def test_the_newest_record_of_a_key_stays_in_the_lanes_that_want_it(
    spark: SparkSession, broker: SharedBroker
) -> None:
    kafka.create(
        broker.bootstrap, "keyed", 3, storage_placement="shared", cleanup_policy="compact",
        min_cleanable_dirty_ratio="0",
    )  # fmt: skip
    kafka.create(broker.bootstrap, "plain", 3, storage_placement="shared")
    for turn in range(6):
        for topic in ("keyed", "plain"):
            produce(broker.bootstrap, topic, [(n, b"same", b"%d" % turn) for n in range(3)])
    bucket = Bucket(broker.store)
    compact_by_key(Context(bucket, ("keyed", "plain"), session=spark), tail_idle_s=0)
    rows = rows_of(frame(spark, broker.store, "keyed", includeHeaders=True))
    assert [(row.partition, row.offset, row.value) for row in rows] == [
        (n, 5, b"5") for n in range(3)
    ]
    assert len(rows_of(frame(spark, broker.store, "plain", includeHeaders=True))) == 18


def test_a_topic_that_brokers_move_is_the_same_in_both_places(
    spark: SparkSession, broker: SharedBroker
) -> None:
    kafka.create(broker.bootstrap, "mover", 2)
    produce(broker.bootstrap, "mover", [(n % 2, b"k", b"%d" % n) for n in range(200)])
    expected = consumed(broker, "mover", 2)
    bucket = Bucket(broker.store)
    old = bucket.topic("mover")
    resource = ConfigResource(
        ConfigResource.Type.TOPIC, "mover",
        incremental_configs=[ConfigEntry(
            "storage.placement", "shared",
            incremental_operation=AlterConfigOpType.SET,
        )],
    )  # fmt: skip
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    admin.incremental_alter_configs([resource])[resource].result(30)
    deadline = time.monotonic() + 60
    while bucket.topic("mover").layout != "shared":
        assert time.monotonic() < deadline, "it does not move"
        time.sleep(0.2)
    assert rows_of(frame(spark, broker.store, "mover", includeHeaders=True)) == expected
    context = Context(bucket, session=spark)
    compact(context, target=8000, tail_idle_s=0)
    for _ in range(3):  # the old place is free, its logs are ended, their objects may go
        time.sleep(GRACE_S)
        retain(context, grace_s=GRACE_S, tail_idle_s=0)
    left = bucket.run(lambda store: store.find(f"{old.folder}/0"))
    assert left, "no client is told that it has ended"
    assert all(keys.is_last(row.key) for row in left), "it has left its old place"
    produce(broker.bootstrap, "mover", [(n % 2, b"k", b"after") for n in range(10)])
    found = rows_of(frame(spark, broker.store, "mover", includeHeaders=True))
    assert found == consumed(broker, "mover", 2)
    assert len(found) == 210
    assert audit(context).exit_code == 0
