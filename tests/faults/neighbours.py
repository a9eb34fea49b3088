"""Topics that come and go, many of them in the shared logs, while others are judged there.

In this room: an administrator that creates a topic, writes and reads it, adds partitions, deletes
records, deletes the topic and uses its name again. Each life of a name must hold what was written
in it and nothing else.
Next door: the topics that stay (places.py).

A deletion without an answer may still happen later, and would hit a new topic of the same name: the
administrator does not use such a name again. After an answer it uses the name at once, and writes
at once: brokers that have not heard of the deletion, or of the new topic, must not take records for
the old one (decision 28). It waits only for added partitions: a client that hears of fewer gives up
records for the others.
"""

import random
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from typing import Any

from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    KafkaError,
    KafkaException,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import (  # type: ignore[attr-defined]  # its own stubs forget them
    AdminClient,
    NewPartitions,
    NewTopic,
)

from tests.faults import raw
from tests.faults.history import History
from tests.faults.places import SHARED
from tests.faults.workers import QUIET, Reach, Worker

PARTITIONS = 2
LAYOUTS = (SHARED, SHARED, {}, {"physical.partitions": "1"})
RECORDS = 10  # of each partition, at a time
PATIENCE_S = 120.0
STAYS_S = (0.0, 4.0)
GONE = KafkaError.UNKNOWN_TOPIC_OR_PART
THERE = KafkaError.TOPIC_ALREADY_EXISTS
AS_WIDE = KafkaError.INVALID_PARTITIONS


Place = tuple[int, str]  # partition and value


def problems(
    sent: set[Place], acknowledged: Mapping[Place, int], found: Sequence[tuple[int, int, str]]
) -> Iterator[str]:
    """What is wrong with the records that were read in one life: (partition, offset, value)."""
    at = {(partition, value): offset for partition, offset, value in found}
    for place, offset in acknowledged.items():
        if place not in at:
            yield f"{place} was acknowledged and is not there"
        elif offset >= 0 and at[place] != offset:
            yield f"{place} is at {at[place]}, not at {offset}"
    if strange := sorted(set(at) - sent):
        yield f"{strange[:5]} were not written there"
    if len(at) != len(found):
        yield "something is there twice"


class NotDone(Exception):
    """The brokers refused a request of the administrator for too long."""


class Neighbour(Worker):
    """One name at a time, life after life."""

    def __init__(
        self, name: str, reach: Reach, ports: Sequence[int], history: History, seed: int
    ) -> None:
        super().__init__(name, reach, history)
        self._ports = ports
        self._dice = random.Random(f"{seed} {name}")
        self._names = 0
        self.lives = 0
        self._admin = self._cutter = AdminClient({**reach, **QUIET})

    def work(self) -> None:
        while not self.stopping.is_set():
            if self._live(f"{self.name}-{self._names}"):
                continue
            self._names += 1

    def _live(self, topic: str) -> bool:
        """One life; gives whether the name may be used again."""
        configs = dict(self._dice.choice(LAYOUTS))
        self._until_done(
            f"creating {topic}",
            lambda: self._admin.create_topics(
                [NewTopic(topic, num_partitions=PARTITIONS, config=configs)]
            )[topic],
            THERE,
        )
        written = _Life(self, topic, self.lives, PARTITIONS)
        written.write()
        self._stay()
        if self._dice.random() < 0.5:
            wide = PARTITIONS + 1
            self._until_done(
                f"widening {topic}",
                lambda: self._admin.create_partitions([NewPartitions(topic, wide)])[topic],
                AS_WIDE,
            )
            self._be_known(topic, wide)
            written.partitions = wide
            written.write()
        self._stay()
        written.check()
        if self._dice.random() < 0.5:
            self._cut(topic)
        self.lives += 1
        return self._until_done(
            f"deleting {topic}", lambda: self._admin.delete_topics([topic])[topic], GONE
        )

    def _be_known(self, topic: str, partitions: int) -> None:
        """Until all brokers know the same topic, and all its partitions."""
        until_s = time.monotonic() + PATIENCE_S
        while True:
            told = {_known_at(port, topic) for port in self._ports}
            first = next(iter(told))
            if len(told) == 1 and first and first[1] == partitions:
                return
            if time.monotonic() > until_s:
                raise NotDone(f"not all brokers know of {topic}: {told}")
            time.sleep(0.1)

    def _stay(self) -> None:
        self.stopping.wait(self._dice.uniform(*STAYS_S))

    def _cut(self, topic: str) -> None:
        """Records are deleted, so that log starts move beside those of others."""
        place = TopicPartition(topic, 0, RECORDS // 2)

        def cut() -> Future[Any]:
            # This client goes on asking the leader it once knew, and that broker always refuses.
            self._cutter = AdminClient({**self.reach, **QUIET})
            return self._cutter.delete_records([place])[place]

        self._until_done(f"cutting {place}", cut, None)

    def _until_done(self, what: str, ask: Callable[[], Future[Any]], enough: int | None) -> bool:
        """Ask until it is done, or was done already; gives whether the first answer said so."""
        until_s = time.monotonic() + PATIENCE_S
        at_once = True
        while True:
            try:
                ask().result(30)
                return at_once
            except (KafkaException, TimeoutError) as refused:
                at_once = False
                code = refused.args[0].code() if isinstance(refused, KafkaException) else None
                if code is not None and code == enough:
                    return False
                if time.monotonic() > until_s:
                    raise NotDone(f"{what}: {refused}; {self._view()}") from refused
                time.sleep(0.2)

    def _view(self) -> str:
        """What a new client is told of these topics."""
        fresh = AdminClient({**self.reach, **QUIET})
        try:
            topics = fresh.list_topics(timeout=10).topics
        except KafkaException as refused:
            return f"a new client is told {refused}"
        return str(
            {
                name: {at: row.leader for at, row in topic.partitions.items()}
                for name, topic in topics.items()
                if name.startswith(self.name)
            }
        )


def _known_at(port: int, topic: str) -> tuple[bytes, int] | None:
    try:
        return raw.knows(port, topic)
    except OSError:
        return None  # dead or paused: asked again


class _Life:
    """What was written to a topic from its creation to its deletion."""

    def __init__(self, owner: Neighbour, topic: str, number: int, partitions: int) -> None:
        self._owner, self._topic, self._number = owner, topic, number
        self.partitions = partitions
        self._sent: set[Place] = set()
        self._acknowledged: dict[Place, int] = {}
        self._turn = 0

    def write(self) -> None:
        """As an idempotent producer, to all partitions."""
        producer = Producer({**self._owner.reach, "enable.idempotence": True, **QUIET})
        for _ in range(RECORDS):
            for partition in range(self.partitions):
                value = f"{self._topic} {self._number} {partition} {self._turn}"
                self._sent.add((partition, value))
                producer.produce(
                    self._topic, value.encode(), partition=partition, on_delivery=self._delivered
                )
            self._turn += 1
        if left := producer.flush(PATIENCE_S):
            self._owner.trouble(f"{self._topic}: {left} records without an answer")

    def _delivered(self, error: KafkaError | None, message: Any) -> None:
        if error is not None:
            self._owner.trouble(f"{self._topic}: {message.value()!r}: {error}")
            return
        offset = message.offset()
        place = message.partition(), message.value().decode()
        self._acknowledged[place] = -1 if offset is None else offset

    def check(self) -> None:
        """All that was acknowledged is there, once, at its offset, and nothing else is."""
        for what in problems(self._sent, self._acknowledged, self._read()):
            self._owner.trouble(f"{self._topic}: {what}")

    def _read(self) -> list[tuple[int, int, str]]:
        """Everything, until what was acknowledged has come by, or it takes too long."""
        consumer = Consumer(
            {
                **self._owner.reach,
                "group.id": self._topic,
                "enable.auto.commit": False,
                **QUIET,
            }
        )
        rows: list[tuple[int, int, str]] = []
        missing = set(self._acknowledged)
        until_s = time.monotonic() + PATIENCE_S / 2
        try:
            consumer.assign(
                [TopicPartition(self._topic, p, OFFSET_BEGINNING) for p in range(self.partitions)]
            )
            while missing and time.monotonic() < until_s:
                for message in consumer.consume(100, timeout=0.2):
                    if message.error() is None:
                        value = message.value().decode(errors="replace")
                        rows.append((message.partition(), message.offset(), value))
                        missing.discard((message.partition(), value))
        finally:
            consumer.close()
        return rows
