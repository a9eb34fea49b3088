"""Topics of Apache Kafka itself, copied offset for offset.

The tasks run in this process: what Spark adds is tested with the other jobs.
"""

import time
from collections.abc import Iterator

import pytest
from confluent_kafka import (
    Consumer,
    ConsumerGroupTopicPartitions,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient

from kafscale.model.errors import TopicExists, UnknownTopic
from kafscale.spark.bucket import Bucket
from kafscale.spark.job import Context, Report
from kafscale.spark.jobs import mirror
from kafscale.spark.transfer import offset_map
from kafscale.spark.transfer.foreign import Foreign
from tests.spark.kafka import TIMEOUT_S, Row, consume, create, produce
from tests.support.apache_kafka import ApacheKafka
from tests.support.broker import KafscaleProcess
from tests.support.maven import Unavailable
from tests.unit.spark.conftest import Units, local_units

__all__ = ["local_units"]

PARTITIONS = 3


@pytest.fixture(scope="module")
def source() -> Iterator[ApacheKafka]:
    try:
        kafka = ApacheKafka()
    except Unavailable as reason:
        pytest.skip(f"Apache Kafka: {reason}")
    with kafka:
        yield kafka


@pytest.fixture
def target() -> Iterator[KafscaleProcess]:
    with KafscaleProcess(settings=["storage.housekeepingInterval=1s"]) as broker:
        yield broker


def context_of(target: KafscaleProcess, *topics: str) -> Context:
    bucket = Bucket(f"file://{target.data}")
    return Context(bucket, topics, session=object())  # type: ignore[arg-type]


def fill(source: ApacheKafka, topic: str) -> None:
    """A topic with everything that makes offsets uneven."""
    create(source.bootstrap, topic, PARTITIONS)
    more = [(at % PARTITIONS, b"k%d" % (at % 11), b"v%d" % at) for at in range(3000)]
    produce(source.bootstrap, topic, more, codec="snappy", headers=[("h", b"1"), ("n", None)])
    produce(source.bootstrap, topic, [(0, None, None), (1, b"", b"")], codec="zstd")
    admin = AdminClient({"bootstrap.servers": source.bootstrap})
    cut = TopicPartition(topic, 0, 500)
    admin.delete_records([cut])[cut].result(TIMEOUT_S)
    transactions(source, topic)


def transactions(source: ApacheKafka, topic: str) -> None:
    """Markers at the end of partition 1, an aborted stretch in the middle."""
    producer = Producer({"bootstrap.servers": source.bootstrap, "transactional.id": topic})
    producer.init_transactions(TIMEOUT_S)
    for abort in (False, True, False):
        producer.begin_transaction()
        for at in range(20):
            producer.produce(topic, b"%s %d" % (b"gone" if abort else b"kept", at), partition=1)
        if abort:
            producer.flush(TIMEOUT_S)
            producer.abort_transaction(TIMEOUT_S)
        else:
            producer.commit_transaction(TIMEOUT_S)


def bounds(bootstrap: str, topic: str) -> list[tuple[int, int]]:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "bounds"})
    places = [TopicPartition(topic, number) for number in range(PARTITIONS)]
    found = [consumer.get_watermark_offsets(place, timeout=TIMEOUT_S) for place in places]
    consumer.close()
    return found


def same(source: ApacheKafka, target: KafscaleProcess, topic: str) -> list[Row]:
    theirs = consume(source.bootstrap, topic, PARTITIONS)
    ours = consume(target.bootstrap, topic, PARTITIONS)
    assert ours == theirs
    assert bounds(target.bootstrap, topic) == bounds(source.bootstrap, topic)
    return ours


def run(context: Context, source: ApacheKafka, **more: object) -> Report:
    return mirror.mirror(context, Foreign(source.bootstrap), **more)  # type: ignore[arg-type]


def test_a_mirror_has_the_same_records_at_the_same_offsets_and_goes_on(
    source: ApacheKafka, target: KafscaleProcess, local_units: Units
) -> None:
    fill(source, "orders")
    context = context_of(target, "orders")
    context.dry_run = True
    assert run(context, source).facts["records_at_most"] > 2500
    assert context.bucket.topics() == []
    context.dry_run = False
    assert run(context, source).facts["records"] == 2502 + 40
    rows = same(source, target, "orders")
    assert rows[0].offset == 500
    assert not any((row.value or b"").startswith(b"gone") for row in rows)

    produce(source.bootstrap, "orders", [(0, b"later", b"%d" % at) for at in range(100)])
    assert run(context, source).facts["records"] == 100
    assert run(context, source).facts["records"] == 0
    high = bounds(source.bootstrap, "orders")[0][1]
    # The broker has the log open and looks for foreign manifests each second.
    deadline = time.monotonic() + TIMEOUT_S
    while bounds(target.bootstrap, "orders")[0][1] != high:
        assert time.monotonic() < deadline, f"what was added is not taken up: {target.tail()}"
        time.sleep(0.3)
    same(source, target, "orders")

    produce(target.bootstrap, "orders", [(0, b"moved", b"here")])
    assert bounds(target.bootstrap, "orders")[0] == (500, high + 1)


def test_groups_find_their_places(
    source: ApacheKafka, target: KafscaleProcess, local_units: Units
) -> None:
    fill(source, "grouped")
    theirs = AdminClient({"bootstrap.servers": source.bootstrap})
    offset_map.commit_offsets(theirs, "readers", "grouped", {0: 700, 2: 12})
    context = context_of(target, "grouped")
    report = run(context, source, bootstrap=target.bootstrap, groups=True)
    assert report.facts["groups"] == 1
    ours = AdminClient({"bootstrap.servers": target.bootstrap})
    asked = ours.list_consumer_group_offsets([ConsumerGroupTopicPartitions("readers")])
    answer = asked["readers"].result(TIMEOUT_S)
    found = sorted((one.partition, one.offset) for one in answer.topic_partitions)
    assert found == [(0, 700), (2, 12)]


def test_what_is_no_mirror_is_not_touched(
    source: ApacheKafka, target: KafscaleProcess, local_units: Units
) -> None:
    fill(source, "both")
    create(target.bootstrap, "both", 1)
    with pytest.raises(TopicExists, match="no mirror"):
        run(context_of(target, "both"), source)
    with pytest.raises(UnknownTopic, match="the source has no topic"):
        run(context_of(target, "nowhere"), source)


def test_a_copy_that_dies_between_segments_goes_on(
    source: ApacheKafka,
    target: KafscaleProcess,
    local_units: Units,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    fill(source, "dying")
    monkeypatch.setattr(mirror.Copy.__new__, "__defaults__", (20_000,))
    context = context_of(target, "dying")
    for units_done in (1, 2, 2, 3):
        local_units.stop_after = local_units.done + units_done - 1
        with pytest.raises(KeyboardInterrupt):
            run(context, source)
        assert prefix_of(same_prefix(context, source, "dying"))
    local_units.stop_after = -1
    run(context, source)
    same(source, target, "dying")


def same_prefix(context: Context, source: ApacheKafka, topic: str) -> tuple[set[Row], set[Row]]:
    """What the copy has, by the bucket alone, and what the source has."""
    from tests.unit.spark.loaded import records_of

    theirs = set(consume(source.bootstrap, topic, PARTITIONS))
    ours = {
        Row(topic, number, r.offset, r.key, r.value, r.timestamp_ms, 0, r.headers)
        for number, log in enumerate(records_of(context.bucket, context.bucket.topic(topic)))
        for r in log
    }
    return ours, theirs


def prefix_of(both: tuple[set[Row], set[Row]]) -> bool:
    ours, theirs = both
    ends = {
        number: max((r.offset for r in ours if r.partition == number), default=-1)
        for number in range(PARTITIONS)
    }
    return ours == {row for row in theirs if row.offset <= ends[row.partition]}
