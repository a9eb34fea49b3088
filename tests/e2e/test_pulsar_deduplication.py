"""Topics that store no message twice, with Pulsar's own client."""

from pathlib import Path
from typing import Any

import pulsar
import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from tests.e2e.conftest import watched
from tests.support.broker import KafscaleProcess
from tests.support.ports import free_port
from tests.support.pulsar_client import connect, place, read_by_kafka, send_all
from tests.support.pulsar_cutter import Cutter

pytestmark = pytest.mark.slow
STORED_BEFORE = (-1, -1, -1)


def numbered(*numbers: int) -> list[dict[str, Any]]:
    return [{"content": b"%d" % number, "sequence_id": number} for number in numbers]


def values(broker: KafscaleProcess, topic: str, count: int) -> list[int]:
    """All messages of a topic, after a check that there are no more."""
    client = connect(broker)
    client.create_producer(topic, producer_name="the-end").send(b"-1")
    client.close()
    found = [int(one.value()) for one in read_by_kafka(broker, topic, count + 1)]
    assert found.pop() == -1
    return found


def create(broker: KafscaleProcess, topic: str, deduplication: str) -> None:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    wish = NewTopic(topic, 1, config={"kafscale.deduplication": deduplication})
    admin.create_topics([wish])[topic].result(20)


@pytest.mark.parametrize("is_batching", [False, True], ids=["unbatched", "batched"])
def test_a_sequence_id_is_stored_once(tmp_path: Path, is_batching: bool) -> None:
    """Also by a new connection, and after the broker was killed."""
    broker, topic = KafscaleProcess(tmp_path), "once"
    options: dict[str, Any] = {
        "producer_name": "p",
        "batching_enabled": is_batching,
        "batching_max_publish_delay_ms": 200,
    }
    with watched(broker):
        create(broker, topic, "true")
        client = connect(broker)
        producer = client.create_producer(topic, **options)
        assert producer.last_sequence_id() == -1
        send_all(producer, numbered(*range(10)))
        ids = send_all(producer, numbered(*range(10)))
        assert {(one.ledger_id(), one.entry_id()) for one in ids} == {(-1, -1)}
        client.close()
        broker.kill()
        broker.start()
        client = connect(broker)
        producer = client.create_producer(topic, **options)
        assert producer.last_sequence_id() == 9
        # The first half was stored before; the other half lies in the same batch.
        ids = send_all(producer, numbered(*range(5, 15)))
        offsets = [one.entry_id() + max(one.batch_index(), 0) for one in ids]
        assert offsets[5:] == list(range(10, 15))
        far = (1 << 50) + 3
        send_all(producer, numbered(far))
        client.close()
        broker.kill()
        broker.start()
        client = connect(broker)
        producer = client.create_producer(topic, **options)
        assert producer.last_sequence_id() == far
        send_all(producer, numbered(far, far - 1))
        producer.send(b"%d" % (far + 1))  # the client counts on
        other = client.create_producer(topic, producer_name="q", initial_sequence_id=-1)
        assert other.last_sequence_id() == -1
        client.close()
        assert values(broker, topic, 17) == [*range(15), far, far + 1]


def test_a_topic_without_the_setting_stores_what_comes(tmp_path: Path) -> None:
    broker = KafscaleProcess(tmp_path, settings=["pulsar.deduplication=true"])
    with watched(broker):
        create(broker, "twice", "false")
        client = connect(broker)
        for topic in ("twice", "by-default"):
            producer = client.create_producer(topic, producer_name="p")
            first, again = send_all(producer, numbered(3, 3))
            assert place(first) == (1, 0, -1)
            assert place(again) == ((1, 1, -1) if topic == "twice" else STORED_BEFORE)
        client.close()


def test_chunks_count_by_their_last_one(tmp_path: Path) -> None:
    broker = KafscaleProcess(tmp_path, settings=["pulsar.deduplication=true"])
    with watched(broker):
        client = connect(broker)
        consumer = client.subscribe("chunks", "s")
        producer = client.create_producer("chunks", producer_name="p", chunking_enabled=True)
        large = bytes(range(256)) * 12_000
        producer.send(large)
        producer.send(b"small")
        assert consumer.receive(20_000).data() == large
        assert consumer.receive(20_000).data() == b"small"
        assert producer.last_sequence_id() == 1
        client.close()


def test_a_producer_that_was_cut_off_counts_on(tmp_path: Path) -> None:
    """The client sends again what has no receipt; a part of that was stored."""
    broker = KafscaleProcess(tmp_path, settings=["pulsar.deduplication=true"])
    with watched(broker):
        client = connect(broker)
        producer = client.create_producer("cut", block_if_queue_full=True)
        # A C++ client that has had no receipt yet numbers its messages anew when it comes back.
        producer.send(b"0")
        done: list[pulsar.Result] = []
        for number in range(1, 3000):
            producer.send_async(b"%d" % number, lambda result, _: done.append(result))
            if number in (700, 1900):
                broker.kill()
                broker.start()
        producer.flush()
        client.close()
        assert done == [pulsar.Result.Ok] * 2999
        assert values(broker, "cut", 3000) == list(range(3000))


@pytest.mark.parametrize("initial", [None, 1], ids=["by default", "with a number to begin at"])
def test_a_client_that_was_cut_off_before_its_first_receipt(
    tmp_path: Path, initial: int | None
) -> None:
    """By default a C++ client numbers its next messages from the broker's last one on.

    Messages that wait to be sent again have these numbers already. So new ones are taken for them:
    they get receipts and are not stored, by Apache Pulsar as well.
    """
    port = free_port()
    broker = KafscaleProcess(
        tmp_path, settings=["pulsar.deduplication=true", f"pulsar.advertisedPort={port}"]
    )
    options = {} if initial is None else {"initial_sequence_id": initial}
    with watched(broker), Cutter(broker.pulsar_port, port, passed=5) as cutter:
        found = sent_over(cutter, f"pulsar://127.0.0.1:{port}", "early", options)
        assert found == [pulsar.Result.Ok] * 20
        stored = values(broker, "early", 20 if initial is not None else 15)
    lost = sorted(set(range(20)) - set(stored))
    assert lost == ([] if initial is not None else [10, 11, 12, 13, 14])
    assert len(stored) == len(set(stored))


def sent_over(cutter: Cutter, url: str, topic: str, options: dict[str, Any]) -> list[pulsar.Result]:
    """What becomes of ten messages of which five are stored before the cut, and of ten later."""
    client = pulsar.Client(url, logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Error))
    producer = client.create_producer(topic, producer_name="p", **options)
    done: list[pulsar.Result] = []
    for number in range(10):
        producer.send_async(b"%d" % number, lambda result, _: done.append(result))
    assert cutter.kept_back.wait(20)
    cutter.cut()
    producer.flush()
    for number in range(10, 20):
        producer.send_async(b"%d" % number, lambda result, _: done.append(result))
    producer.flush()
    client.close()
    return done
