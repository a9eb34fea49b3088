"""A Pulsar client made of JavaScript alone (pulsar-flex of npm), unmodified.

It sends values and properties, one by one or in batches, tells its callers no ids, and begins new
subscriptions at the end of a topic. The official client of npm needs a library that its
installation fetches from elsewhere.
"""

from collections.abc import Iterator

import pulsar
import pytest
from confluent_kafka import Producer

from tests.e2e.conftest import watched
from tests.support.broker import KafscaleProcess
from tests.support.maven import Unavailable
from tests.support.pulsar_client import connect, read_by_kafka, unique
from tests.support.pulsar_drivers import (
    ProgramDriver,
    PulsarMessage,
    PythonDriver,
    node_driver,
)

pytestmark = pytest.mark.slow

EVENT_MS = 1_700_000_000_123
SENT = [
    PulsarMessage(None, b"bare"),
    PulsarMessage(None, b"with properties", 0, (("a", "1"), ("ü", "ö"))),
    PulsarMessage(None, b"x" * 100_000),
]
READ = [
    *SENT,
    PulsarMessage(b"k", b"keyed"),
    PulsarMessage(None, b"timed", EVENT_MS),
    PulsarMessage(b"gone", None),
]
MODES = ("Exclusive", "Shared", "Failover", "Key_Shared")


@pytest.fixture(scope="module")
def door() -> Iterator[KafscaleProcess]:
    with watched(KafscaleProcess()) as broker:
        yield broker


@pytest.fixture(scope="module")
def node(door: KafscaleProcess) -> Iterator[ProgramDriver]:
    try:
        driver = node_driver(door.pulsar_port)
    except Unavailable as reason:
        pytest.skip(str(reason))
    yield driver
    driver.close()


@pytest.fixture(scope="module")
def python(door: KafscaleProcess) -> Iterator[PythonDriver]:
    driver = PythonDriver(f"pulsar://127.0.0.1:{door.pulsar_port}")
    yield driver
    driver.close()


def new_topic(name: str) -> str:
    """The client knows full names only."""
    return f"persistent://public/default/{unique(name)}"


def subscribe_from_the_start(door: KafscaleProcess, topic: str, mode: str) -> None:
    client = connect(door)
    client.subscribe(
        topic,
        "s",
        getattr(pulsar.ConsumerType, mode.replace("_", "")),
        initial_position=pulsar.InitialPosition.Earliest,
    ).close()
    client.close()


@pytest.mark.parametrize("command", ["PRODUCE", "BATCH"])
def test_others_read_what_node_wrote(
    door: KafscaleProcess, node: ProgramDriver, python: PythonDriver, command: str
) -> None:
    topic = new_topic("by-node")
    node.send(topic, SENT, command)
    found = python.receive(topic, "s", len(SENT), "Exclusive")
    assert [one.message for one in found] == SENT
    read = read_by_kafka(door, topic, len(SENT))
    assert [(one.key(), one.value()) for one in read] == [(None, one.value) for one in SENT]
    assert read[1].headers() == [("a", b"1"), ("ü", "ö".encode())]


@pytest.mark.parametrize("mode", MODES)
def test_node_reads_what_python_wrote(
    door: KafscaleProcess, node: ProgramDriver, python: PythonDriver, mode: str
) -> None:
    topic = new_topic("for-node")
    ids = python.send(topic, READ)
    subscribe_from_the_start(door, topic, mode)
    found = node.receive(topic, "s", len(READ), mode)
    assert [one.message for one in found] == READ
    assert [one.message_id for one in found] == ids


@pytest.mark.parametrize("mode", MODES)
def test_node_reads_what_a_kafka_client_wrote(
    door: KafscaleProcess, node: ProgramDriver, mode: str
) -> None:
    topic = new_topic("for-node")
    producer = Producer({"bootstrap.servers": door.bootstrap, "linger.ms": 50})
    for one in READ:
        headers = [(name, value.encode()) for name, value in one.properties]
        producer.produce(topic, one.value, one.key, headers=headers, timestamp=EVENT_MS)
    assert producer.flush(20) == 0
    subscribe_from_the_start(door, topic, mode)
    found = [one.message for one in node.receive(topic, "s", len(READ), mode)]
    wanted = [one._replace(event_ms=EVENT_MS) for one in READ]
    if mode == "Key_Shared":  # keys keep their order, others need not
        found, wanted = sorted(found, key=str), sorted(wanted, key=str)
    assert found == wanted
