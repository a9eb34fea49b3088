"""Clients that produce and follow, and write down what they asked and what they were told.

In this room: confluent-kafka producers and a follower of all places, a thread each.
Next door: groups (members.py), raw questions (raw.py), the notes' words (history.py), the topics
(places.py): what is called a partition here, and in all notes, is the number of a place.

Settings are the client's defaults, but for what a worker is about: idempotence or acks=all.
"""

import threading
import time
from collections.abc import Mapping
from typing import Any, ClassVar

from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition

from tests.faults import places
from tests.faults.history import OK, UNKNOWN, History, Poll, Send, Trouble

# The faults break connections: these messages say nothing new.
QUIET = {"log_level": 0}
# What librdkafka writes to stderr about a group, a transaction, and every request of a client.
TRACED = {"log_level": 7, "debug": "cgrp,broker,protocol,security,eos,consumer"}

# Told about single connections while the client goes on; Java's logs the same.
CONNECTIONS = {KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN}


Reach = Mapping[str, Any]  # settings by which clients reach the fleet


class Worker(threading.Thread):
    """A thread that works until told to finish; what it could not do is in the history."""

    traced: ClassVar[bool] = False  # members and transactors tell stderr what their clients do

    def __init__(self, name: str, reach: Reach, history: History) -> None:
        super().__init__(name=name, daemon=True)
        self.reach = reach
        self.history = history
        self.stopping = threading.Event()

    def run(self) -> None:
        try:
            self.work()
        except Exception as problem:  # a worker that dies is a finding, not a silence
            self.trouble(f"died: {type(problem).__name__}: {problem}")

    def work(self) -> None:
        raise NotImplementedError

    def finish(self, within_s: float = 120.0) -> None:
        self.stopping.set()
        self.join(within_s)
        if self.is_alive():
            self.trouble(f"did not end within {within_s:.0f} s")

    @property
    def words(self) -> Mapping[str, object]:
        """Settings of what the client says of itself: nothing, or everything under its name."""
        return {**TRACED, "client.id": self.name} if self.traced else QUIET

    def trouble(self, what: str) -> None:
        self.history.troubles.append(Trouble(self.name, what, time.monotonic()))


class Writer(Worker):
    """One producer, unique values, round-robin over the partitions."""

    SETTINGS: ClassVar[Mapping[bool, Mapping[str, object]]] = {
        True: {"enable.idempotence": True},
        False: {"acks": "all"},
    }
    in_flight_max = 2000
    flush_s = 90.0

    def __init__(
        self,
        name: str,
        reach: Reach,
        history: History,
        *,
        idempotent: bool,
        per_s: float = 400.0,
        strict: bool = False,
    ) -> None:
        super().__init__(name, reach, history)
        if idempotent:
            history.idempotent.add(name)
        self._pause_s = history.partitions / per_s
        self._strict = strict
        self.acknowledged = 0
        self.answered_s: dict[int, float] = {}  # by partition, the last time
        self._producer = Producer(
            {
                **reach,
                **self.SETTINGS[idempotent],
                **QUIET,
                "error_cb": self._error,
            }
        )

    @property
    def open_count(self) -> int:
        """Handed over and not yet answered."""
        return len(self._producer)

    def work(self) -> None:
        number, next_s = 0, time.monotonic()
        while not self.stopping.is_set():
            if len(self._producer) < self.in_flight_max:
                for partition in range(self.history.partitions):
                    self.send(partition, number)
                number += 1
            next_s = max(next_s + self._pause_s, time.monotonic() - 1.0)
            self._producer.poll(max(0.0, next_s - time.monotonic()))
        left = self._producer.flush(self.flush_s)
        if left:
            self.trouble(f"{left} records without an answer {self.flush_s:.0f} s after the end")

    def send(self, partition: int, number: int) -> None:
        note = Send(self.name, partition, number, time.monotonic())
        self.history.sends.append(note)
        topic, own = places.PLACES[partition]
        self._producer.produce(
            topic,
            note.value.encode(),
            partition=own,
            on_delivery=lambda error, message: self.delivered(note, error, message),
        )

    def delivered(self, note: Send, error: KafkaError | None, message: Any) -> None:
        note.ended_s = time.monotonic()
        if error is None:
            # A retry of what is stored already may be answered without an offset.
            offset = message.offset()
            note.outcome, note.offset = OK, -1 if offset is None else offset
            self.acknowledged += 1
            self.answered_s[note.partition] = note.ended_s
        else:
            # The client does not say whether the record may have been stored.
            note.outcome, note.error = UNKNOWN, str(error)
            self.trouble(f"{note.value!r}: {error}")

    def _error(self, error: KafkaError) -> None:
        if error.fatal() or (self._strict and error.code() not in CONNECTIONS):
            self.trouble(f"told of {error}")


class Follower(Worker):
    """Reads all partitions from the beginning, until it is told to finish."""

    def __init__(self, name: str, reach: Reach, history: History) -> None:
        super().__init__(name, reach, history)
        self.next: dict[int, int] = dict.fromkeys(range(history.partitions), 0)

    def work(self) -> None:
        consumer = Consumer(
            {
                **self.reach,
                "group.id": self.name,
                "enable.auto.commit": False,
                **QUIET,
            }
        )
        try:
            # Offset 0, not "the beginning": members.py tells what clients make of that question.
            consumer.assign([TopicPartition(*places.PLACES[p], 0) for p in self.next])
            while not self.stopping.is_set():
                for message in consumer.consume(500, timeout=0.2):
                    if message.error() is not None:
                        continue  # the client goes on by itself; where it stops is a finding
                    place = places.number_of(message.topic(), message.partition())
                    self.note(place, message.offset(), message.value())
        finally:
            consumer.close()

    def note(self, partition: int, offset: int, value: bytes) -> None:
        text = value.decode(errors="replace")
        self.history.polls.append(Poll(self.name, 0, partition, offset, text, time.monotonic()))
        self.next[partition] = offset + 1

    def wait_for(self, ends: Mapping[int, int], within_s: float) -> None:
        """Until it has read that far; a finding if it does not."""
        deadline = time.monotonic() + within_s
        while any(self.next[partition] < end for partition, end in ends.items()):
            if time.monotonic() > deadline:
                self.trouble(f"is at {self.next} where the ends are {dict(ends)}")
                return
            time.sleep(0.05)


class Flood(Worker):
    """Sends as many bytes as brokers take, to a topic that is not judged: it fills their memory."""

    value = bytes(10_000)

    def __init__(self, reach: Reach, history: History) -> None:
        super().__init__("flood", reach, history)

    def work(self) -> None:
        producer = Producer({**self.reach, "queue.buffering.max.kbytes": 200_000, **QUIET})
        while not self.stopping.is_set():
            try:
                producer.produce("flood", self.value)
            except BufferError:
                producer.poll(0.05)
        producer.purge()
        producer.flush(10)
