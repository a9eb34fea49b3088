"""Pulsar's own clients under faults, and the judge of what they were promised.

Here: producers, consumers that share a subscription, and consumers that share keys, a thread each,
with the client's default settings; their notes; what must not have happened (pure).
Next door: the fleet (cluster.py), the faults (nemesis.py), Kafka's clients (workers.py).
"""

import threading
import time
from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final, NamedTuple

import pulsar
from confluent_kafka.admin import AdminClient, NewTopic

from tests.faults.checker import Finding
from tests.faults.cluster import Cluster
from tests.faults.history import History
from tests.faults.schedule import LEASE_S
from tests.faults.workers import QUIET, Worker

PARTITIONS: Final = 4
KEYS: Final = 16
TOPICS: Final = {"plain": "false", "once": "true"}  # deduplication
# Clients gather acknowledgements for a tenth of a second, and brokers keep them once a second.
KEPT_WITHIN_S: Final = 2.0
# A lease runs out, another broker opens the log, and the client's next attempt comes.
RECOVERED_WITHIN_S: Final = 1.5 * LEASE_S
PATIENCE_S: Final = 120.0
_SHARED: Final = pulsar.ConsumerType.Shared
_KEY_SHARED: Final = pulsar.ConsumerType.KeyShared


class Delivery(NamedTuple):
    """A message as a consumer got it."""

    subscription: str
    consumer: str
    value: bytes  # topic, key and number in the key
    place: tuple[int, int]  # partition and offset
    at_s: float
    redelivered: int


@dataclass(slots=True)
class Notes:
    """What clients asked and what they were told. Threads append, and none removes."""

    receipts: list[tuple[bytes, float]] = field(default_factory=list)  # and when
    deliveries: list[Delivery] = field(default_factory=list)
    acknowledged: list[tuple[Delivery, float]] = field(default_factory=list)
    stored: list[bytes] = field(default_factory=list)  # all of it, read at the end
    faults_s: list[tuple[float, float]] = field(default_factory=list)  # begun and ended


def client_of(cluster: Cluster) -> pulsar.Client:
    """A client with default settings."""
    hosts = ",".join(node.pulsar.endpoint for node in cluster.nodes)
    logger = pulsar.ConsoleLogger(pulsar.LoggerLevel.Error)
    return pulsar.Client(f"pulsar://{hosts}", logger=logger)


def create_topics(cluster: Cluster) -> None:
    admin = AdminClient({**cluster.reach, **QUIET})
    wishes = [
        NewTopic(name, PARTITIONS, config={"kafscale.deduplication": once})
        for name, once in TOPICS.items()
    ]
    for created in admin.create_topics(wishes).values():
        created.result(60)


class PulsarWriter(Worker):
    """A producer that sends numbers under keys; the numbers of a key rise by one."""

    def __init__(self, topic: str, client: pulsar.Client, history: History, notes: Notes) -> None:
        super().__init__(f"pulsar-{topic}", {}, history)
        self.topic = topic
        self.receipts = 0
        self._notes = notes
        self._producer = client.create_producer(
            topic, producer_name=self.name, block_if_queue_full=True, send_timeout_millis=0
        )

    def work(self) -> None:
        number = 0
        while not self.stopping.wait(0.01):
            for key in range(KEYS):
                self.send(key, number)
            number += 1
        self._producer.flush()
        self._producer.close()

    def send(self, key: int, number: int) -> None:
        value = b"%s %d %d" % (self.topic.encode(), key, number)
        self._producer.send_async(
            value, lambda result, _: self._note(result, value), partition_key=str(key)
        )

    def _note(self, result: pulsar.Result, value: bytes) -> None:
        if result == pulsar.Result.Ok:
            self.receipts += 1
            self._notes.receipts.append((value, time.monotonic()))
        else:
            self.trouble(f"{value!r} failed: {result}")


class PulsarReader(Worker):
    """A consumer that acknowledges at once. A short-lived one comes and goes."""

    def __init__(
        self,
        name: str,
        cluster: Cluster,
        kind: pulsar.ConsumerType,
        notes: Notes,
        *,
        lives_s: float = 0.0,
    ) -> None:
        """`lives_s`: it closes its consumers after so long, and subscribes again; 0: never."""
        super().__init__(name, {}, cluster.history)
        self._cluster = cluster
        self._kind = kind
        self._notes = notes
        self._lives_s = lives_s

    def work(self) -> None:
        while not self.stopping.is_set():
            client = client_of(self._cluster)
            try:
                self._live(client)
            except pulsar.PulsarException as problem:
                # Neither subscribing nor leaving is tried again by the client itself.
                print(f"{self.name}: {problem}")
            finally:
                client.close()
            self.stopping.wait(self._lives_s / 4)

    def _live(self, client: pulsar.Client) -> None:
        consumer = client.subscribe(
            list(TOPICS),
            self._kind.name,
            self._kind,
            consumer_name=self.name,
            initial_position=pulsar.InitialPosition.Earliest,
        )
        self._follow(consumer)
        consumer.close()

    def _follow(self, consumer: pulsar.Consumer) -> None:
        ends_s = time.monotonic() + (self._lives_s or float("inf"))
        while time.monotonic() < ends_s and not self.stopping.is_set():
            try:
                message = consumer.receive(200)
            except pulsar.Timeout:
                continue
            self.take(consumer, message)

    def take(self, consumer: pulsar.Consumer, message: pulsar.Message) -> None:
        found = message.message_id()
        delivery = Delivery(
            self._kind.name,
            self.name,
            message.data(),
            (found.partition(), found.entry_id() + max(found.batch_index(), 0)),
            time.monotonic(),
            message.redelivery_count(),
        )
        self._notes.deliveries.append(delivery)
        consumer.acknowledge(message)
        self._notes.acknowledged.append((delivery, time.monotonic()))


def wait_until_all_came(notes: Notes, subscriptions: Iterable[str]) -> None:
    """Wait until every subscription has had all that has a receipt."""
    deadline = time.monotonic() + PATIENCE_S
    missing = {name: {value for value, _ in notes.receipts} for name in subscriptions}
    while any(missing.values()) and time.monotonic() < deadline:
        for one in list(notes.deliveries):
            missing[one.subscription].discard(one.value)
        time.sleep(0.2)


def read_all(cluster: Cluster, notes: Notes) -> None:
    """Everything that is stored, by readers."""
    client = client_of(cluster)
    for topic in TOPICS:
        for partition in range(PARTITIONS):
            reader = client.create_reader(
                f"{topic}-partition-{partition}", pulsar.MessageId.earliest
            )
            while reader.has_message_available():
                notes.stored.append(reader.read_next(20_000).data())
            reader.close()
    client.close()


# -- judging -----------------------------------------------------------------------------------


def judge(notes: Notes) -> list[Finding]:
    """What must not have happened."""
    return [
        *_lost(notes),
        *_twice(notes),
        *_not_delivered(notes),
        *_came_again(notes),
        *_out_of_order(notes),
    ]


def _lost(notes: Notes) -> Iterable[Finding]:
    stored = set(notes.stored)
    for value, _ in notes.receipts:
        if value not in stored:
            yield Finding("lost", f"{value!r} has a receipt and is not stored")


def _twice(notes: Notes) -> Iterable[Finding]:
    for value, count in Counter(notes.stored).items():
        if count > 1 and TOPICS[value.split()[0].decode()] == "true":
            yield Finding("duplicate", f"{value!r} is stored {count} times")


def _not_delivered(notes: Notes) -> Iterable[Finding]:
    came = defaultdict(set)
    for one in notes.deliveries:
        came[one.subscription].add(one.value)
    for subscription, values in came.items():
        for value, _ in notes.receipts:
            if value not in values:
                yield Finding("not delivered", f"{value!r} did not come to {subscription}")


def _came_again(notes: Notes) -> Iterable[Finding]:
    """What was acknowledged while all was calm must not come again after a later fault.

    Before any fault it may: a partition that goes to another broker in peace takes along what that
    broker's predecessor was told, and acknowledgements may be on their way just then.
    """
    kept: dict[tuple[str, bytes, tuple[int, int]], float] = {}
    for one, at_s in notes.acknowledged:
        if is_calm(notes, at_s):
            kept.setdefault((one.subscription, one.value, one.place), at_s)
    for one in sorted(notes.deliveries, key=lambda one: one.at_s):
        what = (one.subscription, one.value, one.place)
        if what not in kept or one.at_s <= kept[what]:
            continue
        at_s = kept.pop(what)  # the first time that it comes again
        if any(at_s + KEPT_WITHIN_S < begun_s < one.at_s for begun_s, _ in notes.faults_s):
            after_s = [f"{at_s - begun_s:.1f} s" for begun_s, _ in notes.faults_s]
            text = f"{one.value!r} to {one.subscription}, {one.consumer}, acknowledged at"
            again = f"{one.at_s - at_s:.1f} s later, redelivery {one.redelivered}"
            yield Finding("came again", f"{text} {', '.join(after_s)} of the faults, {again}")


def is_calm(notes: Notes, at_s: float) -> bool:
    """Whether clients were connected then, and the broker had the time to keep what they said."""
    return all(
        at_s < begun_s - KEPT_WITHIN_S or at_s > ended_s + RECOVERED_WITHIN_S
        for begun_s, ended_s in notes.faults_s
    )


def _out_of_order(notes: Notes) -> Iterable[Finding]:
    """A key's messages come in their order; one that comes again may be followed by others again.

    Judged are first deliveries, of the topic in which nothing is stored twice.
    """
    newest: dict[tuple[bytes, bytes], int] = {}
    seen = set()
    for one in sorted(notes.deliveries, key=lambda one: one.at_s):
        topic, key, number = one.value.split()
        if one.subscription != _KEY_SHARED.name or one.value in seen:
            continue
        if TOPICS[topic.decode()] != "true":
            continue
        seen.add(one.value)
        if int(number) < newest.get((topic, key), -1):
            yield Finding("reordered", f"{one.value!r} came after {newest[topic, key]}")
        newest[topic, key] = max(int(number), newest.get((topic, key), -1))


# -- a run -------------------------------------------------------------------------------------


class PulsarField:
    """Pulsar's clients on a running cluster."""

    def __init__(self, cluster: Cluster) -> None:
        create_topics(cluster)
        self.cluster = cluster
        self.notes = Notes()
        self._client = client_of(cluster)
        self.writers = [
            PulsarWriter(topic, self._client, cluster.history, self.notes) for topic in TOPICS
        ]
        self.readers = [
            PulsarReader("shared-0", cluster, _SHARED, self.notes),
            PulsarReader("shared-1", cluster, _SHARED, self.notes),
            PulsarReader("keys-0", cluster, _KEY_SHARED, self.notes),
            PulsarReader("keys-1", cluster, _KEY_SHARED, self.notes, lives_s=4.0),
            PulsarReader("keys-2", cluster, _KEY_SHARED, self.notes, lives_s=2.5),
        ]

    def start(self) -> None:
        for worker in [*self.readers, *self.writers]:
            worker.start()

    def wait_for_receipts(self, more: int) -> None:
        """Wait until each writer has so many more."""
        wanted = [writer.receipts + more for writer in self.writers]
        deadline = time.monotonic() + PATIENCE_S
        while any(w.receipts < end for w, end in zip(self.writers, wanted, strict=True)):
            if time.monotonic() > deadline:
                raise TimeoutError(f"the producers came to a halt at {wanted}")
            time.sleep(0.02)

    def conclude(self) -> list[Finding]:
        """Let all finish, restart the brokers, read everything, judge."""
        for worker in self.writers:
            worker.finish(PATIENCE_S)
        wait_until_all_came(self.notes, {_SHARED.name, _KEY_SHARED.name})
        self.notes.faults_s += [(one.begun_s, one.ended_s) for one in self.cluster.history.faults]
        for reader in self.readers:
            reader.stopping.set()
        for reader in self.readers:
            reader.finish()
        threading.Thread(target=self._client.close, daemon=True).start()
        self.cluster.kill_brokers()
        self.cluster.start_brokers()
        read_all(self.cluster, self.notes)
        troubles = [
            Finding("trouble", f"{one.worker}: {one.what}") for one in self.cluster.history.troubles
        ]
        return [*troubles, *judge(self.notes)]
