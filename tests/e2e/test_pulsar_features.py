"""What Pulsar clients can do beyond sending and receiving, with the unmodified Python client.

KAFSCALE_TEST_AGAINST=pulsar runs the same tests against Apache Pulsar, but for what Kafka's clients
do in them: what fails there is a wrong expectation.
"""

import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pulsar
import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from pulsar.schema import AvroSchema, Integer, JsonSchema, Record, String, StringSchema

from tests.e2e.conftest import AGAINST, watched
from tests.support.apache_pulsar import ApachePulsar
from tests.support.broker import KafscaleProcess
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

SHARED = pulsar.ConsumerType.Shared
EARLIEST = pulsar.InitialPosition.Earliest
MODES = pulsar.ProducerAccessMode
LOW_KEYS = 15


IS_OURS = AGAINST != "pulsar"


@pytest.fixture(scope="module")
def door() -> Iterator[KafscaleProcess | ApachePulsar]:
    ours = KafscaleProcess(settings=["storage.sharedLogs=2"]) if IS_OURS else ApachePulsar()
    with watched(ours) as broker:
        yield broker


@pytest.fixture(scope="module")
def client(door: KafscaleProcess) -> Iterator[pulsar.Client]:
    client = connect(door)
    yield client
    client.close()


def test_a_table_view_has_the_newest_value_of_each_key(client: pulsar.Client) -> None:
    topic = unique("pulsar-table")
    producer = client.create_producer(topic)
    for number in range(6):
        producer.send(b"%d" % number, partition_key=f"k{number % 2}")
    table = client.create_table_view(topic)
    assert {key: table.get(key) for key in ("k0", "k1")} == {"k0": b"4", "k1": b"5"}
    came = threading.Event()
    table.for_each_and_listen(lambda key, value: came.set() if value == b"new" else None)
    producer.send(b"new", partition_key="k0")
    assert came.wait(PATIENCE_MS / 1000)
    table.close()


class Order(Record):  # type: ignore[misc]
    """What is sent with a schema."""

    name = String(required=True)


class LargerOrder(Record):  # type: ignore[misc]
    """A later version of it."""

    name = String(required=True)
    count = Integer(default=0, required_default=True)


@pytest.mark.parametrize("schema", [JsonSchema, AvroSchema], ids=lambda kind: str(kind.__name__))
def test_a_schema_has_versions(client: pulsar.Client, schema: Any) -> None:
    topic = unique("pulsar-schema")
    first = client.create_producer(topic, schema=schema(Order))
    first.send(Order(name="old"))
    second = client.create_producer(topic, schema=schema(LargerOrder))
    second.send(LargerOrder(name="new", count=7))
    first.send(Order(name="old again"))
    consumer = client.subscribe(topic, "s", schema=schema(LargerOrder), initial_position=EARLIEST)
    found = receive_all(consumer, 3)
    values = [one.value() for one in found]
    assert [(one.name, one.count) for one in values] == [("old", 0), ("new", 7), ("old again", 0)]
    versions = [one.schema_version() for one in found]
    assert versions[0] == versions[2] != versions[1]
    consumer.close()


def test_text_is_a_schema(client: pulsar.Client) -> None:
    topic = unique("pulsar-text")
    client.create_producer(topic, schema=StringSchema()).send("grüße")
    consumer = client.subscribe(topic, "s", schema=StringSchema(), initial_position=EARLIEST)
    assert receive_all(consumer, 1)[0].value() == "grüße"
    consumer.close()


def test_consumers_name_the_hashes_that_they_want(door: KafscaleProcess) -> None:
    topic, kind = unique("pulsar-sticky"), pulsar.ConsumerType.KeyShared
    clients = [connect(door) for _ in range(3)]

    def subscribe(number: int, first: int, last: int) -> pulsar.Consumer:
        policy = pulsar.ConsumerKeySharedPolicy(
            pulsar.KeySharedMode.Sticky, sticky_ranges=[(first, last)]
        )
        return clients[number].subscribe(topic, "s", kind, key_shared_policy=policy)

    consumers = [subscribe(0, 0, 32_767), subscribe(1, 32_768, 65_535)]
    with pytest.raises(pulsar.ConsumerAssignError):
        subscribe(2, 5, 6)
    producer = clients[2].create_producer(topic)
    for number in range(20):
        producer.send(b"v", partition_key=f"k{number}")
    # How many keys have a hash in the lower half: as Pulsar hashes them.
    for consumer, count in zip(consumers, (LOW_KEYS, 20 - LOW_KEYS), strict=True):
        receive_all(consumer, count)
        with pytest.raises(pulsar.Timeout):
            consumer.receive(100)
    for one in clients:
        one.close()


def test_a_subscription_goes_on_from_a_time(client: pulsar.Client) -> None:
    topic = unique("pulsar-time")
    consumer = client.subscribe(topic, "s")
    producer = client.create_producer(topic)
    producer.send(b"before")
    time.sleep(0.02)
    middle_ms = int(time.time() * 1000)
    time.sleep(0.02)
    producer.send(b"after")
    assert [one.data() for one in receive_all(consumer, 2)] == [b"before", b"after"]
    consumer.seek(middle_ms)
    assert consumer.receive(PATIENCE_MS).data() == b"after"
    consumer.close()


def test_compacted_reading_ends_with_the_newest_values(client: pulsar.Client) -> None:
    topic = unique("pulsar-compacted")
    producer = client.create_producer(topic)
    for number in range(4):
        producer.send(b"%d" % number, partition_key=f"k{number % 2}")
    reader = client.create_reader(topic, pulsar.MessageId.earliest, is_read_compacted=True)
    newest = {}
    while reader.has_message_available():
        message = reader.read_next(PATIENCE_MS)
        newest[message.partition_key()] = message.data()
    assert newest == {"k0": b"2", "k1": b"3"}
    reader.close()


@pytest.mark.skipif(not IS_OURS, reason="Kafka's clients write here")
def test_a_reader_knows_the_last_message_before_the_marks_of_transactions(
    door: KafscaleProcess, client: pulsar.Client
) -> None:
    topic = unique("pulsar-transactions")
    writer = Producer({"bootstrap.servers": door.bootstrap, "transactional.id": topic})
    writer.init_transactions()
    for value, end in (
        (b"kept", writer.commit_transaction),
        (b"dropped", writer.abort_transaction),
        (b"dropped, too", writer.abort_transaction),
    ):
        writer.begin_transaction()
        writer.produce(topic, value, b"k")
        writer.flush()
        end()
    reader = client.create_reader(topic, pulsar.MessageId.earliest)
    found = []
    while reader.has_message_available():
        found.append(reader.read_next(PATIENCE_MS).data())
    assert found == [b"kept"]
    reader.close()
    table = client.create_table_view(topic)
    assert table.get("k") == b"kept"
    table.close()


def test_part_of_a_batch_is_acknowledged(client: pulsar.Client) -> None:
    topic = unique("pulsar-parts")
    options = {"consumer_type": SHARED, "batch_index_ack_enabled": True}
    consumer = client.subscribe(topic, "s", **options)
    producer = client.create_producer(
        topic, batching_enabled=True, batching_max_publish_delay_ms=500
    )
    ids = send_all(producer, [{"content": b"%d" % number} for number in range(5)])
    assert [one.batch_index() for one in ids] == list(range(5))
    for number in range(5):
        message = consumer.receive(PATIENCE_MS)
        if number % 2:
            consumer.acknowledge(message)
    consumer.close()
    again = client.subscribe(topic, "s", **options)
    left = [again.receive(PATIENCE_MS) for _ in range(3)]
    assert [one.data() for one in left] == [b"0", b"2", b"4"]
    again.close()


def test_a_message_that_fails_again_and_again_goes_to_the_dead_letters(
    client: pulsar.Client,
) -> None:
    topic, dead = unique("pulsar-failing"), unique("pulsar-dead")
    letters = client.subscribe(dead, "undertaker", initial_position=EARLIEST)
    policy = pulsar.ConsumerDeadLetterPolicy(2, dead, "undertaker")
    consumer = client.subscribe(
        topic, "s", SHARED, dead_letter_policy=policy, negative_ack_redelivery_delay_ms=100
    )
    client.create_producer(topic).send(b"cursed", properties={"a": "1"})
    counts = []
    for _ in range(3):
        message = consumer.receive(PATIENCE_MS)
        counts.append(message.redelivery_count())
        consumer.negative_acknowledge(message)
    (letter,) = receive_all(letters, 1)
    assert counts == [0, 1, 2]
    assert letter.data() == b"cursed"
    assert letter.properties()["a"] == "1"
    consumer.close()
    letters.close()


def test_encrypted_messages_are_for_those_with_the_key(
    door: KafscaleProcess, client: pulsar.Client, tmp_path: Path
) -> None:
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    private, public = tmp_path / "private.pem", tmp_path / "public.pem"
    private.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.TraditionalOpenSSL,
            serialization.NoEncryption(),
        )
    )
    public.write_bytes(
        key.public_key().public_bytes(
            serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
        )
    )
    keys = pulsar.CryptoKeyReader(str(public), str(private))
    topic = unique("pulsar-encrypted")
    consumer = client.subscribe(topic, "s", crypto_key_reader=keys)
    for is_batching in (False, True):
        producer = client.create_producer(
            topic,
            encryption_key="k",
            crypto_key_reader=keys,
            batching_enabled=is_batching,
            batching_max_publish_delay_ms=200,
        )
        ids = send_all(producer, [{"content": b"secret %d" % number} for number in range(3)])
        found = receive_all(consumer, 3)
        assert [one.data() for one in found] == [b"secret 0", b"secret 1", b"secret 2"]
        assert [place(one.message_id()) for one in found] == [place(one) for one in ids]
        producer.close()
    if IS_OURS:
        assert all(b"secret" not in one.value() for one in read_by_kafka(door, topic, 4))
    consumer.close()


def test_producers_wait_for_a_topic_or_take_it(door: KafscaleProcess) -> None:
    topic, first, second = unique("pulsar-modes"), connect(door), connect(door)
    holder = first.create_producer(topic, access_mode=MODES.Exclusive)
    with pytest.raises(pulsar.ProducerFenced):
        second.create_producer(topic, access_mode=MODES.Exclusive)
    waiting: list[pulsar.Producer] = []

    def wait() -> None:
        waiting.append(second.create_producer(topic, access_mode=MODES.WaitForExclusive))

    thread = threading.Thread(target=wait, daemon=True)
    thread.start()
    holder.send(b"held")
    assert not waiting
    holder.close()
    thread.join(PATIENCE_MS / 1000)
    waiting[0].send(b"waited")
    third = connect(door)
    taker = third.create_producer(topic, access_mode=MODES.ExclusiveWithFencing)
    taker.send(b"taken")
    with pytest.raises(pulsar.PulsarException):
        waiting[0].send(b"late")
    reader = third.create_reader(topic, pulsar.MessageId.earliest)
    stored = [reader.read_next(PATIENCE_MS).data() for _ in range(3)]
    assert stored == [b"held", b"waited", b"taken"]
    assert not reader.has_message_available()
    for one in (first, second, third):
        one.close()


@pytest.mark.skipif(not IS_OURS, reason="layouts are our own")
def test_ids_are_the_same_after_a_restart_and_in_another_layout(
    door: KafscaleProcess, client: pulsar.Client
) -> None:
    topic = unique("pulsar-moves")
    sent = []
    for is_batching in (True, False):
        producer = client.create_producer(
            topic, batching_enabled=is_batching, batching_max_publish_delay_ms=200
        )
        messages = [{"content": b"%d" % number} for number in range(4)]
        sent += [place(one) for one in send_all(producer, messages)]
        producer.close()

    def read() -> list[tuple[int, int, int]]:
        reader = client.create_reader(topic, pulsar.MessageId.earliest)
        found = [place(reader.read_next(PATIENCE_MS).message_id()) for _ in sent]
        reader.close()
        return found

    assert read() == sent
    admin = AdminClient({"bootstrap.servers": door.bootstrap})
    wish = ConfigEntry("storage.placement", "shared", incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ConfigResource.Type.TOPIC, topic, incremental_configs=[wish])
    admin.incremental_alter_configs([resource])[resource].result(30)
    producer = client.create_producer(topic)
    after = place(producer.send(b"after"))
    assert after[1] >= len(sent)
    assert read() == sent
    door.kill()
    door.start()
    assert read() == sent
