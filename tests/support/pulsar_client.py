"""The Python client of Pulsar, and a Kafka consumer beside it."""

import itertools
import threading
from typing import Any, Final

import pulsar
from confluent_kafka import Consumer, TopicPartition

from tests.support.apache_pulsar import ApachePulsar
from tests.support.broker import KafscaleProcess

PATIENCE_MS: Final = 20_000
_numbers = itertools.count()


def connect(broker: KafscaleProcess | ApachePulsar) -> pulsar.Client:
    """A client with default settings, but for its log lines."""
    logger = pulsar.ConsoleLogger(pulsar.LoggerLevel.Error)
    url = f"pulsar://127.0.0.1:{broker.pulsar_port}"
    return pulsar.Client(url, operation_timeout_seconds=20, logger=logger)


def unique(purpose: str) -> str:
    """A name that no other topic has."""
    return f"{purpose}-{next(_numbers)}"


def place(message_id: Any) -> tuple[int, int, int]:
    """Ledger, entry and index in the batch."""
    return message_id.ledger_id(), message_id.entry_id(), message_id.batch_index()


def send_all(producer: pulsar.Producer, messages: list[dict[str, Any]]) -> list[Any]:
    """Send without waiting in between; gives the ids in the order of the messages."""
    ids: list[Any] = [None] * len(messages)
    done = threading.Semaphore(0)

    def sent(number: int, result: Any, message_id: Any) -> None:
        ids[number] = message_id if result == pulsar.Result.Ok else result
        done.release()

    for number, message in enumerate(messages):
        producer.send_async(
            callback=lambda result, got, number=number: sent(number, result, got), **message
        )
    producer.flush()
    for _ in messages:
        assert done.acquire(timeout=20)
    assert not [one for one in ids if isinstance(one, pulsar.Result)]
    return ids


def receive_all(consumer: pulsar.Consumer, count: int) -> list[pulsar.Message]:
    """The next messages, each acknowledged."""
    found = []
    for _ in range(count):
        found.append(consumer.receive(PATIENCE_MS))
        consumer.acknowledge(found[-1])
    return found


def read_by_kafka(broker: KafscaleProcess, topic: str, count: int) -> list[Any]:
    """The first messages of partition 0, by a Kafka consumer."""
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "reads"})
    consumer.assign([TopicPartition(topic, 0, 0)])
    found: list[Any] = []
    while len(found) < count:
        some = consumer.consume(count - len(found), 20)
        assert some, f"{len(found)} of {count} messages"
        found += some
    consumer.close()
    assert [message.error() for message in found] == [None] * count
    return found
