"""Producers of four topics whose tables are judged, each with trouble of its own kind.

`lines` changes its layout and its schema, `deals` is written in transactions of which some are
aborted, `states` is compacted and its table has the newest row of each key, `comes` is deleted and
created again. Values are JSON: a number that is used once, and of `comes` the life of the topic.
"""

import json
import random
import time

from confluent_kafka import KafkaException, Producer
from confluent_kafka.admin import (  # type: ignore[attr-defined]  # its own stubs forget them
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
    ResourceType,
)

from tests.faults.history import History
from tests.faults.movers import LAYOUTS
from tests.faults.workers import QUIET, Reach, Worker

PARTITIONS = 2
SCHEMA = "n bigint, life bigint"
GROWN = f"{SCHEMA}, more bigint"
TABLES = {"lines": "delta", "deals": "iceberg", "states": "iceberg", "comes": "delta"}
KEYS = 30
PAUSE_S = 0.02


def configs_of(topic: str) -> dict[str, str]:
    """What a topic declares."""
    said = {
        "table.format": TABLES[topic],
        "table.value.format": "json",
        "table.value.schema": SCHEMA,
        "table.freshness.ms": "1000",
        "table.file.bytes": "1048576",
    }
    if topic == "states":
        said |= {"table.mode": "upsert", "cleanup.policy": "compact"}
    return said


def create(admin: AdminClient, topic: str, within_s: float = 180.0) -> None:
    """Create a topic; one that was just deleted may still be in the way."""
    deadline = time.monotonic() + within_s
    while True:
        made = NewTopic(topic, PARTITIONS, 1, config=configs_of(topic))
        try:
            admin.create_topics([made])[topic].result(30)
            return
        except (KafkaException, TimeoutError):
            if _is_there(admin, topic):
                return  # the first answer was lost
            if time.monotonic() > deadline:
                raise
            time.sleep(0.3)


def _is_there(admin: AdminClient, topic: str) -> bool:
    try:
        return topic in admin.list_topics(timeout=10).topics
    except KafkaException:
        return False


class TableWriter(Worker):
    """One topic's producer. `acked` has the numbers that the broker took."""

    topic = ""

    def __init__(self, reach: Reach, history: History, seed: int) -> None:
        super().__init__(f"writer of {self.topic}", reach, history)
        self.dice = random.Random(f"{seed} {self.topic}")
        self.admin = AdminClient({**reach, **QUIET})
        self.acked: set[int] = set()
        self.sent = 0
        self.lives = 1
        self.unanswered = 0

    def settings(self) -> dict[str, object]:
        return {**self.reach, **QUIET, "enable.idempotence": True, "linger.ms": 5}

    def send(self, producer: Producer, key: bytes | None = None, *, tombstone: bool = False) -> int:
        """Hand one record over; gives its number."""
        self.sent += 1
        number = self.sent
        value = None if tombstone else self.value(number)

        def landed(error: object, _message: object) -> None:
            if error is None:
                self.acked.add(number)

        producer.produce(self.topic, value, key, on_delivery=landed)
        producer.poll(0)
        return number

    def value(self, number: int) -> bytes:
        return json.dumps({"n": number, "life": self.lives}).encode()

    def alter(self, **said: str) -> bool:
        entries = [
            ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
            for name, value in said.items()
        ]
        resource = ConfigResource(ResourceType.TOPIC, self.topic, incremental_configs=entries)
        try:
            self.admin.incremental_alter_configs([resource])[resource].result(10)
        except (KafkaException, TimeoutError):
            return False  # no answer, or the topic still moves
        return True

    def close(self, producer: Producer) -> None:
        """Wait for answers. What gets none may have been taken: the records themselves tell."""
        self.unanswered += producer.flush(120)


class LinesWriter(TableWriter):
    """Goes on while the topic moves to other layouts and its schema grows."""

    topic = "lines"
    grown_after = 300

    def work(self) -> None:
        producer = Producer(self.settings())
        self.has_grown = False
        next_move_s = time.monotonic() + 3
        while not self.stopping.wait(PAUSE_S):
            self.send(producer, b"k%d" % self.dice.randrange(9))
            if self.sent >= self.grown_after and not self.has_grown:
                self.has_grown = self.alter(**{"table.value.schema": GROWN})
            if time.monotonic() > next_move_s:
                self.alter(**self.dice.choice(list(LAYOUTS.values())))
                next_move_s = time.monotonic() + self.dice.uniform(2, 6)
        self.close(producer)

    def value(self, number: int) -> bytes:
        said = {"n": number, "life": 1}
        if self.has_grown:
            said["more"] = number
        return json.dumps(said).encode()


class DealsWriter(TableWriter):
    """Transactions; a third of them is aborted. `committed` and `aborted` are known outcomes."""

    topic = "deals"

    def work(self) -> None:
        self.committed: set[int] = set()
        self.aborted: set[int] = set()
        while not self.stopping.is_set():
            producer = Producer({**self.settings(), "transactional.id": "deals"})
            try:
                producer.init_transactions(60)
                while not self.stopping.wait(PAUSE_S * 5):
                    self._transaction(producer)
            except KafkaException:
                continue  # this transaction's outcome is for the broker to say

    def _transaction(self, producer: Producer) -> None:
        producer.begin_transaction()
        numbers = {self.send(producer) for _ in range(5)}
        if self.dice.random() < 1 / 3:
            producer.abort_transaction(60)
            self.aborted |= numbers
        else:
            producer.commit_transaction(60)
            self.committed |= numbers


class StatesWriter(TableWriter):
    """Few keys, written over and over; a fifth of the records deletes its key."""

    topic = "states"

    def work(self) -> None:
        producer = Producer(self.settings())
        while not self.stopping.wait(PAUSE_S):
            key = b"k%d" % self.dice.randrange(KEYS)
            self.send(producer, key, tombstone=self.dice.random() < 0.2)
        self.close(producer)


class ComesWriter(TableWriter):
    """The topic is deleted and created again, with a producer of its own each time."""

    topic = "comes"

    def work(self) -> None:
        while True:
            producer = Producer(self.settings())
            until_s = time.monotonic() + self.dice.uniform(3, 6)
            while time.monotonic() < until_s and not self.stopping.wait(PAUSE_S):
                self.send(producer)
            self.close(producer)
            if self.stopping.is_set():
                return
            self._again()

    def _again(self) -> None:
        try:
            self.admin.delete_topics([self.topic])[self.topic].result(30)
        except (KafkaException, TimeoutError):
            return  # perhaps it is gone, perhaps not: this life goes on or another begins below
        finally:
            create(self.admin, self.topic)
        self.lives += 1


WRITERS: tuple[type[TableWriter], ...] = (LinesWriter, DealsWriter, StatesWriter, ComesWriter)
