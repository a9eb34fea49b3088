"""Transactions of unmodified clients: all or nothing, in every partition, whatever dies."""

import itertools
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    KafkaError,
    KafkaException,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, NewTopic

from tests.e2e.conftest import watched
from tests.support.process import BrokerProcess

PARTITIONS = 3
_names = itertools.count()
_WAIT_S = 30.0


@pytest.fixture
def mortal(kind: type[BrokerProcess], tmp_path: Path) -> Iterator[BrokerProcess]:
    with watched(kind(tmp_path / "broker")) as broker:
        yield broker


def make_topic(broker: BrokerProcess, purpose: str) -> str:
    name = f"{purpose}-{next(_names)}"
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    admin.create_topics([NewTopic(name, PARTITIONS, 1)])[name].result(_WAIT_S)
    return name


def make_producer(broker: BrokerProcess, transactional_id: str, **settings: Any) -> Producer:
    producer = Producer(
        {
            "bootstrap.servers": broker.bootstrap,
            "transactional.id": transactional_id,
            "linger.ms": 0,
            **settings,
        }
    )
    producer.init_transactions(_WAIT_S)
    return producer


def send(producer: Producer, topic: str, *values: str) -> None:
    for number, value in enumerate(values):
        producer.produce(topic, value.encode(), partition=number % PARTITIONS)
    producer.flush(_WAIT_S)


def ends(broker: BrokerProcess, topic: str, isolation: str) -> list[int]:
    consumer = Consumer(
        {"bootstrap.servers": broker.bootstrap, "group.id": "ends", "isolation.level": isolation}
    )
    try:
        return [
            consumer.get_watermark_offsets(TopicPartition(topic, one), _WAIT_S)[1]
            for one in range(PARTITIONS)
        ]
    finally:
        consumer.close()


def read(broker: BrokerProcess, topic: str, isolation: str = "read_committed") -> list[str]:
    """All that a reader of this isolation level gets, until it has reached the end everywhere."""
    consumer = Consumer(
        {
            "bootstrap.servers": broker.bootstrap,
            "group.id": "reader",
            "isolation.level": isolation,
            "enable.auto.commit": False,
            "enable.partition.eof": True,
        }
    )
    places = [TopicPartition(topic, one, OFFSET_BEGINNING) for one in range(PARTITIONS)]
    consumer.assign(places)
    values: list[str] = []
    at_end: set[int] = set()
    deadline = time.monotonic() + _WAIT_S
    try:
        while len(at_end) < PARTITIONS:
            assert time.monotonic() < deadline, f"no end of {topic}: {values}"
            message = consumer.poll(1.0)
            if message is None:
                continue
            error = message.error()
            if error is None:
                values.append(message.value().decode())
            elif error.code() == KafkaError._PARTITION_EOF:
                at_end.add(message.partition())
            else:
                raise KafkaException(error)
    finally:
        consumer.close()
    return sorted(values)


def test_committed_records_are_seen_and_aborted_ones_are_not(broker: BrokerProcess) -> None:
    topic = make_topic(broker, "outcomes")
    producer = make_producer(broker, f"id-{topic}")
    producer.begin_transaction()
    send(producer, topic, "a1", "a2", "a3")
    producer.commit_transaction(_WAIT_S)
    assert read(broker, topic) == ["a1", "a2", "a3"]
    producer.begin_transaction()
    send(producer, topic, "b1", "b2", "b3")
    producer.abort_transaction(_WAIT_S)
    assert read(broker, topic) == ["a1", "a2", "a3"]
    assert read(broker, topic, "read_uncommitted") == ["a1", "a2", "a3", "b1", "b2", "b3"]
    producer.begin_transaction()
    send(producer, topic, "c1", "c2", "c3")
    producer.commit_transaction(_WAIT_S)
    assert read(broker, topic) == ["a1", "a2", "a3", "c1", "c2", "c3"]


def test_an_open_transaction_hides_what_comes_behind_it(broker: BrokerProcess) -> None:
    topic = make_topic(broker, "open")
    producer = make_producer(broker, f"id-{topic}")
    plain = Producer({"bootstrap.servers": broker.bootstrap})
    producer.begin_transaction()
    send(producer, topic, "in", "in", "in")
    send(plain, topic, "behind", "behind", "behind")
    assert read(broker, topic) == []
    assert ends(broker, topic, "read_committed") == [0, 0, 0]
    assert ends(broker, topic, "read_uncommitted") == [2, 2, 2]
    producer.commit_transaction(_WAIT_S)
    assert read(broker, topic) == ["behind"] * 3 + ["in"] * 3


def test_a_second_instance_fences_the_first(broker: BrokerProcess) -> None:
    topic = make_topic(broker, "fencing")
    first = make_producer(broker, f"id-{topic}")
    first.begin_transaction()
    send(first, topic, "first")
    second = make_producer(broker, f"id-{topic}")
    second.begin_transaction()
    send(second, topic, "second")
    second.commit_transaction(_WAIT_S)
    with pytest.raises(KafkaException) as refused:
        first.commit_transaction(_WAIT_S)
    assert refused.value.args[0].code() in (KafkaError._FENCED, KafkaError.INVALID_PRODUCER_EPOCH)
    assert read(broker, topic) == ["second"]


def test_offsets_are_committed_with_the_records_or_not_at_all(broker: BrokerProcess) -> None:
    source, target = make_topic(broker, "source"), make_topic(broker, "target")
    plain = Producer({"bootstrap.servers": broker.bootstrap})
    send(plain, source, "1", "2", "3")
    consumer = Consumer(
        {
            "bootstrap.servers": broker.bootstrap,
            "group.id": f"group-{source}",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
    )
    consumer.subscribe([source])
    try:
        values = [message.value().decode() for message in _take(consumer, 3)]
        producer = make_producer(broker, f"id-{source}")
        places = [TopicPartition(source, one) for one in range(PARTITIONS)]
        for commits in (False, True):
            producer.begin_transaction()
            send(producer, target, *values)
            producer.send_offsets_to_transaction(
                consumer.position(places), consumer.consumer_group_metadata(), _WAIT_S
            )
            if commits:
                producer.commit_transaction(_WAIT_S)
            else:
                producer.abort_transaction(_WAIT_S)
            stored = [place.offset for place in consumer.committed(places, _WAIT_S)]
            assert stored == ([1, 1, 1] if commits else [-1001, -1001, -1001])
            assert read(broker, target) == (sorted(values) if commits else [])
    finally:
        consumer.close()


def _take(consumer: Consumer, count: int) -> list[Any]:
    messages: list[Any] = []
    deadline = time.monotonic() + 2 * _WAIT_S
    while len(messages) < count:
        assert time.monotonic() < deadline
        message = consumer.poll(1.0)
        if message is not None and message.error() is None:
            messages.append(message)
    return messages


def test_the_transaction_of_a_dead_producer_is_aborted_by_its_timeout(
    broker: BrokerProcess,
) -> None:
    topic = make_topic(broker, "timeout")
    dead = make_producer(broker, f"id-{topic}", **{"transaction.timeout.ms": 1500})
    dead.begin_transaction()
    send(dead, topic, "lost", "lost", "lost")
    plain = Producer({"bootstrap.servers": broker.bootstrap})
    send(plain, topic, "kept", "kept", "kept")
    deadline = time.monotonic() + 2 * _WAIT_S
    while ends(broker, topic, "read_committed") != [3, 3, 3]:
        assert time.monotonic() < deadline, "the transaction stays open"
        time.sleep(0.2)
    assert read(broker, topic) == ["kept"] * 3
    with pytest.raises(KafkaException):
        dead.commit_transaction(_WAIT_S)


@pytest.mark.parametrize("commits", [True, False])
def test_a_killed_broker_forgets_no_transaction(mortal: BrokerProcess, commits: bool) -> None:
    topic = make_topic(mortal, "killed")
    producer = make_producer(mortal, f"id-{topic}")
    producer.begin_transaction()
    send(producer, topic, "done", "done", "done")
    producer.commit_transaction(_WAIT_S)
    producer.begin_transaction()
    send(producer, topic, "aborted", "aborted", "aborted")
    producer.abort_transaction(_WAIT_S)
    producer.begin_transaction()
    send(producer, topic, "x1", "x2", "x3")
    mortal.kill()
    mortal.start()
    assert read(mortal, topic) == ["done"] * 3
    if commits:
        producer.commit_transaction(2 * _WAIT_S)
    else:
        producer.abort_transaction(2 * _WAIT_S)
    expected = ["done"] * 3 + (["x1", "x2", "x3"] if commits else [])
    assert read(mortal, topic) == expected
    mortal.kill()
    mortal.start()
    assert read(mortal, topic) == expected
