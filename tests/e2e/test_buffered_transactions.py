"""Transactions whose records wait in the broker's memory for their commit (transactions.buffered).

In this room: an unmodified client that commits, aborts, is fenced, and whose broker is killed.
Next door: transactions as they are otherwise (test_transactions.py).
"""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import KafkaError, KafkaException, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from tests.e2e.conftest import watched
from tests.e2e.test_transactions import PARTITIONS, ends, make_producer, read, send
from tests.support.process import BrokerProcess

_WAIT_S = 30.0
ONE_LOG, THREE_LOGS = "1", "-1"


@pytest.fixture
def own(kind: type[BrokerProcess], tmp_path: Path) -> Iterator[BrokerProcess]:
    with watched(kind(tmp_path / "broker")) as broker:
        yield broker


def make_topic(broker: BrokerProcess, name: str, logs: str) -> str:
    configs = {"transactions.buffered": "true", "physical.partitions": logs}
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    topic = NewTopic(name, PARTITIONS, 1, config=configs)
    admin.create_topics([topic])[name].result(_WAIT_S)
    return name


@pytest.mark.parametrize("logs", [ONE_LOG, THREE_LOGS])
def test_a_client_commits_aborts_and_is_fenced(broker: BrokerProcess, logs: str) -> None:
    topic = make_topic(broker, f"buffered-{logs}", logs)
    producer = make_producer(broker, f"id-{topic}")
    for round_ in "abc":
        producer.begin_transaction()
        send(producer, topic, *(f"{round_}{number}" for number in range(6)))
        producer.commit_transaction(_WAIT_S)
        # A reader that comes after the answer sees everything.
        assert len(read(broker, topic)) == (ord(round_) - ord("a") + 1) * 6
    producer.begin_transaction()
    send(producer, topic, "x", "x", "x")
    producer.abort_transaction(_WAIT_S)
    committed = sorted(f"{round_}{number}" for round_ in "abc" for number in range(6))
    assert sorted(read(broker, topic)) == committed
    assert sorted(read(broker, topic, "read_uncommitted")) == sorted([*committed, "x", "x", "x"])
    producer.begin_transaction()
    send(producer, topic, "zombie", "zombie", "zombie")
    second = make_producer(broker, f"id-{topic}")
    with pytest.raises(KafkaException) as refused:
        producer.commit_transaction(_WAIT_S)
    assert refused.value.args[0].fatal()
    second.begin_transaction()
    send(second, topic, "d0", "d1", "d2")
    second.commit_transaction(_WAIT_S)
    assert sorted(read(broker, topic)) == sorted([*committed, "d0", "d1", "d2"])
    assert ends(broker, topic, "read_committed") == ends(broker, topic, "read_uncommitted")


@pytest.mark.parametrize("logs", [ONE_LOG, THREE_LOGS])
def test_a_killed_broker_loses_no_commit_and_tears_none(own: BrokerProcess, logs: str) -> None:
    topic = make_topic(own, "killed", logs)
    producer = make_producer(own, "id")
    producer.begin_transaction()
    send(producer, topic, "kept", "kept", "kept")
    producer.commit_transaction(_WAIT_S)
    own.kill()
    own.start()
    assert read(own, topic) == ["kept"] * 3
    producer.begin_transaction()
    send(producer, topic, "lost", "lost", "lost")
    own.kill()  # with the records in its memory alone
    own.start()
    _is_abortable(producer)
    assert read(own, topic) == ["kept"] * 3
    _commit_in_the_end(producer, topic, "next")
    assert sorted(read(own, topic)) == ["kept"] * 3 + ["next"] * 3


def _is_abortable(producer: Producer) -> None:
    with pytest.raises(KafkaException) as refused:
        producer.commit_transaction(2 * _WAIT_S)
    error: KafkaError = refused.value.args[0]
    assert error.txn_requires_abort(), error
    producer.abort_transaction(2 * _WAIT_S)


def _commit_in_the_end(producer: Producer, topic: str, value: str) -> None:
    deadline = time.monotonic() + 2 * _WAIT_S
    while True:
        try:
            producer.begin_transaction()
            send(producer, topic, value, value, value)
            producer.commit_transaction(_WAIT_S)
        except KafkaException as problem:
            if time.monotonic() > deadline or not problem.args[0].txn_requires_abort():
                raise
            producer.abort_transaction(_WAIT_S)
        else:
            return
