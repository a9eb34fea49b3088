"""The unmodified Python client of Pulsar (C++ below) with its default settings."""

import itertools
import threading
from collections.abc import Iterator
from typing import Any

import pulsar
import pytest
from confluent_kafka import Consumer, TopicPartition

from tests.e2e.conftest import watched
from tests.support.broker import KafscaleProcess

pytestmark = pytest.mark.slow

_numbers = itertools.count()
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


def connect(door: KafscaleProcess) -> pulsar.Client:
    logger = pulsar.ConsoleLogger(pulsar.LoggerLevel.Error)
    url = f"pulsar://127.0.0.1:{door.pulsar_port}"
    return pulsar.Client(url, operation_timeout_seconds=20, logger=logger)


def unique(purpose: str) -> str:
    return f"{purpose}-{next(_numbers)}"


def place(message_id: Any) -> tuple[int, int, int]:
    """Ledger, entry and index in the batch."""
    return message_id.ledger_id(), message_id.entry_id(), message_id.batch_index()


def send_all(producer: pulsar.Producer, messages: list[dict[str, Any]]) -> list[Any]:
    """Send without waiting in between; gives the ids in the order of the messages."""
    ids: list[Any] = [None] * len(messages)
    done = threading.Semaphore(0)

    def sent(number: int, result: Any, message_id: Any) -> None:
        assert result == pulsar.Result.Ok
        ids[number] = message_id
        done.release()

    for number, message in enumerate(messages):
        producer.send_async(
            callback=lambda result, got, number=number: sent(number, result, got), **message
        )
    producer.flush()
    for _ in messages:
        assert done.acquire(timeout=20)
    return ids


def read_by_kafka(door: KafscaleProcess, topic: str, count: int) -> list[Any]:
    consumer = Consumer({"bootstrap.servers": door.bootstrap, "group.id": "reads"})
    consumer.assign([TopicPartition(topic, 0, 0)])
    found: list[Any] = []
    while len(found) < count:
        batch = consumer.consume(count - len(found), 20)
        assert batch, f"{len(found)} of {count} messages"
        found += batch
    consumer.close()
    assert [message.error() for message in found] == [None] * count
    return found


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
    from confluent_kafka.admin import AdminClient, NewTopic

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


def test_a_producer_goes_on_after_the_broker_was_killed(tmp_path: Any) -> None:
    broker = KafscaleProcess(tmp_path)
    with watched(broker):
        client = connect(broker)
        producer = client.create_producer("survives")
        assert place(producer.send(b"before")) == (1, 0, -1)
        broker.kill()
        broker.start()
        assert place(producer.send(b"after")) == (1, 1, -1)
        assert [one.value() for one in read_by_kafka(broker, "survives", 2)] == [
            b"before",
            b"after",
        ]
        client.close()
