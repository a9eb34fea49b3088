"""Which batches of a transaction may enter a log: those of registered partitions (rule T2).

Here: asking the row before a batch is appended, and remembering the answer in the lane. The lane
forgets it with the transaction's marker and with a re-opening (rule T3), and refuses what is not
registered by then.
Next door: the row (coordinator.py), the append itself (partitions/appends.py).
"""

from collections.abc import Sequence
from typing import NamedTuple

from kafscale.engine.partitions.open_logs import OpenLogs
from kafscale.engine.topics.topic import Topic
from kafscale.engine.transactions.coordinator import Coordinator
from kafscale.engine.transactions.rows import LogSession, RegisteredPartition
from kafscale.log.writer.lane import Lane
from kafscale.model.errors import (
    InvalidTransactionState,
    KafscaleError,
    NotWritten,
    TransactionAbortable,
    UnknownTopic,
)
from kafscale.transactions.machine import Producer


class TransactionalBatch(NamedTuple):
    """A batch that a client wants to append within its transaction."""

    topic: Topic
    partition: int
    producer: Producer


class _Wanted(NamedTuple):
    number: int  # of the batch
    session: LogSession | None  # of its log, if records may wait in memory
    lane: Lane
    markers: int  # of the lane, before the row is read
    place: RegisteredPartition


class Gate:
    """Lets the batches of transactions in."""

    def __init__(self, logs: OpenLogs, coordinator: Coordinator) -> None:
        self._logs = logs
        self._coordinator = coordinator

    async def admit(
        self,
        transactional_id: str,
        batches: Sequence[TransactionalBatch],
        *,
        registers: bool,
        is_abortable: bool,
    ) -> dict[int, KafscaleError]:
        """Let batches be appended; gives the errors, by number, of those that may not be.

        `registers`: a partition that is not registered is registered now. `is_abortable`: the
        client knows the error by which it aborts a transaction.
        """
        wanted: dict[Producer, list[_Wanted]] = {}
        for number, (topic, partition, producer) in enumerate(batches):
            try:
                opened = self._logs.resolve(topic, partition)
            except UnknownTopic:
                continue  # the append says so
            if opened is None:
                continue
            log, lane = opened
            if lane.registered.get(producer.producer_id) != producer.epoch:
                place = RegisteredPartition(topic.descriptor.topic_id, topic.name, partition)
                buffers = lane.rules.buffers_transactions
                session = LogSession(log.folder, log.session) if buffers else None
                row = _Wanted(number, session, lane, lane.markers, place)
                wanted.setdefault(producer, []).append(row)
        problems: dict[int, KafscaleError] = {}
        for producer, rows in wanted.items():
            places = {row.place for row in rows}
            sessions = {row.session for row in rows if row.session is not None}
            try:
                if registers:
                    await self._coordinator.register(transactional_id, producer, places, sessions)
                    known = places
                else:
                    known = set(
                        await self._coordinator.verify(transactional_id, producer, places, sessions)
                    )
            except TransactionAbortable as problem:
                refused = problem if is_abortable else InvalidTransactionState(str(problem))
                problems |= dict.fromkeys((row.number for row in rows), refused)
                continue
            except KafscaleError as problem:
                problems |= dict.fromkeys((row.number for row in rows), problem)
                continue
            for row in rows:
                refusal = _enter(row, producer, known, is_abortable=is_abortable)
                if refusal is not None:
                    problems[row.number] = refusal
        return problems


def _enter(
    row: _Wanted, producer: Producer, known: set[RegisteredPartition], *, is_abortable: bool
) -> KafscaleError | None:
    if row.place not in known:
        why = f"{row.place.name}-{row.place.partition} is not part of the transaction"
        return TransactionAbortable(why) if is_abortable else InvalidTransactionState(why)
    buffers = row.session is not None
    if not row.lane.register(producer.producer_id, producer.epoch, row.markers, buffers=buffers):
        return NotWritten("a transaction has just ended here, or the log was opened again")
    return None
