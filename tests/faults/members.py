"""Members of a consumer group, and a client that asks what the group has committed.

Next door: other clients (workers.py). Members poll, commit synchronously what they were given,
leave and come back.
"""

import random
import time
from collections.abc import Mapping
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from tests.faults import places
from tests.faults.history import FAILED, OK, UNKNOWN, Commit, Fetched, History, Poll
from tests.faults.workers import QUIET, Reach, Worker

GROUP = "the-group"
COMMIT_EVERY_S = 0.5
STAYS_S = (6.0, 15.0)
# What the client says before anything was sent.
NOT_SENT = {KafkaError._NO_OFFSET, KafkaError._STATE}


class Group:
    """What all members together have committed; the run waits for it at its end."""

    def __init__(self) -> None:
        self.committed: dict[int, int] = {}


def begin_group(reach: Reach, history: History) -> None:
    """Commit the beginning of every partition, before there are members.

    A member that finds no commit asks where a partition begins. librdkafka 2.16 heeds an answer to
    that also when it is reading already, if the leader went away and came back meanwhile: it begins
    anew. With commits a member has no such question, and one that asks it is a finding.
    """
    consumer = Consumer({**reach, "group.id": GROUP, **QUIET})
    rows = [TopicPartition(*places.PLACES[place], 0) for place in range(history.partitions)]
    begun_s = time.monotonic()
    try:
        answered = consumer.commit(offsets=rows, asynchronous=False)
    finally:
        consumer.close()
    ended_s = time.monotonic()
    for row in answered:
        if row.error is not None:
            raise KafkaException(row.error)
        place = places.number_of(row.topic, row.partition)
        history.commits.append(Commit(GROUP, place, 0, begun_s, ended_s, OK))


class GroupMember(Worker):
    """One member. A restless member leaves now and then and joins again as a new one."""

    def __init__(
        self,
        name: str,
        reach: Reach,
        history: History,
        group: Group,
        restless: bool,
        seed: int,
        *,
        resets: str = "earliest",
    ) -> None:
        """`resets`: what the client does where it has no place to go on; `error` is a finding."""
        super().__init__(name, reach, history)
        self._resets = resets
        self._group = group
        self._restless = restless
        self._dice = random.Random(f"{seed} {name}")
        self._stretch = 0
        self._next: dict[int, int] = {}

    def work(self) -> None:
        while not self.stopping.is_set():
            stays_s = self._dice.uniform(*STAYS_S) if self._restless else float("inf")
            self._attend(time.monotonic() + stays_s)

    def _attend(self, until_s: float) -> None:
        consumer = Consumer(
            {
                **self.reach,
                "group.id": GROUP,
                "auto.offset.reset": self._resets,
                "enable.auto.commit": False,
                **self.words,
            }
        )
        try:
            consumer.subscribe(places.TOPICS, on_assign=self._moved, on_revoke=self._moved)
            commit_s = time.monotonic()
            while not self.stopping.is_set() and time.monotonic() < until_s:
                message = consumer.poll(0.2)
                if message is not None:
                    self._take(message)
                if self._next and time.monotonic() > commit_s + COMMIT_EVERY_S:
                    self._commit(consumer)
                    commit_s = time.monotonic()
        finally:
            consumer.close()
            self._moved(None, [])

    def _moved(self, consumer: Any, moved: list[TopicPartition]) -> None:
        """The member loses partitions: another member reads what it has not committed."""
        self._stretch += 1
        self._next = {}

    def _take(self, message: Any) -> None:
        problem = message.error()
        if problem is None:
            self._note(message)
        elif problem.code() == KafkaError._AUTO_OFFSET_RESET:
            self.trouble(f"lost its place: {problem}")

    def _note(self, message: Any) -> None:
        partition = places.number_of(message.topic(), message.partition())
        offset = message.offset()
        text = message.value().decode(errors="replace")
        self.history.polls.append(
            Poll(self.name, self._stretch, partition, offset, text, time.monotonic())
        )
        self._next[partition] = offset + 1

    def _commit(self, consumer: Any) -> None:
        wanted = dict(self._next)
        rows = [TopicPartition(*places.PLACES[place], at) for place, at in wanted.items()]
        begun_s, stretch = time.monotonic(), self._stretch
        outcomes: dict[int, str] = {}
        try:
            for row in consumer.commit(offsets=rows, asynchronous=False):
                place = places.number_of(row.topic, row.partition)
                outcomes[place] = OK if row.error is None else UNKNOWN
        except KafkaException as refused:
            # The client may have tried more than once: an answer is about its last attempt only.
            surely = refused.args[0].code() in NOT_SENT
            outcomes = dict.fromkeys(wanted, FAILED if surely else UNKNOWN)
        ended_s = time.monotonic()
        for place, offset in wanted.items():
            outcome = outcomes.get(place, UNKNOWN)
            self.history.commits.append(Commit(GROUP, place, offset, begun_s, ended_s, outcome))
            if outcome == OK:
                self._group.committed[place] = offset
                if stretch == self._stretch and self._next.get(place) == offset:
                    del self._next[place]


class Auditor(Worker):
    """Asks again and again what the group has committed."""

    every_s = 0.3

    def work(self) -> None:
        consumer = Consumer({**self.reach, "group.id": GROUP, **QUIET})
        asked = [TopicPartition(*places.PLACES[p]) for p in range(self.history.partitions)]
        try:
            while not self.stopping.wait(self.every_s):
                begun_s = time.monotonic()
                try:
                    answered = consumer.committed(asked, timeout=10)
                except KafkaException:
                    continue  # no answer, so there is nothing to note
                ended_s = time.monotonic()
                for row in answered:
                    if row.error is None:
                        offset = max(row.offset, -1)  # librdkafka's "none" is -1001
                        place = places.number_of(row.topic, row.partition)
                        self.history.fetched.append(Fetched(GROUP, place, offset, begun_s, ended_s))
        finally:
            consumer.close()


def wait_for_group(
    group: Group, ends: Mapping[int, int], worker: Worker, within_s: float = 120.0
) -> None:
    """Until the group has committed everything; a finding if it does not."""
    deadline = time.monotonic() + within_s
    while any(group.committed.get(partition, 0) < end for partition, end in ends.items()):
        if time.monotonic() > deadline:
            worker.trouble(f"group has {group.committed} where the ends are {dict(ends)}")
            return
        time.sleep(0.1)
