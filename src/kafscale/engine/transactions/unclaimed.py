"""Transactions in this broker's logs that no row claims: they are aborted (rule T7).

Here: looking at the rows of transactions that are open in open logs, again and again. So nothing
stays open, whatever has gone wrong. A transaction that is ended here counts as a mistake of the
cluster, unless its metadata store was lost: metrics and logs tell of it.
Next door: transactions with a decision (endings.py), the marker (log/writer/transaction_ends.py).
"""

import asyncio
from collections.abc import Callable
from typing import Final, NamedTuple

import structlog

from kafscale.engine.partitions.open_logs import OpenLogs
from kafscale.engine.topics.registry import TopicRegistry
from kafscale.engine.topics.topic import Topic
from kafscale.engine.transactions.coordinator import Coordinator
from kafscale.engine.transactions.endings import Endings
from kafscale.engine.transactions.rows import (
    RegisteredPartition,
    StoredTransaction,
    TransactionRows,
)
from kafscale.log.formats import places
from kafscale.log.formats.transactions import OpenTransaction
from kafscale.log.writer import transaction_ends
from kafscale.log.writer.lane import Lane
from kafscale.log.writer.log import Log
from kafscale.model.clock import Clock
from kafscale.model.errors import KafscaleError
from kafscale.transactions.rows import ENDING, TransactionState

logger = structlog.get_logger()

_LONGEST: Final = 5  # times the interval, between two looks


class _Seen(NamedTuple):
    """An open transaction of a lane."""

    folder: str
    lane: int
    opened: OpenTransaction


class Unclaimed:
    """Looks at open transactions by itself."""

    def __init__(
        self,
        logs: OpenLogs,
        topics: TopicRegistry,
        rows: TransactionRows,
        coordinator: Coordinator,
        endings: Endings,
        clock: Clock,
        interval_s: float,
        on_presumed: Callable[[], None],
    ) -> None:
        """`on_presumed` counts the transactions that no row claimed."""
        self._logs = logs
        self._topics = topics
        self._rows = rows
        self._coordinator = coordinator
        self._endings = endings
        self._clock = clock
        self._interval_s = interval_s
        self._on_presumed = on_presumed
        # When, how many there were, and since when it is known.
        self._next_look: dict[_Seen, tuple[float, int, float]] = {}

    async def run(self) -> None:
        """Look now and then; runs until it is cancelled."""
        while True:
            await asyncio.sleep(self._interval_s)
            try:
                await self.look()
            except KafscaleError as problem:
                logger.info("open_transactions_not_looked_at", error=str(problem))

    def count(self) -> int:
        """Open transactions in partitions of this broker, as of the last look."""
        return len(self._next_look)

    def oldest_s(self) -> float:
        """For how long the oldest of them is known; 0 if there is none."""
        now_s = self._clock.elapsed_s()
        return max((now_s - since_s for _, _, since_s in self._next_look.values()), default=0.0)

    async def look(self) -> None:
        """Look at the transactions whose time has come: one read for each transactional id."""
        now_s = self._clock.elapsed_s()
        known, self._next_look = self._next_look, {}
        due: dict[int, list[tuple[Log, Lane, OpenTransaction, Topic | None]]] = {}
        for topic, log in self._logs.each():
            for lane, opened in transaction_ends.each_open(log):
                seen = _Seen(log.folder, lane.number, opened)
                at_s, count, since_s = known.get(seen, (now_s + self._interval_s, 0, now_s))
                if at_s <= now_s:
                    due.setdefault(opened.producer_id, []).append((log, lane, opened, topic))
                    count += 1
                    at_s = now_s + self._interval_s * min(2**count, _LONGEST)
                self._next_look[seen] = at_s, count, since_s
        for producer_id, rows in due.items():
            producer = await self._rows.producer(producer_id)
            stored = None
            if producer.transactional_id:
                stored = await self._rows.load(producer.transactional_id)
            turns = dict(producer.committed)
            for log, lane, opened, topic in rows:
                if opened.epoch in turns:
                    _commit(log, lane, opened, turns[opened.epoch])
                else:
                    await self._judge(stored, log, lane, opened, topic)

    async def _judge(
        self,
        stored: StoredTransaction | None,
        log: Log,
        lane: Lane,
        opened: OpenTransaction,
        topic: Topic | None,
    ) -> None:
        row = stored.row if stored is not None else None
        place = self._place(log, lane, topic)
        if place is None:
            return  # its topic is going, or not known here yet
        if stored is not None and row is not None and row.producer_id == opened.producer_id:
            is_registered = place in stored.places
            if row.state is TransactionState.ONGOING and row.epoch == opened.epoch:
                if is_registered:
                    if self._clock.now_ms() >= row.deadline_ms:
                        await self._coordinator.abort_if_late(stored.transactional_id)
                    return
            elif row.state in ENDING and row.ended_epoch == opened.epoch and is_registered:
                self._endings.begin(stored.transactional_id, stored.version)
                return
        if lane.producers.is_sealed:
            return  # the partition goes on elsewhere, and its open transactions with it
        if transaction_ends.abort_unclaimed(log, lane.number, opened) is not None:
            self._on_presumed()
            logger.error(
                "transaction_unclaimed",
                folder=log.folder,
                lane=lane.number,
                producer=opened.producer_id,
                epoch=opened.epoch,
                first=opened.first,
            )

    def _place(self, log: Log, lane: Lane, topic: Topic | None) -> RegisteredPartition | None:
        """The partition that lies in a lane."""
        if lane.whose is not None:
            name, partition = lane.whose
            owner = self._topics.find(name)
            if owner is not None:
                return RegisteredPartition(owner.descriptor.topic_id, name, partition)
            return None
        for owner in [topic] if topic is not None else self._topics.all():
            for partition, found in places.each_place(owner.descriptor):
                if found == (log.folder, lane.number):
                    return RegisteredPartition(owner.descriptor.topic_id, owner.name, partition)
        return None


def _commit(log: Log, lane: Lane, opened: OpenTransaction, turn: int) -> None:
    """Rule T16: a recovery has found the commit marker of this transaction in another log."""
    if lane.producers.is_sealed or lane.transactions.open.get(opened.producer_id) != opened:
        return
    transaction_ends.end_transaction(
        log, lane.number, opened.producer_id, opened.epoch + 1, turn, committed=True
    )
    logger.info(
        "transaction_committed_by_recovery",
        folder=log.folder,
        lane=lane.number,
        producer=opened.producer_id,
        epoch=opened.epoch,
    )
