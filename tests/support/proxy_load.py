"""A load for `kafscale proxy`, and what must be true of it afterwards.

The producer is idempotent and goes on whatever happens. Then every record that it sent must be
there once, in order, at dense offsets, and where it was acknowledged.
"""

import itertools
import threading
import time

from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic


def create(bootstrap: str, name: str, partitions: int, replicas: int = -1, **config: str) -> str:
    """Create a topic and wait until clients see it."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    topic = NewTopic(name, partitions, replicas, config=config)
    admin.create_topics([topic])[name].result()
    deadline = time.monotonic() + 60
    while name not in admin.list_topics(timeout=30).topics:
        assert time.monotonic() < deadline
    return name


def write(bootstrap: str, topic: str, rows: list[tuple[int, bytes]], **more: object) -> list[int]:
    """Write values to partitions, by an idempotent producer; the offsets they got."""
    producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True, **more})
    offsets: dict[int, int] = {}
    for at, (partition, value) in enumerate(rows):
        producer.produce(
            topic,
            value,
            partition=partition,
            on_delivery=lambda error, message, at=at: offsets.__setitem__(
                at, -1 if error else message.offset()
            ),
        )
        producer.poll(0)
    assert producer.flush(120) == 0
    return [offsets[at] for at in range(len(rows))]


def read(
    bootstrap: str, topic: str, partitions: list[int], count: int, **more: object
) -> dict[int, list[tuple[int, bytes]]]:
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "reader",
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            **more,
        }
    )
    consumer.assign([TopicPartition(topic, one, OFFSET_BEGINNING) for one in partitions])
    found: dict[int, list[tuple[int, bytes]]] = {one: [] for one in partitions}
    deadline = time.monotonic() + 120
    while sum(map(len, found.values())) < count and time.monotonic() < deadline:
        message = consumer.poll(1)
        if message is not None and message.error() is None:
            found[message.partition()].append((message.offset(), message.value()))
    consumer.close()
    return found


class Acked:
    """An idempotent producer that goes on whatever happens; what was acknowledged is checked."""

    def __init__(self, bootstrap: str, topic: str, partitions: int = 6) -> None:
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "enable.idempotence": True,
                "message.timeout.ms": 300_000,
                "topic.metadata.refresh.interval.ms": 2000,
                "reconnect.backoff.max.ms": 500,
                "linger.ms": 2,
            }
        )
        self._topic = topic
        self._partitions = partitions
        self.acked: dict[int, dict[int, bytes]] = {}
        self.failed: list[str] = []
        self.count = 0
        self._sent = [0] * partitions
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def _run(self) -> None:
        for number in itertools.count():
            if self._ending.is_set():
                break
            partition = number % self._partitions
            value = b"%d" % self._sent[partition]
            self._sent[partition] += 1
            self._producer.produce(
                self._topic, value, partition=partition, on_delivery=self._delivered
            )
            self._producer.poll(0.002 if number % 10 == 0 else 0)
            while len(self._producer) > 5_000:
                self._producer.poll(0.05)
        self._producer.flush(300)

    def _delivered(self, error: object, message: object) -> None:
        if error is not None:
            self.failed.append(str(error))
            return
        rows = self.acked.setdefault(message.partition(), {})  # type: ignore[attr-defined]
        assert message.offset() not in rows  # type: ignore[attr-defined]
        rows[message.offset()] = message.value()  # type: ignore[attr-defined]
        self.count += 1

    def wait_for_more(self, count: int) -> None:
        goal, deadline = self.count + count, time.monotonic() + 180
        while self.count < goal:
            assert time.monotonic() < deadline, f"{self.count} of {goal}"
            time.sleep(0.02)

    def __enter__(self) -> "Acked":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ending.set()
        self._thread.join()

    def check(self, bootstrap: str) -> None:
        """Nothing is lost, nothing is there twice, all is dense and in order."""
        assert self.failed == []
        partitions = list(range(self._partitions))
        found = read(bootstrap, self._topic, partitions, sum(self._sent))
        for partition in partitions:
            sent = self._sent[partition]
            assert found[partition] == [(at, b"%d" % at) for at in range(sent)]
            assert self.acked.get(partition, {}) == dict(found[partition])
