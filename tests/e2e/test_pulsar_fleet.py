"""Pulsar's own client on a fleet: brokers leave and die, and no acknowledgement is forgotten."""

import threading
import time
from collections import Counter
from collections.abc import Callable

import pulsar
import pytest

from tests.e2e.conftest import AGAINST
from tests.e2e.test_fleet import FleetOfProcesses, fleet
from tests.support.clients.confluent import Confluent

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


def wait_until(is_so: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not is_so():
        assert time.monotonic() < deadline, what
        time.sleep(0.02)


@pytest.mark.timeout(600)
def test_nothing_receipted_is_lost_and_nothing_acknowledged_comes_again(
    fleet: FleetOfProcesses,
) -> None:
    topic = "pulsar-under-fire"
    Confluent(fleet.bootstrap).create_topic(topic, PARTITIONS)
    fleet.wait_for_members(0, 1, 2, topic=topic)
    hosts = ",".join(f"127.0.0.1:{broker.pulsar_port}" for broker in fleet.brokers)
    client = pulsar.Client(
        f"pulsar://{hosts}", logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Error)
    )
    writer, reader = Writer(client, topic), Reader(client, topic)
    writer.start()
    reader.start()

    def go_on(count: int) -> None:
        wanted = len(writer.receipted) + count
        wait_until(lambda: len(writer.receipted) >= wanted, "the producer came to a halt")
        seen = len(reader.values) + count
        wait_until(lambda: len(reader.values) >= seen, "the consumer came to a halt")

    go_on(300)
    fleet.brokers[2].stop()  # it hands its partitions over
    go_on(300)
    fleet.brokers[2].start()
    fleet.wait_for_members(0, 1, 2, topic=topic)
    go_on(300)
    time.sleep(KEPT_WITHIN_S)
    killed_s = time.monotonic()
    kept = {
        place: reader.deliveries[place]
        for place, at_s in list(reader.acknowledged_s.items())
        if at_s < killed_s - KEPT_WITHIN_S
    }
    fleet.brokers[1].kill()
    go_on(300)
    fleet.brokers[1].start()
    fleet.wait_for_members(0, 1, 2, topic=topic)
    go_on(100)
    writer.end()
    wait_until(lambda: writer.receipted <= reader.values, "receipted messages did not come")
    reader.end()
    client.close()
    assert len(kept) > 600
    again = {place for place, count in kept.items() if reader.deliveries[place] > count}
    assert not again
