"""Clients that make transactions under faults, and write down what they asked and were told.

In this room: confluent-kafka producers with a transactional id, a thread each. They write to a
topic with a log for each partition, to one whose records wait in memory for their commit, or to
both; they commit offsets of a group, abort, go away, and go on as zombies.
Next door: other clients (workers.py), readers (committed.py), the judgement
(transaction_checker.py).
"""

import logging
import random
import threading
import time
from typing import Final

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition

from tests.faults.asking import Asking
from tests.faults.history import OK, History
from tests.faults.transaction_checker import ABORT, COMMIT, Transaction, TransactionHistory
from tests.faults.workers import Reach, Worker

TOPICS: Final = {
    "transfers": {},
    "transfers-held": {"physical.partitions": "1", "transactions.buffered": "true"},
}
PARTITIONS: Final = 3  # of each topic
PLACES: Final = [(topic, partition) for topic in TOPICS for partition in range(PARTITIONS)]
TIMEOUT_MS: Final = 15_000
_ABORTED, _LEFT_OPEN, _FENCED = 0.2, 0.1, 0.1  # how often a transaction ends that way
_WITH_OFFSETS: Final = 0.5
_PATIENCE_S: Final = 60.0
_OFFSETS_S: Final = 15.0
_SILENCE_S: Final = 5.0
# A fenced producer logs that as an emergency, whatever its level; here it is meant to be fenced.
_UNHEARD: Final = logging.getLogger("fenced producers")
_UNHEARD.addHandler(logging.NullHandler())
_UNHEARD.propagate = False


class Transactor(Worker):
    """One transactional id: it commits, aborts, or goes away and comes again."""

    def __init__(
        self, name: str, reach: Reach, history: History, told: TransactionHistory, seed: int
    ) -> None:
        super().__init__(name, reach, history)
        self._told = told
        self._dice = random.Random(f"{seed}/{name}")
        self._number = 0
        self._asking = Asking()

    def work(self) -> None:
        producer: Producer | None = None
        # Its id is the group's, so that it commits offsets as a consumer that has no partitions.
        group = Consumer({**self.reach, "group.id": self.name, **self.words})
        try:
            while not self.stopping.is_set():
                if producer is None:
                    producer = self._begin_instance()
                else:
                    producer = self._transaction(producer, group)
                time.sleep(self._dice.random() * 0.2)
        finally:
            group.close()

    def _begin_instance(self) -> Producer | None:
        settings = {"transactional.id": self.name, "transaction.timeout.ms": TIMEOUT_MS}
        # A logger of Python's hears a client only while it is polled: a trace goes to stderr.
        unheard = {} if self.traced else {"logger": _UNHEARD}
        self._asking = Asking()
        settings |= self._asking.settings()
        producer = Producer({**self.reach, **settings, **self.words}, **unheard)
        try:
            producer.init_transactions(_PATIENCE_S)
        except KafkaException:
            return None  # it tries again; an id that stays away is seen by the others
        return producer

    def _transaction(self, producer: Producer, group: Consumer) -> Producer | None:
        """The producer of the next transaction; None if there must be a new instance."""
        self._number += 1
        made = Transaction(self.name, self._number)
        self._told.transactions.append(made)
        first, last = self._dice.choice([(0, 3), (3, 6), (1, 5)])
        try:
            producer.begin_transaction()
            for place in range(first, last):
                self._send(producer, made, place)
            if producer.flush(_PATIENCE_S):
                return None
            has_offset = self._dice.random() < _WITH_OFFSETS
            if has_offset and not self._add_offset(producer, made, group, PLACES[first][0]):
                return None
            return self._end(producer, made)
        except KafkaException as problem:
            error = problem.args[0]
            return producer if error.txn_requires_abort() and self._gives_up(producer) else None

    def _send(self, producer: Producer, made: Transaction, place: int) -> None:
        value = f"{self.name} {made.number} {place}"
        made.sent.append(value)

        def delivered(error: KafkaError | None, _: object) -> None:
            if error is None:
                made.stored.append((place, value))

        topic, partition = PLACES[place]
        producer.produce(topic, value.encode(), partition=partition, on_delivery=delivered)

    def _add_offset(
        self, producer: Producer, made: Transaction, group: Consumer, topic: str
    ) -> bool:
        """Whether the call came back; the transaction is left open if it did not.

        librdkafka 2.16 does not look at the call's time limit, and waits for news of a coordinator
        that it has given up: it is left alone once it asks no broker anything any more. A call that
        waits for a broker is waited for, and is a finding if it does not end with the run.
        """
        row = TopicPartition(topic, 0, made.number)
        metadata = group.consumer_group_metadata()
        is_back = threading.Event()
        problems: list[KafkaException] = []

        def add() -> None:
            try:
                producer.send_offsets_to_transaction([row], metadata, _OFFSETS_S)
            except KafkaException as problem:
                problems.append(problem)
            finally:
                is_back.set()

        threading.Thread(target=add, daemon=True).start()
        while not is_back.wait(2 * _OFFSETS_S):
            if (
                self._asking.is_waiting_for_itself(producer.poll, _SILENCE_S)
                and not is_back.is_set()
            ):
                self._told.left_alone += 1
                return False
        if problems:
            raise problems[0]
        made.offset = made.number
        return True

    def _end(self, producer: Producer, made: Transaction) -> Producer | None:
        how = self._dice.random()
        if how < _LEFT_OPEN:
            return None
        if how < _LEFT_OPEN + _FENCED:
            return self._end_as_zombie(producer, made)
        aborts = how < _LEFT_OPEN + _FENCED + _ABORTED
        self._ask_to_end(producer, made, ABORT if aborts else COMMIT)
        return producer

    def _end_as_zombie(self, producer: Producer, made: Transaction) -> Producer | None:
        """Ask for the commit when a younger instance has its epoch; gives the younger one."""
        younger = self._begin_instance()
        if younger is None:
            return None
        made.fenced_s = time.monotonic()
        time.sleep(0.001)
        try:
            self._ask_to_end(producer, made, COMMIT)
        except KafkaException:
            pass  # so it must be; the judge says what else would be wrong
        return younger

    def _ask_to_end(self, producer: Producer, made: Transaction, wanted: str) -> None:
        made.wanted, made.asked_s = wanted, time.monotonic()
        end = producer.abort_transaction if wanted == ABORT else producer.commit_transaction
        deadline = time.monotonic() + _PATIENCE_S
        while True:
            try:
                end(_PATIENCE_S)
            except KafkaException as problem:
                if problem.args[0].retriable() and time.monotonic() < deadline:
                    continue
                raise
            made.outcome = OK
            return

    def _gives_up(self, producer: Producer) -> bool:
        try:
            producer.abort_transaction(_PATIENCE_S)
        except KafkaException:
            return False
        return True
