"""Clients that make transactions under faults, and write down what they asked and were told.

In this room: confluent-kafka producers with a transactional id, a thread each; the last reading of
committed records.
Next door: other clients (workers.py), the judgement (transaction_checker.py).
"""

import random
import time
from typing import Final

from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    KafkaError,
    KafkaException,
    Producer,
    TopicPartition,
)

from tests.faults.history import OK, History
from tests.faults.transaction_checker import ABORT, COMMIT, Transaction, TransactionHistory
from tests.faults.workers import QUIET, Reach, Worker

TOPIC: Final = "transfers"
PARTITIONS: Final = 3
TIMEOUT_MS: Final = 15_000
ENDED_S: Final = 90.0  # how long transactions may stay open when all faults are over
_ABORTED, _LEFT_OPEN = 0.2, 0.1
_PATIENCE_S: Final = 60.0


class Transactor(Worker):
    """One transactional id: it commits, aborts, or goes away and comes again."""

    def __init__(
        self, name: str, reach: Reach, history: History, told: TransactionHistory, seed: int
    ) -> None:
        super().__init__(name, reach, history)
        self._told = told
        self._dice = random.Random(f"{seed}/{name}")
        self._number = 0

    def work(self) -> None:
        producer: Producer | None = None
        while not self.stopping.is_set():
            if producer is None:
                producer = self._begin_instance()
            elif not self._transaction(producer):
                producer = None
            time.sleep(self._dice.random() * 0.2)

    def _begin_instance(self) -> Producer | None:
        settings = {"transactional.id": self.name, "transaction.timeout.ms": TIMEOUT_MS}
        producer = Producer({**self.reach, **settings, **QUIET})
        try:
            producer.init_transactions(_PATIENCE_S)
        except KafkaException:
            return None  # it tries again; an id that stays away is seen by the others
        return producer

    def _transaction(self, producer: Producer) -> bool:
        """Whether the producer can go on."""
        self._number += 1
        made = Transaction(self.name, self._number)
        self._told.transactions.append(made)
        try:
            producer.begin_transaction()
            for partition in range(PARTITIONS):
                self._send(producer, made, partition)
            if producer.flush(_PATIENCE_S):
                return False
            return self._end(producer, made)
        except KafkaException as problem:
            error = problem.args[0]
            return bool(error.txn_requires_abort()) and self._gives_up(producer)

    def _send(self, producer: Producer, made: Transaction, partition: int) -> None:
        value = f"{self.name} {made.number} {partition}"
        made.sent.append(value)

        def delivered(error: KafkaError | None, _: object) -> None:
            if error is None:
                made.stored.append((partition, value))

        producer.produce(TOPIC, value.encode(), partition=partition, on_delivery=delivered)

    def _end(self, producer: Producer, made: Transaction) -> bool:
        how = self._dice.random()
        if how < _LEFT_OPEN:
            return False
        made.wanted = ABORT if how < _LEFT_OPEN + _ABORTED else COMMIT
        end = producer.abort_transaction if made.wanted == ABORT else producer.commit_transaction
        deadline = time.monotonic() + _PATIENCE_S
        while True:
            try:
                end(_PATIENCE_S)
            except KafkaException as problem:
                if problem.args[0].retriable() and time.monotonic() < deadline:
                    continue
                raise
            made.outcome = OK
            return True

    def _gives_up(self, producer: Producer) -> bool:
        try:
            producer.abort_transaction(_PATIENCE_S)
        except KafkaException:
            return False
        return True


def read_the_end(reach: Reach, told: TransactionHistory) -> None:
    """Note what readers of committed records get, and which partitions stay open."""
    for partition in range(PARTITIONS):
        deadline = time.monotonic() + ENDED_S
        while _end_of(reach, partition, "read_committed") != _end_of(
            reach, partition, "read_uncommitted"
        ):
            if time.monotonic() > deadline:
                told.hanging.append(f"{TOPIC}-{partition}")
                break
            time.sleep(0.5)
        told.committed += _read(reach, partition)


def _consumer(reach: Reach, isolation: str) -> Consumer:
    settings = {"group.id": "auditor", "isolation.level": isolation, "enable.auto.commit": False}
    return Consumer({**reach, **settings, "enable.partition.eof": True, **QUIET})


def _end_of(reach: Reach, partition: int, isolation: str) -> int:
    consumer = _consumer(reach, isolation)
    try:
        end: int = consumer.get_watermark_offsets(TopicPartition(TOPIC, partition), _PATIENCE_S)[1]
        return end
    finally:
        consumer.close()


def _read(reach: Reach, partition: int) -> list[tuple[int, int, str]]:
    consumer = _consumer(reach, "read_committed")
    found: list[tuple[int, int, str]] = []
    deadline = time.monotonic() + ENDED_S
    try:
        consumer.assign([TopicPartition(TOPIC, partition, OFFSET_BEGINNING)])
        while time.monotonic() < deadline:
            message = consumer.poll(1.0)
            if message is None:
                continue
            error = message.error()
            if error is None:
                found.append((partition, message.offset(), message.value().decode()))
            elif error.code() == KafkaError._PARTITION_EOF:
                return found
        raise TimeoutError(f"{TOPIC}-{partition} could not be read")
    finally:
        consumer.close()
