"""The table of answers, row by row."""

from typing import Any

import pytest
from msgspec.structs import replace

from kafscale.model.errors import (
    InvalidProducerMapping,
    InvalidTransactionState,
    ProducerFenced,
    TransactionAbortable,
    TransactionPending,
)
from kafscale.transactions import machine
from kafscale.transactions.machine import NEW, Outcome, Producer
from kafscale.transactions.rows import LAST_EPOCH, Transaction, TransactionState

NOW = 1_000_000
FRESH = 99
S = TransactionState


def row(state: TransactionState, **facts: Any) -> Transaction:
    known: dict[str, Any] = {
        "producer_id": 7,
        "epoch": 3,
        "timeout_ms": 60_000,
        "turn": 5,
        "started_ms": NOW,
        "updated_ms": NOW,
    }
    return Transaction(state=state, **(known | facts))


def begin(known: Transaction | None, asks: Producer = NEW) -> Outcome:
    return machine.begin_instance(known, asks, 60_000, NOW, FRESH)


def end(known: Transaction | None, epoch: int, *, commits: bool, tv2: bool) -> Outcome:
    asks = Producer(7, epoch)
    return machine.end(known, asks, NOW, FRESH, commits=commits, raises_epoch=tv2)


# -- a new instance --------------------------------------------------------------------------------


def test_the_first_instance_gets_a_fresh_id_and_epoch_0() -> None:
    made = begin(None).row
    assert made is not None
    assert (made.producer_id, made.epoch, made.state) == (FRESH, 0, S.EMPTY)


@pytest.mark.parametrize("state", [S.EMPTY, S.COMMITTED, S.ABORTED])
def test_a_further_instance_gets_the_next_epoch(state: TransactionState) -> None:
    made = begin(row(state)).row
    assert made is not None
    assert (made.producer_id, made.epoch, made.last_epoch) == (7, 4, -1)


def test_a_producer_that_names_its_epoch_gets_the_next_and_the_same_again() -> None:
    made = begin(row(S.COMMITTED), Producer(7, 3)).row
    assert made is not None
    assert (made.epoch, made.last_epoch) == (4, 3)
    assert begin(made, Producer(7, 3)) == Outcome(None)


@pytest.mark.parametrize("asks", [Producer(7, 2), Producer(7, 4), Producer(8, 3)])
@pytest.mark.parametrize("state", list(S))
def test_another_epoch_is_fenced(state: TransactionState, asks: Producer) -> None:
    with pytest.raises(ProducerFenced):
        begin(row(state), asks)


@pytest.mark.parametrize("asks", [NEW, Producer(7, 3)])
def test_an_ongoing_transaction_is_aborted_first(asks: Producer) -> None:
    made, waits = begin(row(S.ONGOING), asks)
    assert made is not None
    assert waits
    assert (made.state, made.epoch, made.ended_epoch, made.marker_epoch) == (S.ABORTING, 4, 3, 4)


@pytest.mark.parametrize("state", [S.COMMITTING, S.ABORTING])
def test_a_decided_transaction_is_waited_for(state: TransactionState) -> None:
    assert begin(row(state)) == Outcome(None, waits=True)


def test_used_up_epochs_give_another_producer_id() -> None:
    made = begin(row(S.COMMITTED, epoch=LAST_EPOCH)).row
    assert made is not None
    assert (made.producer_id, made.epoch, made.previous_id) == (FRESH, 0, 7)
    assert begin(made, Producer(7, LAST_EPOCH)) == Outcome(None)


# -- during a transaction --------------------------------------------------------------------------


@pytest.mark.parametrize("state", [S.EMPTY, S.COMMITTED, S.ABORTED])
def test_a_transaction_begins_with_the_first_partition(state: TransactionState) -> None:
    made = machine.go_on(row(state, started_ms=-1, groups=["old"]), Producer(7, 3), NOW)
    assert (made.state, made.turn, made.started_ms, made.groups) == (S.ONGOING, 6, NOW, [])


def test_an_ongoing_transaction_goes_on_unchanged() -> None:
    known = row(S.ONGOING)
    assert machine.go_on(known, Producer(7, 3), NOW) is known
    assert machine.with_group(known, "g").groups == ["g"]


@pytest.mark.parametrize("state", [S.STAGED, S.COMMITTING, S.ABORTING])
def test_nothing_is_added_to_a_decided_transaction(state: TransactionState) -> None:
    with pytest.raises(TransactionPending):
        machine.go_on(row(state), Producer(7, 3), NOW)


def test_another_producer_is_refused() -> None:
    for asks, error in ((Producer(8, 3), InvalidProducerMapping), (Producer(7, 2), ProducerFenced)):
        with pytest.raises(error):
            machine.go_on(row(S.ONGOING), asks, NOW)
    with pytest.raises(InvalidProducerMapping):
        machine.go_on(None, Producer(7, 3), NOW)


# -- the end ---------------------------------------------------------------------------------------

WAIT, DONE, DECIDE, NEXT = "wait", "done", "decide", "next"
F, X = ProducerFenced, InvalidTransactionState
TABLE = {  # state: TV1 commit, abort; TV2 commit, abort; TV2 again: commit, abort
    S.EMPTY: (X, X, X, NEXT, F, F),
    S.ONGOING: (DECIDE, DECIDE, DECIDE, DECIDE, F, F),
    S.STAGED: (WAIT, X, F, F, WAIT, X),
    S.COMMITTING: (WAIT, X, F, F, WAIT, X),
    S.ABORTING: (X, WAIT, F, F, X, WAIT),
    S.COMMITTED: (DONE, X, X, NEXT, DONE, X),
    S.ABORTED: (X, DONE, X, NEXT, X, DONE),
}


@pytest.mark.parametrize("column", range(6))
@pytest.mark.parametrize("state", list(S))
def test_the_table_of_ends(state: TransactionState, column: int) -> None:
    expected = TABLE[state][column]
    commits, tv2, again = column % 2 == 0, column >= 2, column >= 4
    known, epoch = row(state), 2 if again else 3
    if isinstance(expected, type):
        with pytest.raises(expected):
            end(known, epoch, commits=commits, tv2=tv2)
        return
    made, waits = end(known, epoch, commits=commits, tv2=tv2)
    if expected == DECIDE:
        assert made is not None
        assert waits
        assert made.state is (S.COMMITTING if commits else S.ABORTING)
        assert made.epoch == made.marker_epoch == (4 if tv2 else 3)
        assert made.ended_epoch == 3
    elif expected == NEXT:
        assert made is not None
        assert not waits
        assert (made.epoch, made.state) == (4, S.ABORTED)
    else:
        assert (made, waits) == (None, expected == WAIT)


def test_the_end_of_an_unknown_transaction_is_refused() -> None:
    with pytest.raises(InvalidProducerMapping):
        end(None, 3, commits=True, tv2=False)
    with pytest.raises(InvalidProducerMapping):
        end(row(S.ONGOING, producer_id=8), 3, commits=True, tv2=True)
    with pytest.raises(ProducerFenced):
        end(row(S.ONGOING), 1, commits=True, tv2=True)


def test_the_logs_decide_about_a_staged_transaction() -> None:
    decided = end(row(S.ONGOING), 3, commits=True, tv2=True).row
    assert decided is not None
    staged = machine.stage(decided, "default/t/0")
    assert (staged.state, staged.state_name, staged.epoch) == (S.STAGED, "PrepareCommit", 4)
    assert machine.time_out(staged, NOW + 99_999_999, FRESH) is None, "rule B4"
    kept = machine.settle(staged, is_kept=True)
    assert (kept.state, kept.is_lost) == (S.COMMITTING, False)
    lost = machine.finish(machine.settle(staged, is_kept=False), NOW)
    assert (lost.state, lost.is_lost) == (S.ABORTED, True)
    with pytest.raises(TransactionAbortable):
        end(lost, 3, commits=True, tv2=True)
    assert end(lost, 3, commits=False, tv2=True) == Outcome(None)
    assert not machine.go_on(lost, Producer(7, 4), NOW).is_lost


def test_a_transaction_that_takes_too_long_is_aborted_and_its_producer_fenced() -> None:
    known = row(S.ONGOING)
    assert machine.time_out(known, NOW + 59_999, FRESH) is None
    made = machine.time_out(known, NOW + 60_000, FRESH)
    assert made is not None
    assert (made.state, made.epoch) == (S.ABORTING, 4)
    with pytest.raises(ProducerFenced):
        end(machine.finish(made, NOW), 3, commits=True, tv2=False)
    with pytest.raises(InvalidTransactionState):
        end(machine.finish(made, NOW), 3, commits=True, tv2=True)


def test_the_last_epoch_is_followed_by_another_producer_id() -> None:
    decided = end(row(S.ONGOING, epoch=LAST_EPOCH), LAST_EPOCH, commits=True, tv2=True).row
    assert decided is not None
    assert (decided.producer_id, decided.marker_epoch) == (7, LAST_EPOCH + 1)
    done = machine.finish(decided, NOW)
    assert (done.producer_id, done.epoch, done.previous_id) == (FRESH, 0, 7)
    assert end(done, LAST_EPOCH, commits=True, tv2=True) == Outcome(None, waits=False)


@pytest.mark.parametrize(("state", "ended"), [(S.COMMITTING, S.COMMITTED), (S.ABORTING, S.ABORTED)])
def test_done_keeps_the_outcome(state: TransactionState, ended: TransactionState) -> None:
    assert machine.finish(row(state, groups=["g"]), NOW) == row(ended)


def test_ids_expire_only_at_rest() -> None:
    for state in S:
        known = replace(row(state), updated_ms=10)
        is_at_rest = state in (S.EMPTY, S.COMMITTED, S.ABORTED)
        assert machine.is_expired(known, 11) is is_at_rest
        assert not machine.is_expired(known, 10)
