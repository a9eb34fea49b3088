"""The transitions of a transactional id: a row and an event give the next row, or an error.

Here: every rule about states and epochs, as pure functions. The caller writes the next row by
comparing the version of the row it was judged by (rule T1); nothing else decides.
Next door: the row (rows.py), who calls this (engine/transactions).

An `Outcome` without a row changes nothing. `waits`: the transaction is being ended, and the caller
asks again when it has.
"""

from typing import NamedTuple

from msgspec.structs import replace

from kafscale.model.errors import (
    InvalidProducerMapping,
    InvalidTransactionState,
    ProducerFenced,
    TransactionAbortable,
    TransactionPending,
)
from kafscale.transactions.rows import (
    AT_REST,
    ENDING,
    LAST_EPOCH,
    NO_EPOCH,
    NO_PRODUCER,
    Transaction,
    TransactionState,
)

_State = TransactionState

LOST = "a broker has lost records of the transaction that were only in its memory"


class Producer(NamedTuple):
    """What a client says that it is; (-1, -1): it asks for an identity."""

    producer_id: int
    epoch: int


NEW: Producer = Producer(NO_PRODUCER, NO_EPOCH)


class Outcome(NamedTuple):
    """What follows from an event."""

    row: Transaction | None  # to be written; None: nothing changes
    waits: bool = False


def needs_new_id(row: Transaction | None) -> bool:
    """Whether the next epoch is one of another producer id."""
    return row is None or row.epoch >= LAST_EPOCH


# -- a new instance ------------------------------------------------------------------------------


def begin_instance(
    row: Transaction | None, asks: Producer, timeout_ms: int, now_ms: int, fresh_id: int
) -> Outcome:
    """InitProducerId. `fresh_id` counts where `needs_new_id`.

    Rule T14: a new instance gets its epoch when the transaction of the old one is done.
    """
    if row is None:
        made = Transaction(
            producer_id=fresh_id,
            epoch=0,
            timeout_ms=timeout_ms,
            state=_State.EMPTY,
            updated_ms=now_ms,
        )
        return Outcome(made)
    is_current = asks in (NEW, Producer(row.producer_id, row.epoch))
    if not is_current and not _may_ask_again(row, asks):
        raise ProducerFenced(f"the epoch is {row.epoch}, not {asks.epoch}")
    if row.state in ENDING:
        return Outcome(None, waits=True)
    if row.state is _State.ONGOING:
        if not is_current:
            raise ProducerFenced(f"the epoch is {row.epoch}, not {asks.epoch}")
        return Outcome(_decided(row, _State.ABORTING, now_ms, fresh_id, raises=True), waits=True)
    if not is_current:
        return Outcome(None)  # the answer was lost: it is the same again
    return Outcome(_next_instance(row, asks, timeout_ms, now_ms, fresh_id))


def _next_instance(
    row: Transaction, asks: Producer, timeout_ms: int, now_ms: int, fresh_id: int
) -> Transaction:
    known = replace(row, timeout_ms=timeout_ms, state=_State.EMPTY, updated_ms=now_ms)
    if needs_new_id(row):
        return replace(
            known, producer_id=fresh_id, epoch=0, last_epoch=NO_EPOCH, previous_id=row.producer_id
        )
    last = NO_EPOCH if asks == NEW else row.epoch
    return replace(known, epoch=row.epoch + 1, last_epoch=last)


def _may_ask_again(row: Transaction, asks: Producer) -> bool:
    if asks == (row.producer_id, row.last_epoch):
        return True
    return asks == (row.previous_id, LAST_EPOCH) and row.epoch == 0


# -- during a transaction ------------------------------------------------------------------------


def check_producer(row: Transaction | None, asks: Producer) -> Transaction:
    """The row, if it is this producer's; InvalidProducerMapping or ProducerFenced otherwise."""
    if row is None:
        raise InvalidProducerMapping("there is no such transactional id")
    if row.producer_id != asks.producer_id:
        raise InvalidProducerMapping(
            f"the transactional id has producer {row.producer_id}, not {asks.producer_id}"
        )
    if row.epoch != asks.epoch:
        raise ProducerFenced(f"the epoch is {row.epoch}, not {asks.epoch}")
    return row


def go_on(row: Transaction | None, asks: Producer, now_ms: int) -> Transaction:
    """The row of a transaction that something is added to; it begins here if none is ongoing."""
    row = check_producer(row, asks)
    if row.state in ENDING:
        raise TransactionPending("the last transaction is being ended")
    if row.state is _State.ONGOING:
        return row
    return replace(
        row,
        state=_State.ONGOING,
        turn=row.turn + 1,
        started_ms=now_ms,
        updated_ms=now_ms,
        groups=[],
        last_epoch=NO_EPOCH,
        log="",
        is_lost=False,
    )


def with_group(row: Transaction, group_id: str) -> Transaction:
    """The row of an ongoing transaction that commits offsets of a group."""
    return row if group_id in row.groups else replace(row, groups=[*row.groups, group_id])


# -- the end -------------------------------------------------------------------------------------


def end(
    row: Transaction | None,
    asks: Producer,
    now_ms: int,
    fresh_id: int,
    *,
    commits: bool,
    raises_epoch: bool,
) -> Outcome:
    """EndTxn. `raises_epoch`: the client expects another epoch for its next transaction."""
    if row is None:
        raise InvalidProducerMapping("there is no such transactional id")
    if raises_epoch and _is_next(row, asks):
        return _ended_before(row, commits=commits)
    row = check_producer(row, asks)
    wanted = _State.COMMITTING if commits else _State.ABORTING
    if row.state is _State.ONGOING:
        decided = _decided(row, wanted, now_ms, fresh_id, raises=raises_epoch)
        return Outcome(decided, waits=True)
    if not raises_epoch:
        if row.state is _State.EMPTY:
            raise InvalidTransactionState("no transaction has begun")
        return _ended_before(row, commits=commits)
    if row.state in ENDING:
        raise ProducerFenced("the transaction is being ended by another instance")
    if commits:
        raise InvalidTransactionState("no transaction has begun")
    # A client that is not sure whether its transaction has begun aborts it.
    raised = _next_instance(row, asks, row.timeout_ms, now_ms, fresh_id)
    return Outcome(replace(raised, state=_State.ABORTED))


def _is_next(row: Transaction, asks: Producer) -> bool:
    """Whether the request is about the transaction that ended with the present epoch."""
    if asks == (row.producer_id, row.epoch - 1):
        return True
    return asks == (row.previous_id, LAST_EPOCH) and row.epoch == 0


def _ended_before(row: Transaction, *, commits: bool) -> Outcome:
    """The answer to a request that was sent again."""
    if row.state in (_State.EMPTY, _State.ONGOING):
        raise ProducerFenced(f"the epoch is {row.epoch}")
    if commits and row.is_lost:
        raise TransactionAbortable(LOST)
    if row.is_commit is not commits:
        raise InvalidTransactionState(f"the transaction is {row.state.value}")
    return Outcome(None, waits=row.state in ENDING)


def time_out(row: Transaction, now_ms: int, fresh_id: int) -> Transaction | None:
    """The row of a transaction that has taken too long; None if it has not."""
    if row.state is not _State.ONGOING or now_ms < row.deadline_ms:
        return None
    return _decided(row, _State.ABORTING, now_ms, fresh_id, raises=True)


def _decided(
    row: Transaction, state: TransactionState, now_ms: int, fresh_id: int, *, raises: bool
) -> Transaction:
    """The decision. Markers have the raised epoch: late batches of the old one are refused."""
    epoch = row.epoch + 1 if raises else row.epoch
    rotates = raises and needs_new_id(row)
    return replace(
        row,
        state=state,
        epoch=epoch,
        last_epoch=row.epoch if raises else row.last_epoch,
        next_id=fresh_id if rotates else NO_PRODUCER,
        ended_epoch=row.epoch,
        marker_epoch=epoch,
        updated_ms=now_ms,
    )


def stage(decided: Transaction, log: str) -> Transaction:
    """The row of a commit that counts once the records that brokers hold are kept (rule B1).

    `log`: where all of its partitions lie, if it is one log: its chain decides then.
    """
    return replace(decided, state=_State.STAGED, log=log)


def settle(staged: Transaction, *, is_kept: bool) -> Transaction:
    """The decision about a staged transaction, as the logs have it."""
    state = _State.COMMITTING if is_kept else _State.ABORTING
    return replace(staged, state=state, is_lost=not is_kept)


def finish(row: Transaction, now_ms: int) -> Transaction:
    """Rule T6: every partition has its marker; the next transaction may begin."""
    ended = _State.COMMITTED if row.state is _State.COMMITTING else _State.ABORTED
    done = replace(row, state=ended, updated_ms=now_ms, groups=[])
    if row.next_id == NO_PRODUCER:
        return done
    return replace(
        done,
        producer_id=row.next_id,
        next_id=NO_PRODUCER,
        previous_id=row.producer_id,
        epoch=0,
        last_epoch=NO_EPOCH,
    )


def is_expired(row: Transaction, before_ms: int) -> bool:
    """Whether the id has been at rest since before that time."""
    return row.state in AT_REST and row.updated_ms < before_ms
