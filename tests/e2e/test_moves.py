"""Topics that move between layouts while unmodified clients use them."""

import itertools
import json
import threading
import time
from collections.abc import Callable, Iterator

import pytest
from confluent_kafka import Consumer, KafkaError, Message, Producer

from tests.e2e.conftest import clients_of, watched
from tests.e2e.test_cli import said
from tests.support.broker import KafscaleProcess
from tests.support.clients import CLIENTS
from tests.support.clients.base import Client, Record

PARTITIONS = 3
ARRIVES_WITHIN_S = 120
READ_WITHIN_S = 300
TO = {
    "shared": ("--set", "storage.placement=shared"),
    "virtual": ("--set", "storage.placement=dedicated", "--set", "physical.partitions=2"),
    "ordinary": ("--set", "storage.placement=dedicated", "--set", "physical.partitions=-1"),
}
_names = (f"moving-{number}" for number in itertools.count())


@pytest.fixture(scope="module")
def broker() -> Iterator[KafscaleProcess]:
    with watched(KafscaleProcess()) as own:
        assert isinstance(own, KafscaleProcess)
        yield own


@pytest.fixture(scope="module")
def client_named(broker: KafscaleProcess) -> Iterator[Callable[[str], Client]]:
    with clients_of(broker) as get:
        yield get


def move(broker: KafscaleProcess, topic: str, layout: str) -> None:
    said(broker, "configs", "alter", topic, *TO[layout])


def wait_until_moved(broker: KafscaleProcess, topic: str) -> None:
    deadline = time.monotonic() + ARRIVES_WITHIN_S
    while "moving_to" in json.loads(said(broker, "topics", "describe", topic, "--json")):
        assert time.monotonic() < deadline, f"{topic} has not arrived"
        time.sleep(0.2)


@pytest.mark.parametrize("name", CLIENTS)
def test_every_client_reads_before_and_after_and_goes_on_writing(
    name: str, broker: KafscaleProcess, client_named: Callable[[str], Client]
) -> None:
    client, topic = client_named(name), next(_names)
    client_named("confluent").create_topic(topic, PARTITIONS)
    written: list[tuple[int, bytes]] = []
    for turn, layout in enumerate(("shared", "ordinary")):
        rows = [(partition, b"%d-%d" % (partition, turn)) for partition in range(PARTITIONS)]
        client.produce(topic, [Record(partition, b"k", value) for partition, value in rows])
        written += rows
        move(broker, topic, layout)
        wait_until_moved(broker, topic)
        found = client.consume(topic, list(range(PARTITIONS)), len(written))
        assert sorted((row.partition, row.value) for row in found) == sorted(written)
        # The first record has the first offset; every move has taken one further.
        assert {row.offset for row in found} == {2 * earlier for earlier in range(turn + 1)}


class Traffic:
    """One producer and one member of a group, both with default settings, until stopped."""

    def __init__(self, bootstrap: str, topic: str, *, idempotent: bool) -> None:
        self.topic = topic
        self.acknowledged: list[tuple[int, bytes]] = []
        self.failed: list[KafkaError] = []
        self.seen: list[tuple[int, int, bytes]] = []
        self._producer = Producer(
            {"bootstrap.servers": bootstrap, "enable.idempotence": idempotent}
        )
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": topic,
                "auto.offset.reset": "earliest",
            }
        )
        self._stop = threading.Event()
        self._threads = [threading.Thread(target=self._write), threading.Thread(target=self._read)]

    def __enter__(self) -> "Traffic":
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()
        self._consumer.close()

    def _delivered(self, problem: KafkaError | None, message: Message) -> None:
        if problem is not None:
            self.failed.append(problem)
            return
        partition, value = message.partition(), message.value()
        assert partition is not None
        assert isinstance(value, bytes)
        self.acknowledged.append((partition, value))

    def _write(self) -> None:
        number = 0
        while not self._stop.is_set():
            self._producer.produce(
                self.topic, b"%d" % number, partition=number % PARTITIONS, callback=self._delivered
            )
            number += 1
            self._producer.poll(0.002)
        self._producer.flush(60)

    def _read(self) -> None:
        self._consumer.subscribe([self.topic])
        deadline = time.monotonic() + READ_WITHIN_S
        while not self._has_all() and time.monotonic() < deadline:
            message = self._consumer.poll(0.2)
            if message is None or message.error():
                continue
            partition, offset, value = message.partition(), message.offset(), message.value()
            assert partition is not None
            assert offset is not None
            assert isinstance(value, bytes)
            self.seen.append((partition, offset, value))

    def _has_all(self) -> bool:
        is_written = self._stop.is_set() and not self._threads[0].is_alive()
        return is_written and len({row[:2] for row in self.seen}) >= len(self.acknowledged)


@pytest.mark.slow
@pytest.mark.parametrize("kill", [False, True], ids=["in peace", "kill -9 on the way"])
def test_a_producer_and_a_group_do_not_notice(broker: KafscaleProcess, kill: bool) -> None:
    topic = next(_names)
    said(broker, "topics", "create", topic, "--partitions", str(PARTITIONS))
    # A plain producer whose answer was lost in a kill writes twice, on any broker.
    with Traffic(broker.bootstrap, topic, idempotent=kill) as traffic:
        for layout in ("shared", "virtual", "ordinary", "shared"):
            before = len(traffic.acknowledged)
            deadline = time.monotonic() + ARRIVES_WITHIN_S
            while len(traffic.acknowledged) < before + 100:
                assert time.monotonic() < deadline, "the producer does not get on"
                time.sleep(0.05)
            move(broker, topic, layout)
            if kill:
                broker.kill()
                broker.start()
            wait_until_moved(broker, topic)
    assert not traffic.failed
    for partition in range(PARTITIONS):
        sent = [value for number, value in traffic.acknowledged if number == partition]
        rows = [(offset, value) for number, offset, value in traffic.seen if number == partition]
        assert [value for _, value in sorted(dict(rows).items())] == sent
        offsets = [offset for offset, _ in rows]
        if not kill:  # then what was not committed yet is read again
            assert offsets == sorted(set(offsets)), "in order, none twice"
        by_offset: dict[int, set[bytes]] = {}
        for offset, value in rows:
            by_offset.setdefault(offset, set()).add(value)
        assert all(len(values) == 1 for values in by_offset.values()), "an offset is one record"
