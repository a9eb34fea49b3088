"""What a client asks of a transactional id: every question is a row that is judged and written.

Here: the loop of reading the row, asking the machine, and writing by comparison; waiting until a
decided transaction is done; timeouts. Any broker may do all of this: rule T1 makes it safe.
Next door: the rules (kafscale/transactions/machine.py), the store (rows.py), how a transaction
ends in the logs (endings.py).
"""

import asyncio
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from typing import Final

import structlog

from kafscale.engine.partitions.producer_ids import ProducerIds
from kafscale.engine.transactions.endings import Endings
from kafscale.engine.transactions.registered import Registered
from kafscale.engine.transactions.rows import (
    LogSession,
    RegisteredPartition,
    StoredTransaction,
    TransactionRows,
)
from kafscale.metadata import keys
from kafscale.metadata.keys import PendingOffset, PendingOffsets
from kafscale.metadata.store import Compare, Put
from kafscale.model.clock import Clock
from kafscale.model.errors import (
    InvalidRequest,
    InvalidTransactionState,
    InvalidTransactionTimeout,
    KafscaleError,
    MetadataConflict,
    TransactionAbortable,
    TransactionPending,
)
from kafscale.tasks import Tasks
from kafscale.transactions import machine
from kafscale.transactions.machine import NEW, Outcome, Producer
from kafscale.transactions.rows import Transaction, TransactionState

logger = structlog.get_logger()

LONGEST_ID: Final = 1000
_MOST_PLACES: Final = 100_000
_ATTEMPTS: Final = 30
_NO_ID: Final = -1


@dataclass(frozen=True, slots=True)
class TransactionLimits:
    """What the configuration says."""

    longest_timeout_ms: int = 900_000
    id_expiration_ms: int = 604_800_000
    init_wait_s: float = 5.0
    end_wait_s: float = 10.0
    look_interval_s: float = 1.0
    sweep_interval_s: float = 30.0


class Coordinator:
    """The transactional ids that clients ask this broker about."""

    def __init__(
        self,
        rows: TransactionRows,
        endings: Endings,
        producer_ids: ProducerIds,
        limits: TransactionLimits,
        clock: Clock,
        tasks: Tasks,
        on_decided: Callable[[str], None] = lambda _: None,
    ) -> None:
        """`on_decided` hears "commit", "abort" or "timeout"."""
        self._rows = rows
        self._endings = endings
        self._producer_ids = producer_ids
        self._limits = limits
        self._clock = clock
        self._tasks = tasks
        self._on_decided = on_decided
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self._registered = Registered()

    # -- a new instance ----------------------------------------------------------------------

    async def begin_instance(
        self, transactional_id: str, asks: Producer, timeout_ms: int
    ) -> Producer:
        """Give a producer its id and epoch, after its last transaction is done (rule T14)."""
        check_id(transactional_id)
        if not 0 < timeout_ms <= self._limits.longest_timeout_ms:
            raise InvalidTransactionTimeout(
                f"{timeout_ms} ms are not between 1 and {self._limits.longest_timeout_ms}"
            )
        if (asks.producer_id < 0) != (asks.epoch < 0):
            raise InvalidRequest("a producer id and its epoch come together")
        asks = NEW if asks.producer_id < 0 else asks
        until_s = self._clock.elapsed_s() + self._limits.init_wait_s
        for _ in range(_ATTEMPTS):
            stored = await self._rows.load(transactional_id)
            outcome = machine.begin_instance(
                stored.row, asks, timeout_ms, self._clock.now_ms(), await self._fresh(stored.row)
            )
            try:
                if outcome.waits:
                    if outcome.row is not None:
                        await self._decide(stored, outcome.row, "abort")
                        if asks != NEW:
                            asks = Producer(outcome.row.producer_id, outcome.row.epoch)
                    await self._endings.wait(transactional_id, until_s - self._clock.elapsed_s())
                    continue
                row = outcome.row or stored.row
                assert row is not None
                await self._rows.write(stored, row)
            except MetadataConflict:
                continue
            return Producer(row.producer_id, row.epoch)
        raise TransactionPending("the transactional id changes all the time")

    async def _fresh(self, row: Transaction | None) -> int:
        return await self._producer_ids.fresh() if machine.needs_new_id(row) else _NO_ID

    # -- during a transaction ----------------------------------------------------------------

    async def register(
        self,
        transactional_id: str,
        asks: Producer,
        places: Collection[RegisteredPartition],
        sessions: Collection[LogSession] = (),
    ) -> None:
        """Note that a transaction writes to these places, which begins it if need be (rule T2).

        `sessions` may hold its records in memory from then on (rule B2).
        """
        if await self._has_all(transactional_id, asks, places, sessions):
            return
        for _ in range(_ATTEMPTS):
            stored = await self._rows.load(transactional_id)
            row = machine.go_on(stored.row, asks, self._clock.now_ms())
            known = stored.places if row is stored.row else frozenset()
            missing = [place for place in places if place not in known]
            if len(known) + len(missing) > _MOST_PLACES:
                raise InvalidRequest(f"a transaction has at most {_MOST_PLACES} partitions")
            held = _new_sessions(stored if row is stored.row else None, sessions)
            try:
                if missing or held or row is not stored.row:
                    await self._rows.write(stored, row, missing, sessions=held)
            except MetadataConflict:
                continue
            earlier = stored.sessions if row is stored.row else frozenset()
            self._registered.learn(transactional_id, row, known.union(missing), earlier.union(held))
            self._watch(transactional_id, row)
            return
        raise TransactionPending("the transactional id changes all the time")

    async def verify(
        self,
        transactional_id: str,
        asks: Producer,
        places: Collection[RegisteredPartition],
        sessions: Collection[LogSession] = (),
    ) -> list[RegisteredPartition]:
        """Those of the places that are registered with the producer's ongoing transaction.

        `sessions` may hold its records in memory from then on (rule B2).
        """
        if await self._has_all(transactional_id, asks, places, sessions):
            return list(places)
        for _ in range(_ATTEMPTS):
            stored = await self._rows.load(transactional_id)
            row = machine.go_on(stored.row, asks, self._clock.now_ms())
            if row is not stored.row:
                return []
            try:
                if held := _new_sessions(stored, sessions):
                    await self._rows.write(stored, row, sessions=held)
            except MetadataConflict:
                continue
            kept = stored.sessions.union(held)
            self._registered.learn(transactional_id, row, stored.places, kept)
            return [place for place in places if place in stored.places]
        raise TransactionPending("the transactional id changes all the time")

    async def _has_all(
        self,
        transactional_id: str,
        asks: Producer,
        places: Collection[RegisteredPartition],
        sessions: Collection[LogSession],
    ) -> bool:
        """Whether the ongoing transaction has all of this, by the row and what is known of it."""
        known = self._registered.covering(transactional_id, places, sessions)
        if known is None:
            return False
        row = machine.check_producer(await self._rows.row(transactional_id), asks)
        return known.is_about(row)

    async def register_group(self, transactional_id: str, asks: Producer, group_id: str) -> None:
        """Note that a transaction commits offsets of a group."""
        await self._add_to_group(transactional_id, asks, group_id, [], None, registers=True)

    async def add_offsets(
        self,
        transactional_id: str,
        asks: Producer,
        group_id: str,
        offsets: Collection[PendingOffset],
        claim: Compare,
        *,
        registers: bool,
    ) -> None:
        """Keep offsets that are committed if the transaction is. `claim`: the group's guard.

        Raises InvalidTransactionState if the group is not registered, unless this `registers` it.
        """
        await self._add_to_group(
            transactional_id, asks, group_id, offsets, claim, registers=registers
        )

    async def _add_to_group(
        self,
        transactional_id: str,
        asks: Producer,
        group_id: str,
        offsets: Collection[PendingOffset],
        claim: Compare | None,
        *,
        registers: bool,
    ) -> None:
        for _ in range(_ATTEMPTS):
            stored = await self._rows.load(transactional_id)
            row = machine.go_on(stored.row, asks, self._clock.now_ms())
            if group_id not in row.groups and not registers:
                raise InvalidTransactionState(f"group {group_id!r} is not part of the transaction")
            row = machine.with_group(row, group_id)
            more = []
            if claim is not None:
                earlier = await self._rows.pending(group_id, transactional_id)
                more = [_pending(transactional_id, group_id, row.turn, earlier, offsets)]
            try:
                if more or row is not stored.row:
                    guards = () if claim is None else (claim,)
                    await self._rows.write(stored, row, (), more, guards)
            except MetadataConflict:
                continue
            self._watch(transactional_id, row)
            return
        raise TransactionPending("the transactional id, or the group, changes all the time")

    # -- the end -----------------------------------------------------------------------------

    async def end(
        self, transactional_id: str, asks: Producer, *, commits: bool, raises_epoch: bool
    ) -> Producer:
        """Decide, and wait until every partition has its marker; gives the producer's identity.

        Raises TransactionPending if that takes long: the client asks again.
        """
        until_s = self._clock.elapsed_s() + self._limits.end_wait_s
        for _ in range(_ATTEMPTS):
            stored = await self._rows.load(transactional_id)
            outcome = machine.end(
                stored.row,
                asks,
                self._clock.now_ms(),
                await self._fresh(stored.row),
                commits=commits,
                raises_epoch=raises_epoch,
            )
            is_staged = commits and outcome.waits and self._is_staged(stored, outcome)
            try:
                if outcome.row is not None and outcome.waits:
                    decided = outcome.row
                    if is_staged:
                        decided = machine.stage(decided, self._endings.log_of_all(stored))
                    await self._decide(stored, decided, "commit" if commits else "abort")
                elif outcome.row is not None:
                    await self._rows.write(stored, outcome.row)
            except MetadataConflict:
                continue
            if outcome.waits:
                await self._endings.wait(transactional_id, until_s - self._clock.elapsed_s())
            if is_staged:
                continue  # the logs have decided: look how
            row = outcome.row or stored.row
            assert row is not None
            if outcome.waits:
                row = machine.finish(row, row.updated_ms)
            return Producer(row.producer_id, row.epoch)
        raise TransactionPending("the transactional id changes all the time")

    @staticmethod
    def _is_staged(stored: StoredTransaction, outcome: Outcome) -> bool:
        """Rule B1: a commit is not decided while records of it may be in memory alone."""
        if outcome.row is not None:
            return bool(stored.sessions)
        return stored.row is not None and stored.row.state is TransactionState.STAGED

    async def _decide(self, stored: StoredTransaction, row: Transaction, why: str) -> None:
        version = await self._rows.decide(stored, row)
        self._registered.forget(stored.transactional_id)
        timer = self._timers.pop(stored.transactional_id, None)
        if timer is not None:
            timer.cancel()
        self._endings.begin(stored.transactional_id, version)
        self._on_decided(why)

    # -- time --------------------------------------------------------------------------------

    def _watch(self, transactional_id: str, row: Transaction) -> None:
        """Abort the transaction when its time is over, if this broker lives to see that."""
        if transactional_id in self._timers:
            return
        delay_s = max(0.0, (row.deadline_ms - self._clock.now_ms()) / 1000)
        self._timers[transactional_id] = asyncio.get_running_loop().call_later(
            delay_s, self._on_time, transactional_id
        )

    def _on_time(self, transactional_id: str) -> None:
        self._timers.pop(transactional_id, None)
        self._tasks.spawn(self._time_out(transactional_id), f"timeout of {transactional_id}")

    async def _time_out(self, transactional_id: str) -> None:
        try:
            await self.abort_if_late(transactional_id)
        except KafscaleError as problem:  # the sweep of the broker that coordinates it comes again
            logger.warning("timeout_postponed", id=transactional_id, error=str(problem))

    async def abort_if_late(self, transactional_id: str) -> None:
        """Abort a transaction that has taken longer than its producer allowed."""
        for _ in range(_ATTEMPTS):
            stored = await self._rows.load(transactional_id)
            if stored.row is None or stored.row.state is not TransactionState.ONGOING:
                return
            now_ms = self._clock.now_ms()
            decided = machine.time_out(stored.row, now_ms, await self._fresh(stored.row))
            if decided is None:
                self._watch(transactional_id, stored.row)
                return
            try:
                await self._decide(stored, decided, "timeout")
            except MetadataConflict:
                continue
            logger.info("transaction_timed_out", id=transactional_id)
            return

    async def sweep(self, coordinates: Callable[[str], bool]) -> None:
        """Visit all ids that this broker coordinates: late transactions, and expired ids."""
        after = ""
        while entries := await self._rows.page(after):
            after = entries[-1].key
            for entry in entries:
                transactional_id = keys.transaction_named_by(entry.key)
                if transactional_id is not None and coordinates(transactional_id):
                    row = keys.decode(Transaction, entry.value)
                    await self._visit(transactional_id, row)
            await asyncio.sleep(0)

    async def _visit(self, transactional_id: str, row: Transaction) -> None:
        now_ms = self._clock.now_ms()
        if row.state is TransactionState.ONGOING:
            if now_ms >= row.deadline_ms:
                await self.abort_if_late(transactional_id)
        elif machine.is_expired(row, now_ms - self._limits.id_expiration_ms):
            stored = await self._rows.load(transactional_id)
            if stored.row == row:
                try:
                    await self._rows.remove(stored)
                    logger.info("transactional_id_expired", id=transactional_id)
                except MetadataConflict:
                    pass  # it is in use again


def check_id(transactional_id: str) -> None:
    """Raise InvalidRequest if this cannot be a transactional id."""
    if not 0 < len(transactional_id) <= LONGEST_ID:
        raise InvalidRequest(f"a transactional id has 1 to {LONGEST_ID} characters")


def _new_sessions(
    stored: StoredTransaction | None, sessions: Collection[LogSession]
) -> list[LogSession]:
    """The sessions that a transaction does not name yet.

    Raises TransactionAbortable if it names another one of the same log: what that held is lost.
    """
    known = stored.sessions if stored is not None else frozenset()
    tokens = {session.folder: session.token for session in known}
    for session in sessions:
        if tokens.get(session.folder, session.token) != session.token:
            raise TransactionAbortable(machine.LOST)
    return [session for session in sessions if session not in known]


def _pending(
    transactional_id: str,
    group_id: str,
    turn: int,
    earlier: PendingOffsets | None,
    offsets: Iterable[PendingOffset],
) -> Put:
    """What a transaction has to commit for a group; later offsets replace earlier ones."""
    kept = earlier.offsets if earlier is not None and earlier.turn == turn else []
    merged = {(one.topic, one.partition): one for one in (*kept, *offsets)}
    value = PendingOffsets(turn=turn, offsets=list(merged.values()))
    return Put(keys.pending_offsets(group_id, transactional_id), keys.encode(value))
