"""Compacted topics with a real client: beside Apache Kafka with the same input, and under kill -9.

In this room: a changelog as Kafka Streams writes it, many updates of few keys.
Next door: the rules with any input, in virtual time (tests/unit/log/upkeep/test_compaction.py).
"""

import random
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

import pulsar
import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tests.e2e.conftest import watched
from tests.support.apache_kafka import ApacheKafka
from tests.support.broker import KafscaleProcess, SharedKafscaleProcess, VirtualKafscaleProcess
from tests.support.maven import Unavailable
from tests.support.process import BrokerProcess
from tests.support.pulsar_client import connect, place

TOPIC = "changelog"
SEGMENT_MS = 1000
TOMBSTONES_MS = 3000
CONFIGS = {
    "cleanup.policy": "compact",
    "segment.ms": str(SEGMENT_MS),
    "min.cleanable.dirty.ratio": "0.01",
    "delete.retention.ms": str(TOMBSTONES_MS),
}
WITHIN_S = 90.0


class Row(NamedTuple):
    """A record as a consumer sees it."""

    offset: int
    key: bytes
    value: bytes | None
    timestamp_ms: int
    headers: tuple[tuple[str, bytes], ...]


class QuickApacheKafka(ApacheKafka):
    """Its cleaner looks for work all the time."""

    def prepare(self) -> None:
        super().prepare()
        with self._settings.open("a") as settings:
            settings.write("log.cleaner.backoff.ms=200\nlog.initial.task.delay.ms=100\n")


def quick(kind: type[KafscaleProcess], folder: Path | None = None) -> KafscaleProcess:
    settings = ("storage.housekeepingInterval=200ms", "storage.rollupObjects=20")
    return kind(folder, settings=settings)


def create(bootstrap: str, configs: dict[str, str], partitions: int = 1) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    topic = NewTopic(TOPIC, partitions, 1, config=configs)
    admin.create_topics([topic])[TOPIC].result(60)


def read(bootstrap: str, partition: int = 0) -> list[Row]:
    """All records of a partition, from the beginning to its end."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "reader",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
        }
    )
    rows: list[Row] = []
    try:
        consumer.assign([TopicPartition(TOPIC, partition, 0)])
        deadline = time.monotonic() + WITHIN_S
        while time.monotonic() < deadline:
            message = consumer.poll(1.0)
            if message is None:
                continue
            if message.error():
                if message.error().name() == "_PARTITION_EOF":
                    return rows
                raise AssertionError(str(message.error()))
            headers = tuple(message.headers() or ())
            key, value, at_ms = message.key(), message.value(), message.timestamp()[1]
            assert isinstance(key, bytes)
            rows.append(Row(message.offset(), key, value, at_ms, headers))
        raise AssertionError("the end of the partition was not reached")
    finally:
        consumer.close()


class Changelog:
    """The same updates for every broker, with the same times."""

    def __init__(self, brokers: Sequence[BrokerProcess]) -> None:
        self._dice = random.Random(7)
        self._producers = [
            Producer(
                {
                    "bootstrap.servers": broker.bootstrap,
                    "enable.idempotence": True,
                    "compression.type": codec,
                    "linger.ms": 5,
                }
            )
            for broker, codec in zip(brokers, ("zstd", "lz4", "none", "gzip"), strict=False)
        ]
        self.sent: list[Row] = []

    def update(self, key: str, value: str | None) -> None:
        now_ms = int(time.time() * 1000)
        raw = None if value is None else value.encode()
        headers = (("n", str(len(self.sent)).encode()),)
        row = Row(len(self.sent), key.encode(), raw, now_ms, headers)
        self.sent.append(row)
        for producer in self._producers:
            producer.produce(
                TOPIC, row.value, row.key, 0, timestamp=now_ms, headers=list(row.headers)
            )

    def write(self, count: int, keys: int = 20) -> None:
        """Updates of few keys, some of them tombstones, in many flushes."""
        for number in range(count):
            key = f"key-{self._dice.randrange(keys)}"
            is_gone = self._dice.random() < 0.15
            self.update(key, None if is_gone else f"value {number} " + "x" * 50)
            if number % 25 == 0:
                self.flush()
        self.flush()

    def flush(self) -> None:
        for producer in self._producers:
            assert producer.flush(60) == 0

    def roll(self) -> None:
        """End the active segment: the next record after segment.ms begins another.

        Its key is new, because Kafka does not learn keys from the active segment.
        """
        time.sleep(SEGMENT_MS / 1000 + 0.2)
        self.update(f"segment at {len(self.sent)}", "begins")
        self.flush()

    def newest(self) -> list[Row]:
        """What key compaction must leave of what was sent."""
        return sorted({row.key: row for row in self.sent}.values())


def wait_for(look: Callable[[], list[Row]], wanted: list[Row]) -> None:
    deadline = time.monotonic() + WITHIN_S
    found = look()
    while found != wanted:
        assert time.monotonic() < deadline, f"{len(found)} records are left, not {len(wanted)}"
        time.sleep(0.3)
        found = look()


@pytest.fixture
def rivals() -> Iterator[list[BrokerProcess]]:
    """Apache Kafka, and ours in all layouts."""
    kinds = (KafscaleProcess, VirtualKafscaleProcess, SharedKafscaleProcess)
    with ExitStack() as running:
        try:
            apache = QuickApacheKafka()
        except Unavailable as reason:
            pytest.skip(str(reason))
        yield [running.enter_context(watched(one)) for one in (apache, *map(quick, kinds))]


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_the_same_records_are_left_as_by_apache_kafka(rivals: list[BrokerProcess]) -> None:
    for broker in rivals:
        create(broker.bootstrap, CONFIGS)
    changelog = Changelog(rivals)
    changelog.write(600)
    changelog.roll()
    wanted = changelog.newest()
    assert any(row.value is None for row in wanted)
    for broker in rivals:
        wait_for(lambda broker=broker: read(broker.bootstrap), wanted)  # type: ignore[misc]
    time.sleep(TOMBSTONES_MS / 1000)
    changelog.write(200, keys=5)
    dead = [row for row in changelog.newest() if row.value is None and row.offset < 600]
    assert dead, "some keys have had no record since their tombstone"
    changelog.roll()
    left = [row for row in changelog.newest() if row not in dead]
    for broker in rivals:
        wait_for(lambda broker=broker: read(broker.bootstrap), left)  # type: ignore[misc]


KILLS = 6
KEYS = 10


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_broker_that_is_killed_while_it_compacts_keeps_the_newest_of_each_key(
    tmp_path: Path,
) -> None:
    dice = random.Random(3)
    acknowledged: dict[bytes, int] = {}  # key -> the number in its newest acknowledged value
    sent = 0
    with watched(quick(KafscaleProcess, tmp_path / "broker")) as broker:
        create(broker.bootstrap, {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.1"})
        producer = Producer(
            {"bootstrap.servers": broker.bootstrap, "enable.idempotence": True, "linger.ms": 1}
        )

        def note(problem: object, message: object) -> None:
            assert problem is None
            key, value = message.key(), int(message.value())  # type: ignore[attr-defined]
            acknowledged[key] = max(value, acknowledged.get(key, -1))

        for _ in range(KILLS):
            until = time.monotonic() + dice.uniform(1.0, 2.0)
            while time.monotonic() < until:
                key = b"key-%d" % dice.randrange(KEYS)
                producer.produce(TOPIC, str(sent).encode(), key, 0, on_delivery=note)
                sent += 1
                producer.poll(0.002)
            broker.kill()
            broker.start()
        assert producer.flush(60) == 0
        rows = read(broker.bootstrap)
        state = {row.key: int(row.value or b"") for row in rows}
        assert state == acknowledged
        deadline = time.monotonic() + 60
        while len(rows) >= sent / 2:  # the broker compacts in the background
            assert time.monotonic() < deadline, "nothing was compacted"
            time.sleep(0.2)
            rows = read(broker.bootstrap)
        assert [row.offset for row in rows] == sorted({row.offset for row in rows})
        broker.stop()
        broker.start()
        assert {row.key: int(row.value or b"") for row in read(broker.bootstrap)} == state


def test_pulsar_clients_read_what_compaction_has_left() -> None:
    with watched(quick(KafscaleProcess)) as broker:
        assert isinstance(broker, KafscaleProcess)
        create(broker.bootstrap, CONFIGS)
        client = connect(broker)
        producer = client.create_producer(TOPIC)
        sent, found, newest = 0, [("", b"")], {}
        ids = {}
        deadline = time.monotonic() + WITHIN_S
        while len(found) >= sent:  # the broker compacts in the background
            assert time.monotonic() < deadline, "nothing was compacted"
            for _ in range(20):
                newest[f"k{sent % 4}"] = b"%d" % sent
                sent_id = producer.send(b"%d" % sent, partition_key=f"k{sent % 4}")
                ids[b"%d" % sent] = place(sent_id)
                sent += 1
            found = []
            reader = client.create_reader(TOPIC, pulsar.MessageId.earliest, is_read_compacted=True)
            while reader.has_message_available():
                message = reader.read_next(int(WITHIN_S * 1000))
                found.append((message.partition_key(), message.data()))
                assert place(message.message_id()) == ids[message.data()]
            reader.close()
        assert dict(found) == newest
        table = client.create_table_view(TOPIC)
        assert {key: table.get(key) for key in newest} == newest
        client.close()
