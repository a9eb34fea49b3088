"""Pulsar's own clients on a fleet: brokers leave and die, and no acknowledgement is forgotten."""

import subprocess
import threading
import time
import uuid
from collections import Counter
from collections.abc import Callable
from typing import Protocol

import pulsar
import pytest

from tests.e2e.conftest import AGAINST
from tests.e2e.test_fleet import FleetOfProcesses, fleet
from tests.support.clients.base import Record
from tests.support.clients.confluent import Confluent
from tests.support.java import SOURCES, compiled
from tests.support.maven import Unavailable
from tests.support.pulsar_drivers import JAVA_VERSIONS, ProgramDriver, go_driver, java_driver

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(AGAINST == "apache", reason="Apache Kafka has no Pulsar door"),
]
__all__ = ["fleet"]
PARTITIONS = 6
PATIENCE_S = 120.0
# Clients gather acknowledgements for a tenth of a second, and brokers keep them once a second.
KEPT_WITHIN_S = 2.0

Place = tuple[int, int, int]


class Writer(threading.Thread):
    """A producer with default settings that sends numbers and notes which have a receipt."""

    def __init__(self, client: pulsar.Client, topic: str) -> None:
        super().__init__(daemon=True)
        self.receipted: set[bytes] = set()
        self._producer = client.create_producer(topic, block_if_queue_full=True)
        self._ended = threading.Event()

    def run(self) -> None:
        number = 0
        while not self._ended.wait(0.005):
            value = b"%d" % number
            self._producer.send_async(
                value, lambda result, _, value=value: self._note(result, value)
            )
            number += 1
        self._producer.flush()
        self._producer.close()

    def _note(self, result: pulsar.Result, value: bytes) -> None:
        if result == pulsar.Result.Ok:
            self.receipted.add(value)

    def end(self) -> None:
        self._ended.set()
        self.join(PATIENCE_S)
        assert not self.is_alive()


class Reader(threading.Thread):
    """A consumer of a Shared subscription that acknowledges everything at once."""

    def __init__(self, client: pulsar.Client, topic: str) -> None:
        super().__init__(daemon=True)
        self.values: set[bytes] = set()
        self.deliveries: Counter[Place] = Counter()
        self.acknowledged_s: dict[Place, float] = {}
        self._consumer = client.subscribe(
            topic,
            "readers",
            pulsar.ConsumerType.Shared,
            initial_position=pulsar.InitialPosition.Earliest,
        )
        self._ended = threading.Event()

    def run(self) -> None:
        while not self._ended.is_set():
            try:
                message = self._consumer.receive(200)
            except pulsar.exceptions.Timeout:
                continue
            found = message.message_id()
            place = (found.partition(), found.entry_id(), max(found.batch_index(), 0))
            self.values.add(message.data())
            self.deliveries[place] += 1
            self._consumer.acknowledge(message)
            self.acknowledged_s.setdefault(place, time.monotonic())
        self._consumer.close()

    def end(self) -> None:
        self._ended.set()
        self.join(PATIENCE_S)
        assert not self.is_alive()


class Streams(Protocol):
    """A producer and a consumer of one client, on a topic of their own."""

    def seen(self) -> tuple[int, int]:
        """How many messages have a receipt, and how many have come."""
        ...

    def mark(self) -> int:
        """Note what must never come again; gives how much it is."""
        ...

    def end(self) -> list[str]:
        """Stop; gives what was promised and did not happen."""
        ...


class PythonStreams:
    """Implements Streams by the Python client."""

    def __init__(self, url: str, topic: str) -> None:
        logger = pulsar.ConsoleLogger(pulsar.LoggerLevel.Error)
        self._client = pulsar.Client(url, logger=logger)
        self._writer, self._reader = Writer(self._client, topic), Reader(self._client, topic)
        self._writer.start()
        self._reader.start()
        self._kept: dict[Place, int] = {}

    def seen(self) -> tuple[int, int]:
        return len(self._writer.receipted), len(self._reader.values)

    def mark(self) -> int:
        before_s = time.monotonic() - KEPT_WITHIN_S
        self._kept = {
            place: self._reader.deliveries[place]
            for place, at_s in list(self._reader.acknowledged_s.items())
            if at_s < before_s
        }
        return len(self._kept)

    def end(self) -> list[str]:
        writer, reader = self._writer, self._reader
        writer.end()
        wait_until(lambda: writer.receipted <= reader.values, "receipted messages did not come")
        reader.end()
        self._client.close()
        return [
            f"came again {place}"
            for place, count in self._kept.items()
            if reader.deliveries[place] > count
        ]


class ProgramStreams:
    """Implements Streams by a program of another language."""

    def __init__(self, driver: ProgramDriver, topic: str) -> None:
        self._driver = driver
        driver.ask(f"STREAM {topic}")

    def seen(self) -> tuple[int, int]:
        (line,) = self._driver.ask("SEEN")
        receipted, received = map(int, line.split())
        return receipted, received

    def mark(self) -> int:
        (line,) = self._driver.ask("MARK")
        return int(line)

    def end(self) -> list[str]:
        broken = self._driver.ask("END")
        self._driver.close()
        return broken


def wait_until(is_so: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not is_so():
        assert time.monotonic() < deadline, what
        time.sleep(0.02)


def spread_topic(fleet: FleetOfProcesses, name: str) -> str:
    """A new topic of which every broker leads a part; which one leads follows from hashes."""
    while True:
        topic = f"under-fire-{name}-{uuid.uuid4().hex[:8]}"
        Confluent(fleet.bootstrap).create_topic(topic, PARTITIONS)
        if set(fleet.leaders(topic).values()) == {0, 1, 2}:
            fleet.wait_for_members(0, 1, 2, topic=topic)
            return topic


def start_all(fleet: FleetOfProcesses) -> tuple[dict[str, Streams], list[str]]:
    """Every client that can be had here, each with a topic; why others cannot is printed."""
    hosts = ",".join(f"127.0.0.1:{broker.pulsar_port}" for broker in fleet.brokers)
    url = f"pulsar://{hosts}"
    makers: dict[str, Callable[[str], Streams]] = {
        "python": lambda topic: PythonStreams(url, topic),
        "java": lambda topic: ProgramStreams(java_driver(JAVA_VERSIONS[0], url), topic),
        "go": lambda topic: ProgramStreams(go_driver(url), topic),
    }
    found: dict[str, Streams] = {}
    topics = []
    for name, make in makers.items():
        topics.append(spread_topic(fleet, name))
        try:
            found[name] = make(topics[-1])
        except Unavailable as reason:
            print(f"{name}: {reason}")
    return found, topics


@pytest.mark.timeout(600)
def test_nothing_receipted_is_lost_and_nothing_acknowledged_comes_again(
    fleet: FleetOfProcesses,
) -> None:
    clients, topics = start_all(fleet)

    def go_on(count: int) -> None:
        """Until each client has so many more receipts, and then so many more messages."""
        for at, what in enumerate(("producer", "consumer")):
            wanted = {name: one.seen()[at] + count for name, one in clients.items()}
            for name, one in clients.items():
                wait_until(
                    lambda one=one, at=at, end=wanted[name]: one.seen()[at] >= end,
                    f"the {what} of {name} came to a halt",
                )

    def wait_for_all_members() -> None:
        for topic in topics:
            fleet.wait_for_members(0, 1, 2, topic=topic)

    go_on(300)
    fleet.brokers[2].stop()  # it hands its partitions over
    go_on(300)
    fleet.brokers[2].start()
    wait_for_all_members()
    go_on(300)
    time.sleep(KEPT_WITHIN_S)
    kept = {name: one.mark() for name, one in clients.items()}
    fleet.brokers[1].kill()
    go_on(300)
    fleet.brokers[1].start()
    wait_for_all_members()
    go_on(100)
    broken = {name: one.end() for name, one in clients.items()}
    assert min(kept.values()) > 600
    assert broken == {name: [] for name in clients}


# Apache Pulsar 4.0.0 answered the same, line by line.
ADMINISTRATION = """\
partitions true
subscribe done
subscribe again ConflictException 409
backlog 12
skip all done
backlog 0
reset done
backlog 12
skip one NotAllowedException 405
reset to id NotAllowedException 405
unload done
subscriptions [s]
unsubscribe done
unsubscribe again NotFoundException 404
delete done
"""


@pytest.mark.timeout(300)
def test_the_official_admin_client_asks_any_broker_about_all_partitions(
    fleet: FleetOfProcesses,
) -> None:
    client = f"org.apache.pulsar:pulsar-client-admin:{JAVA_VERSIONS[0]}"
    try:
        command = compiled(SOURCES / "PulsarFleetAdminDriver.java", client)
    except Unavailable as reason:
        pytest.skip(str(reason))
    topic = spread_topic(fleet, "admin")
    rows = [Record(number % PARTITIONS, None, b"v") for number in range(12)]
    Confluent(fleet.bootstrap).produce(topic, rows)
    urls = [f"http://127.0.0.1:{port}" for port in fleet.pulsar_http_ports]
    run = subprocess.run(
        [*command, f"persistent://public/default/{topic}", str(PARTITIONS), *urls],
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert run.stdout == ADMINISTRATION, run.stderr[-2000:]
