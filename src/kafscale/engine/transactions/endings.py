"""How a decided transaction ends: markers in every log, committed offsets, then it is done.

Here: every broker hears of decisions by a watch and writes the markers of the logs that it owns,
after it has read the row (rule T4). No broker sends another one anything: the metadata store
carries both the decision and the reports. A broker that comes later finds what is left to do in the
watch's first listing.
Next door: who decides (coordinator.py), transactions that no row claims (unclaimed.py), markers
(log/writer/transaction_ends.py).
"""

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

import structlog

from kafscale.engine.cluster.membership import Membership
from kafscale.engine.coordinator.offsets import OffsetEvents
from kafscale.engine.partitions.open_logs import OpenLogs
from kafscale.engine.topics.registry import TopicRegistry
from kafscale.engine.topics.topic import Topic
from kafscale.engine.transactions import staging
from kafscale.engine.transactions.rows import (
    RegisteredPartition,
    StoredTransaction,
    TransactionRows,
)
from kafscale.log.writer import transaction_ends
from kafscale.log.writer.log import Log
from kafscale.log.writer.types import CommitOutcome, wait_for_commit
from kafscale.metadata import keys
from kafscale.metadata.store import Change, Listing, MetadataStore, Put, Remove
from kafscale.model.clock import Clock
from kafscale.model.errors import (
    KafscaleError,
    MetadataConflict,
    TransactionPending,
    UnknownTopic,
)
from kafscale.retry import Backoff, RetryPolicy
from kafscale.tasks import Tasks
from kafscale.transactions import machine
from kafscale.transactions.rows import ENDING, Transaction, TransactionState

logger = structlog.get_logger()

_RETRY: Final = RetryPolicy(first_s=0.02, longest_s=1.0)


_LATEST: Final = 1 << 62  # above all versions


def coordinator_name(transactional_id: str) -> str:
    """The name by which an id is given to one of the brokers, as groups are."""
    return f"transaction {transactional_id}"


@dataclass(slots=True)
class _Ending:
    """A transaction that is decided and not done."""

    version: int  # of the decision
    done: asyncio.Event = field(default_factory=asyncio.Event)


class Endings:
    """The transactions that are being ended, anywhere in the cluster."""

    def __init__(
        self,
        rows: TransactionRows,
        metadata: MetadataStore,
        topics: TopicRegistry,
        logs: OpenLogs,
        cluster: Membership,
        events: OffsetEvents,
        clock: Clock,
        tasks: Tasks,
    ) -> None:
        self._rows = rows
        self._metadata = metadata
        self._topics = topics
        self._logs = logs
        self._cluster = cluster
        self._events = events
        self._clock = clock
        self._tasks = tasks
        self._endings: dict[str, _Ending] = {}

    def __len__(self) -> int:
        """How many transactions are being ended."""
        return len(self._endings)

    async def run(self) -> None:
        """Follow all decisions; runs until it is cancelled."""
        watch = self._metadata.watch(keys.ENDINGS)
        try:
            async for event in watch:
                self._hear(event)
        finally:
            await watch.aclose()

    def _hear(self, event: Listing | Change) -> None:
        if isinstance(event, Listing):
            listed = {_id_of(entry.key): entry.version for entry in event.entries}
            for transactional_id in list(self._endings):
                if transactional_id not in listed:
                    self._ended(transactional_id, event.version)
            for transactional_id, version in listed.items():
                self.begin(transactional_id, version)
            return
        for entry in event.written:
            self.begin(_id_of(entry.key), entry.version)
        for key in event.removed:
            self._ended(_id_of(key), event.version)

    def begin(self, transactional_id: str, version: int) -> None:
        """A transaction is decided: end it."""
        known = self._endings.get(transactional_id)
        if known is None:
            ending = self._endings[transactional_id] = _Ending(version)
            self._tasks.spawn(self._end(transactional_id, ending), f"end of {transactional_id}")
        else:
            known.version = max(known.version, version)

    def _ended(self, transactional_id: str, version: int) -> None:
        """The transaction was done at this version of the store: later decisions are others."""
        ending = self._endings.get(transactional_id)
        if ending is not None and ending.version <= version:
            del self._endings[transactional_id]
            ending.done.set()

    async def wait(self, transactional_id: str, timeout_s: float) -> None:
        """Wait until a decided transaction is done. Raises TransactionPending after the time."""
        ending = self._endings.get(transactional_id)
        if ending is None:
            # Another broker has decided: ask the store until the watch has told.
            stored = await self._rows.load(transactional_id)
            if stored.row is None or stored.row.state not in ENDING:
                return
            self.begin(transactional_id, stored.version)
            ending = self._endings[transactional_id]
        try:
            async with asyncio.timeout(max(0.0, timeout_s)):
                await ending.done.wait()
        except TimeoutError:
            raise TransactionPending("the transaction is being ended") from None

    async def _end(self, transactional_id: str, ending: _Ending) -> None:
        """Do what this broker can do about one transaction, until it is done."""
        backoff = Backoff(_RETRY)
        while not ending.done.is_set():
            try:
                if await self._step(transactional_id):
                    continue
            except MetadataConflict:
                continue  # another broker was faster: read again
            except KafscaleError as problem:
                logger.info("transaction_end_postponed", id=transactional_id, error=str(problem))
            try:
                async with asyncio.timeout(backoff.next_s()):
                    await ending.done.wait()
            except TimeoutError:
                pass

    async def _step(self, transactional_id: str) -> bool:
        """Write the markers that are this broker's; whether to look again at once."""
        stored = await self._rows.load(transactional_id)
        row = stored.row
        if row is None or row.state not in ENDING:
            self._ended(transactional_id, stored.version if row is not None else _LATEST)
            return True
        if row.state is TransactionState.STAGED:
            return await self._settle(stored, row)
        missing = stored.places - stored.marked
        marked = await self._mark(transactional_id, row, missing)
        if marked >= missing:
            await self._finish(stored, row)
            return True
        if marked:
            await self._rows.report_marked(stored, marked)
        return bool(marked)

    # -- staged transactions -----------------------------------------------------------------

    def log_of_all(self, stored: StoredTransaction) -> str:
        """The log that has all partitions of a transaction, as far as known; "": several have."""
        folders = {session.folder for session in stored.sessions}
        for place in stored.places:
            topic = self._topics.find(place.name)
            if topic is None or topic.descriptor.topic_id != place.topic_id:
                return ""
            try:
                folders.add(topic.place(place.partition).folder)
            except UnknownTopic:
                return ""
        return folders.pop() if len(folders) == 1 else ""

    async def _settle(self, stored: StoredTransaction, row: Transaction) -> bool:
        """Rule B4: of a transaction in one log, its chain decides. Rule B5: else all sessions."""
        lanes, gone = await self._owned(stored.transactional_id, stored.places)
        if not row.log:
            folders = self._folders(stored.places)
            is_kept = await staging.keep(self._rows, stored, list(lanes), folders)
            if is_kept is None:
                return False
            await self._rows.decide(stored, machine.settle(row, is_kept=is_kept))
            return True
        found = await staging.write_markers(stored, row, lanes, gone)
        if found is None:
            return False
        settled = machine.settle(row, is_kept=found.is_kept)
        if found.marked >= stored.places:
            await self._finish(stored, settled)
        else:
            await self._rows.decide(stored, settled)
        return True

    def _folders(self, places: Iterable[RegisteredPartition]) -> set[str]:
        """The logs in which these places lie now."""
        folders = set()
        for place in places:
            topic = self._topics.find(place.name)
            if topic is not None and topic.descriptor.topic_id == place.topic_id:
                folders.add(topic.place(place.partition).folder)
        return folders

    # -- markers -----------------------------------------------------------------------------

    async def _mark(
        self, transactional_id: str, row: Transaction, missing: Iterable[RegisteredPartition]
    ) -> set[RegisteredPartition]:
        """Rule T5: every registered place gets its marker, whether records came or not."""
        lanes, marked = await self._owned(transactional_id, missing)
        waits: list[tuple[RegisteredPartition, asyncio.Future[CommitOutcome] | None]] = []
        for log, wanted in lanes.items():
            waits += _append_markers(log, row, wanted)
        for place, committed in waits:
            try:
                if committed is not None:
                    await wait_for_commit(committed)
                marked.add(place)
            except KafscaleError as problem:
                logger.debug("marker_postponed", place=place, error=str(problem))
        return marked

    async def _owned(
        self, transactional_id: str, places: Iterable[RegisteredPartition]
    ) -> tuple[staging.OwnedLanes, set[RegisteredPartition]]:
        """The logs and lanes of the places that are this broker's; and the places that are gone."""
        lanes: staging.OwnedLanes = {}
        gone: set[RegisteredPartition] = set()
        for place in sorted(places):
            try:
                opened = await self._open(transactional_id, place)
            except KafscaleError as problem:
                logger.debug("marker_postponed", place=place, error=str(problem))
                continue
            if isinstance(opened, RegisteredPartition):
                gone.add(opened)
            elif opened is not None:
                log, number = opened
                lanes.setdefault(log, []).append((place, number))
        return lanes, gone

    async def _open(
        self, transactional_id: str, place: RegisteredPartition
    ) -> tuple[Log, int] | RegisteredPartition | None:
        """The log and lane of a place; None if it is another broker's; itself if it is gone."""
        topic = self._topics.find(place.name)
        if topic is None or topic.descriptor.topic_id != place.topic_id:
            name = coordinator_name(transactional_id)
            is_gone = self._cluster.may_coordinate(name) and await self._rows.is_deleted(place)
            return place if is_gone else None
        return await self._open_lane(topic, place)

    async def _open_lane(self, topic: Topic, place: RegisteredPartition) -> tuple[Log, int] | None:
        try:
            folder, _ = topic.place(place.partition)
        except UnknownTopic:
            return None
        if not self._cluster.may_open(folder):
            return None
        log, lane = await self._logs.open(topic, place.partition)
        return log, lane.number

    # -- done --------------------------------------------------------------------------------

    async def _finish(self, stored: StoredTransaction, row: Transaction) -> None:
        """Rule T6: all have their marker. Rule T15: the offsets are there when it is done."""
        writes, committed = await self._offsets(stored.transactional_id, row)
        await self._rows.finish(stored, machine.finish(row, self._clock.now_ms()), writes)
        self._ended(stored.transactional_id, stored.version)
        for group_id, one in committed:
            self._events.offset_committed(group_id, one.topic, one.partition, one.value.offset)

    async def _offsets(
        self, transactional_id: str, row: Transaction
    ) -> tuple[Sequence[Put | Remove], Sequence[tuple[str, keys.PendingOffset]]]:
        """The writes that commit a transaction's offsets; those of an aborted one are removed."""
        puts: dict[str, Put | Remove] = {}
        removes: list[Put | Remove] = []
        committed = []
        for group_id in row.groups:
            pending = await self._rows.pending(group_id, transactional_id)
            if pending is None:
                continue
            removes.append(Remove(keys.pending_offsets(group_id, transactional_id)))
            if row.state is TransactionState.COMMITTING and pending.turn == row.turn:
                for one in pending.offsets:
                    key = keys.group_offset(group_id, one.topic, one.partition)
                    puts[key] = Put(key, keys.encode(one.value))
                    committed.append((group_id, one))
        return [*puts.values(), *removes], committed


def _append_markers(
    log: Log, row: Transaction, wanted: Sequence[tuple[RegisteredPartition, int]]
) -> list[tuple[RegisteredPartition, asyncio.Future[CommitOutcome] | None]]:
    """The markers of all lanes of a log go into one flush, as far as it has room."""
    waits = []
    for place, number in wanted:
        try:
            committed = transaction_ends.end_transaction(
                log,
                number,
                row.producer_id,
                row.marker_epoch,
                row.turn,
                committed=row.is_commit,
            )
        except KafscaleError as problem:
            logger.debug("marker_postponed", place=place, error=str(problem))
            continue
        waits.append((place, committed))
    return waits


def _id_of(key: str) -> str:
    return keys.text_of(key.removeprefix(keys.ENDINGS))
