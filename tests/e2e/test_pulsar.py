"""The unmodified Python client of Pulsar (C++ below) with its default settings."""

import re
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pulsar
import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from tests.e2e.conftest import watched
from tests.support.broker import KafscaleProcess
from tests.support.ports import free_port
from tests.support.pulsar_client import (
    PATIENCE_MS,
    connect,
    place,
    read_by_kafka,
    receive_all,
    send_all,
    unique,
)

pytestmark = pytest.mark.slow

EVENT_MS = 1_700_000_000_123
CODECS = (
    pulsar.CompressionType.NONE,
    pulsar.CompressionType.LZ4,
    pulsar.CompressionType.ZLib,
    pulsar.CompressionType.ZSTD,
    pulsar.CompressionType.SNAPPY,
)


@pytest.fixture(scope="module")
def door() -> Iterator[KafscaleProcess]:
    broker = KafscaleProcess()
    with watched(broker):
        yield broker


@pytest.fixture(scope="module")
def client(door: KafscaleProcess) -> Iterator[pulsar.Client]:
    client = connect(door)
    yield client
    client.close()


MESSAGES: list[dict[str, Any]] = [
    {"content": b"bare"},
    {"content": b"keyed", "partition_key": "k", "properties": {"a": "1", "ü": "ö"}},
    {"content": b"ordered", "ordering_key": "o"},
    {"content": b"both", "partition_key": "p", "ordering_key": "o"},
    {"content": b"timed", "event_timestamp": EVENT_MS},
    {"content": None, "partition_key": "gone"},
    {"content": b""},
    {"content": b"x" * 100_000},
]
KEYS = [None, b"k", b"o", b"o", None, b"gone", None, None]


@pytest.mark.parametrize("codec", CODECS, ids=lambda codec: codec.name)
@pytest.mark.parametrize("is_batching", [False, True], ids=["unbatched", "batched"])
def test_a_kafka_consumer_reads_what_a_pulsar_producer_sent(
    door: KafscaleProcess, client: pulsar.Client, codec: pulsar.CompressionType, is_batching: bool
) -> None:
    topic = unique("pulsar-to-kafka")
    producer = client.create_producer(
        topic,
        compression_type=codec,
        batching_enabled=is_batching,
        batching_max_publish_delay_ms=100,
    )
    ids = send_all(producer, MESSAGES)
    producer.close()
    read = read_by_kafka(door, topic, len(MESSAGES))
    assert [one.offset() for one in read] == list(range(len(MESSAGES)))
    assert [one.value() for one in read] == [one["content"] for one in MESSAGES]
    assert [one.key() for one in read] == KEYS
    assert read[1].headers() == [("a", b"1"), ("ü", "ö".encode())]
    assert read[4].timestamp()[1] == EVENT_MS
    assert EVENT_MS < read[0].timestamp()[1] <= read[7].timestamp()[1]
    # The ledger is the topic's incarnation; entry and index together are the offset.
    offsets = [entry + max(index, 0) for _, entry, index in map(place, ids)]
    assert offsets == list(range(len(MESSAGES)))
    assert {ledger for ledger, _, _ in map(place, ids)} == {1}
    assert all((index >= 0) == is_batching for _, _, index in map(place, ids))


def test_messages_that_come_one_by_one_are_stored_together(
    door: KafscaleProcess, client: pulsar.Client
) -> None:
    topic = unique("pulsar-singles")
    producer = client.create_producer(topic, block_if_queue_full=True)
    messages = [{"content": b"%d" % number} for number in range(3000)]
    ids = send_all(producer, messages)
    producer.close()
    assert [place(one) for one in ids] == [(1, number, -1) for number in range(3000)]
    read = read_by_kafka(door, topic, 3000)
    assert [one.value() for one in read] == [one["content"] for one in messages]


@pytest.mark.parametrize(
    "name", ["non-persistent://public/default/t", "persistent://tenant/cluster/namespace/t"]
)
def test_what_is_not_kept_is_refused_at_once(client: pulsar.Client, name: str) -> None:
    with pytest.raises(pulsar.exceptions.PulsarException, match="NotAllowed"):
        client.create_producer(name)


def test_a_message_that_is_too_large_fails_alone(client: pulsar.Client) -> None:
    producer = client.create_producer(unique("pulsar-large"))
    with pytest.raises(pulsar.exceptions.PulsarException, match="TooBig"):
        producer.send(b"x" * 2_000_000)
    assert place(producer.send(b"small")) == (1, 0, -1)
    producer.close()


def test_producers_may_want_a_topic_for_themselves(client: pulsar.Client) -> None:
    topic = unique("pulsar-exclusive")
    exclusive = pulsar.ProducerAccessMode.Exclusive
    first = client.create_producer(topic, access_mode=exclusive)
    for mode in (exclusive, pulsar.ProducerAccessMode.Shared):
        with pytest.raises(pulsar.exceptions.PulsarException):
            client.create_producer(topic, access_mode=mode)
    first.close()
    second = client.create_producer(topic, producer_name="mine")
    with pytest.raises(pulsar.exceptions.PulsarException, match="Busy"):
        client.create_producer(topic, producer_name="mine")
    second.close()


def test_partitions_are_found_and_filled(door: KafscaleProcess, client: pulsar.Client) -> None:
    topic = unique("pulsar-partitions")
    admin = AdminClient({"bootstrap.servers": door.bootstrap})
    admin.create_topics([NewTopic(topic, 3)])[topic].result(20)
    assert client.get_topic_partitions(topic) == [
        f"persistent://public/default/{topic}-partition-{number}" for number in range(3)
    ]
    producer = client.create_producer(topic)
    partitions = {
        producer.send(b"v", partition_key=f"k{number}").partition() for number in range(30)
    }
    assert partitions == {0, 1, 2}
    producer.close()


EARLIEST = pulsar.InitialPosition.Earliest
SHARED = pulsar.ConsumerType.Shared


def test_a_pulsar_consumer_reads_what_both_sides_wrote(
    door: KafscaleProcess, client: pulsar.Client
) -> None:
    topic = unique("pulsar-both")
    consumer = client.subscribe(topic, "all", initial_position=EARLIEST)
    sent = []
    for is_batching in (False, True):
        producer = client.create_producer(topic, batching_enabled=is_batching)
        sent += send_all(producer, MESSAGES)
        producer.close()
    kafka = Producer({"bootstrap.servers": door.bootstrap, "compression.type": "zstd"})
    kafka.produce(topic, b"value", b"key", timestamp=EVENT_MS, headers=[("h", b"1"), ("n", None)])
    kafka.produce(topic, None, b"\xff")
    kafka.flush(20)
    read = receive_all(consumer, 2 * len(MESSAGES) + 2)
    assert [place(one.message_id()) for one in read[:-2]] == [place(one) for one in sent]
    for one, wish in zip(read, 2 * MESSAGES, strict=False):
        assert one.data() == (wish["content"] or b"")
        assert one.partition_key() == wish.get("partition_key", "")
        assert one.ordering_key() == wish.get("ordering_key", "")
        assert one.properties() == wish.get("properties", {})
        assert one.event_timestamp() == wish.get("event_timestamp", 0)
        assert one.publish_timestamp() > EVENT_MS
    first, second = read[-2:]
    assert (first.data(), first.partition_key(), first.ordering_key()) == (b"value", "key", "key")
    assert (first.event_timestamp(), first.properties()) == (EVENT_MS, {"h": "1", "n": ""})
    assert (second.data(), second.partition_key()) == (b"", "/w==")
    assert place(consumer.get_last_message_id()) == place(second.message_id())
    consumer.close()


def test_a_subscription_goes_on_where_it_was(client: pulsar.Client) -> None:
    topic = unique("pulsar-goes-on")
    consumer = client.subscribe(topic, "kept")
    with pytest.raises(pulsar.exceptions.PulsarException, match="Busy"):
        client.subscribe(topic, "kept")
    producer = client.create_producer(topic)
    ids = [producer.send(b"%d" % number) for number in range(6)]
    received = [consumer.receive(PATIENCE_MS) for _ in range(4)]
    consumer.acknowledge_cumulative(received[2])
    consumer.close()
    again = client.subscribe(topic, "kept")
    assert [one.data() for one in receive_all(again, 3)] == [b"3", b"4", b"5"]
    again.seek(ids[1])
    assert again.receive(PATIENCE_MS).data() == b"2"
    again.seek(pulsar.MessageId.earliest)
    assert [one.data() for one in receive_all(again, 6)] == [b"%d" % n for n in range(6)]
    again.unsubscribe()
    anew = client.subscribe(topic, "kept", initial_position=EARLIEST)
    assert anew.receive(PATIENCE_MS).data() == b"0"
    anew.close()
    reader = client.create_reader(topic, ids[3])
    assert reader.has_message_available()
    assert [reader.read_next(PATIENCE_MS).data() for _ in range(2)] == [b"4", b"5"]
    assert not reader.has_message_available()
    reader.close()


def test_consumers_share_a_subscription(client: pulsar.Client) -> None:
    topic = unique("pulsar-shared")
    options: dict[str, Any] = {"consumer_type": SHARED, "negative_ack_redelivery_delay_ms": 100}
    consumers = [client.subscribe(topic, "work", **options) for _ in range(2)]
    producer = client.create_producer(topic)
    for number in range(20):
        producer.send(b"%d" % number)
    shares = [[one.receive(PATIENCE_MS) for _ in range(10)] for one in consumers]
    assert sorted(int(m.data()) for share in shares for m in share) == list(range(20))
    returned = shares[0][0]
    assert returned.redelivery_count() == 0
    consumers[0].negative_acknowledge(returned)
    for consumer, share in zip(consumers, shares, strict=True):
        for message in share:
            if message is not returned:
                consumer.acknowledge(message)
    consumers[1].close()
    (again,) = receive_all(consumers[0], 1)
    assert (again.data(), again.redelivery_count()) == (returned.data(), 1)
    consumers[0].close()


def test_keys_stay_with_their_consumer(client: pulsar.Client) -> None:
    topic = unique("pulsar-keys")
    kind = pulsar.ConsumerType.KeyShared
    consumers = [client.subscribe(topic, "by-key", consumer_type=kind) for _ in range(2)]
    producer = client.create_producer(topic, batching_enabled=True)
    messages = [
        {"content": b"%d" % number, "partition_key": f"k{number % 10}"} for number in range(100)
    ]
    send_all(producer, messages)
    keys: list[set[str]] = []
    got: dict[str, list[int]] = {}
    for consumer in consumers:
        mine = set()
        while True:
            try:
                message = consumer.receive(1000)
            except pulsar.Timeout:
                break
            consumer.acknowledge(message)
            mine.add(message.partition_key())
            got.setdefault(message.partition_key(), []).append(int(message.data()))
        keys.append(mine)
    assert keys[0] | keys[1] == {f"k{number}" for number in range(10)}
    assert not keys[0] & keys[1]
    assert all(numbers == sorted(numbers) for numbers in got.values())
    assert sum(map(len, got.values())) == 100


def test_another_consumer_takes_over(client: pulsar.Client) -> None:
    topic = unique("pulsar-failover")
    kind = pulsar.ConsumerType.Failover
    first = client.subscribe(topic, "one-at-a-time", consumer_type=kind, consumer_name="a")
    second = client.subscribe(topic, "one-at-a-time", consumer_type=kind, consumer_name="b")
    producer = client.create_producer(topic)
    producer.send(b"1")
    assert receive_all(first, 1)[0].data() == b"1"
    first.close()
    producer.send(b"2")
    assert receive_all(second, 1)[0].data() == b"2"
    second.close()


def test_topics_by_pattern_and_by_partition(door: KafscaleProcess, client: pulsar.Client) -> None:
    prefix = unique("pulsar-pattern")
    for name in ("a", "b"):
        client.create_producer(f"{prefix}-{name}").send(name.encode())
    admin = AdminClient({"bootstrap.servers": door.bootstrap})
    admin.create_topics([NewTopic(f"{prefix}-c", 3)])[f"{prefix}-c"].result(20)
    producer = client.create_producer(f"{prefix}-c")
    for number in range(6):
        producer.send(b"c", partition_key=f"k{number}")
    pattern = re.compile(f"persistent://public/default/{prefix}-.*")
    consumer = client.subscribe(pattern, "many", initial_position=EARLIEST)
    values = sorted(one.data() for one in receive_all(consumer, 8))
    assert values == [b"a", b"b", *[b"c"] * 6]
    consumer.close()


def test_a_client_looks_up_by_http() -> None:
    port = free_port()
    with watched(KafscaleProcess(settings=[f"pulsar.httpPort={port}"])):
        client = pulsar.Client(f"http://127.0.0.1:{port}", operation_timeout_seconds=20)
        assert place(client.create_producer("by-http").send(b"v")) == (1, 0, -1)
        consumer = client.subscribe("by-http", "s", initial_position=EARLIEST)
        assert receive_all(consumer, 1)[0].data() == b"v"
        client.close()


def test_a_message_in_chunks_comes_out_whole(client: pulsar.Client) -> None:
    topic = unique("pulsar-chunks")
    consumer = client.subscribe(topic, "chunks")
    producer = client.create_producer(topic, chunking_enabled=True)
    large = bytes(range(256)) * 12_000
    producer.send(large)
    message = consumer.receive(PATIENCE_MS)
    assert message.data() == large
    consumer.acknowledge(message)
    producer.send(b"after")
    assert receive_all(consumer, 1)[0].data() == b"after"
    consumer.close()


def test_a_delayed_message_waits(client: pulsar.Client) -> None:
    topic = unique("pulsar-delayed")
    consumer = client.subscribe(topic, "patient", consumer_type=SHARED)
    producer = client.create_producer(topic)
    producer.send(b"later", deliver_after=timedelta(milliseconds=1500))
    producer.send(b"now")
    assert [one.data() for one in receive_all(consumer, 2)] == [b"now", b"later"]
    consumer.close()


def test_acknowledged_messages_do_not_come_again_after_a_kill(tmp_path: Any) -> None:
    broker = KafscaleProcess(tmp_path)
    with watched(broker):
        client = connect(broker)
        consumer = client.subscribe("survives", "kept")
        producer = client.create_producer("survives")
        assert place(producer.send(b"0")) == (1, 0, -1)
        producer.send(b"1")
        receive_all(consumer, 1)
        consumer.close()  # saves what was acknowledged
        broker.kill()
        broker.start()
        assert place(producer.send(b"2")) == (1, 2, -1)
        again = client.subscribe("survives", "kept")
        assert [one.data() for one in receive_all(again, 2)] == [b"1", b"2"]
        client.close()
