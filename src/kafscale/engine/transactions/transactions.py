"""The facade of this sub-room: what a door may do with transactions.

Here: the parts put together, and their verbs.
Next door: the parts (coordinator.py, endings.py, gate.py, unclaimed.py).
"""

import asyncio
from collections.abc import Callable, Collection
from typing import NamedTuple

import structlog

from kafscale.engine.cluster.membership import Membership, Node
from kafscale.engine.coordinator.offsets import CommittedPartition, OffsetEvents
from kafscale.engine.partitions.open_logs import OpenLogs
from kafscale.engine.partitions.producer_ids import ProducerIds
from kafscale.engine.topics.registry import TopicRegistry
from kafscale.engine.transactions.coordinator import Coordinator, TransactionLimits
from kafscale.engine.transactions.endings import Endings, coordinator_name
from kafscale.engine.transactions.gate import Gate
from kafscale.engine.transactions.rows import RegisteredPartition, TransactionRows
from kafscale.engine.transactions.unclaimed import Unclaimed
from kafscale.metadata import keys
from kafscale.metadata.store import MetadataStore
from kafscale.model.clock import Clock, Dice
from kafscale.model.errors import KafscaleError, TransactionNotFound
from kafscale.tasks import Tasks
from kafscale.transactions.rows import ENDING, Transaction, TransactionState

logger = structlog.get_logger()


class DescribedTransaction(NamedTuple):
    """A transactional id, for tools."""

    transactional_id: str
    row: Transaction
    places: frozenset[RegisteredPartition]


class TransactionEvents(NamedTuple):
    """What transactions tell the metrics."""

    decided: Callable[[str], None] = lambda _: None  # commit, abort or timeout
    presumed: Callable[[], None] = lambda: None  # no row claimed it


class Transactions:
    """What a broker does about transactions."""

    def __init__(
        self,
        metadata: MetadataStore,
        topics: TopicRegistry,
        logs: OpenLogs,
        cluster: Membership,
        producer_ids: ProducerIds,
        offset_events: OffsetEvents,
        limits: TransactionLimits,
        clock: Clock,
        dice: Dice,
        tasks: Tasks,
        events: TransactionEvents,
    ) -> None:
        self._rows = TransactionRows(metadata, dice)
        self._cluster = cluster
        self._limits = limits
        self._clock = clock
        self._endings = Endings(
            self._rows, metadata, topics, logs, cluster, offset_events, clock, tasks
        )
        coordinator = Coordinator(
            self._rows, self._endings, producer_ids, limits, clock, tasks, events.decided
        )
        self._coordinator = coordinator
        self._unclaimed = Unclaimed(
            logs,
            topics,
            self._rows,
            coordinator,
            self._endings,
            clock,
            limits.look_interval_s,
            events.presumed,
        )
        self.begin_instance = coordinator.begin_instance
        self.register = coordinator.register
        self.register_group = coordinator.register_group
        self.add_offsets = coordinator.add_offsets
        self.end = coordinator.end
        self.admit = Gate(logs, coordinator).admit
        self.look = self._unclaimed.look
        self.open_count = self._unclaimed.count
        self.oldest_open_s = self._unclaimed.oldest_s

    # -- which broker ------------------------------------------------------------------------

    def coordinator_of(self, transactional_id: str) -> Node | None:
        """The broker that clients ask about an id: safety does not need it, timers do."""
        return self._cluster.coordinator_of(coordinator_name(transactional_id))

    async def require(self, transactional_id: str) -> None:
        """Raise NotTheCoordinator unless it is this broker."""
        await self._cluster.require_group(coordinator_name(transactional_id))

    def _coordinates(self, transactional_id: str) -> bool:
        return self._cluster.may_coordinate(coordinator_name(transactional_id))

    # -- for tools ---------------------------------------------------------------------------

    async def describe(self, transactional_id: str) -> DescribedTransaction:
        """One transactional id. Raises TransactionNotFound."""
        stored = await self._rows.load(transactional_id)
        if stored.row is None:
            raise TransactionNotFound(f"there is no transactional id {transactional_id!r}")
        return DescribedTransaction(transactional_id, stored.row, stored.places)

    async def list_all(self) -> list[tuple[str, Transaction]]:
        """The transactional ids that this broker coordinates."""
        found = []
        after = ""
        while entries := await self._rows.page(after):
            after = entries[-1].key
            for entry in entries:
                transactional_id = keys.transaction_named_by(entry.key)
                if transactional_id is not None and self._coordinates(transactional_id):
                    found.append((transactional_id, keys.decode(Transaction, entry.value)))
            await asyncio.sleep(0)
        return found

    async def unstable(self, group_id: str) -> Collection[CommittedPartition]:
        """The partitions whose committed offsets a transaction that has not ended may change."""
        unstable: set[CommittedPartition] = set()
        for transactional_id, pending, _ in await self._rows.pending_of(group_id):
            row = (await self._rows.load(transactional_id)).row
            is_open = row is not None and (
                row.state is TransactionState.ONGOING or row.state in ENDING
            )
            if is_open and row is not None and row.turn == pending.turn:
                unstable |= {(one.topic, one.partition) for one in pending.offsets}
        return unstable

    # -- for the engine ----------------------------------------------------------------------

    async def run(self) -> None:
        """Follow decisions, look at open transactions, sweep; runs until it is cancelled."""
        await asyncio.gather(self._endings.run(), self._unclaimed.run(), self._sweep())

    async def _sweep(self) -> None:
        while True:
            try:
                await self._coordinator.sweep(self._coordinates)
            except KafscaleError as problem:
                logger.warning("transactions_not_swept", error=str(problem))
            await asyncio.sleep(self._limits.sweep_interval_s)
