"""The judge of transactions, judged: each planted story is named, and an honest one is not."""

from collections.abc import Callable

import pytest

from tests.faults.history import FAILED, OK, UNKNOWN
from tests.faults.transaction_checker import (
    ABORT,
    COMMIT,
    MarkerFound,
    Read,
    Stable,
    Transaction,
    TransactionHistory,
    check_transactions,
)


def story() -> TransactionHistory:
    """Four transactions over two partitions: committed, aborted, unknown, left open."""
    told = TransactionHistory()
    for number, (wanted, outcome) in enumerate(
        [(COMMIT, OK), (ABORT, OK), (COMMIT, UNKNOWN), ("", UNKNOWN)], 1
    ):
        values = [(partition, f"t {number} {partition}") for partition in (0, 1)]
        sent = [value for _, value in values]
        told.transactions.append(
            Transaction("t", number, wanted, outcome, values, sent, -1.0, number, number)
        )
        for partition, value in values:
            at = 2 * (number - 1)
            is_commit = wanted == COMMIT
            if is_commit:
                told.committed.append((partition, at, value))
                told.reads.append(Read("r", partition, at, value, at + 2))
            told.markers.append(MarkerFound(partition, at + 1, 7, number, is_commit))
            told.stable.append(Stable("b", partition, at + 2, number, number + 0.5))
    told.offsets["t"] = 3
    return told


def kinds(told: TransactionHistory) -> set[str]:
    return {finding.kind for finding in check_transactions(told)}


def test_an_honest_story_is_believed() -> None:
    assert kinds(story()) == set()


def show(told: TransactionHistory, number: int) -> None:
    """Make a transaction visible that is not."""
    for partition in (0, 1):
        told.committed.append((partition, 2 * (number - 1), f"t {number} {partition}"))


def shows_an_aborted_one(told: TransactionHistory) -> None:
    show(told, 2)


def shows_what_was_left_open(told: TransactionHistory) -> None:
    show(told, 4)


def shows_what_was_refused(told: TransactionHistory) -> None:
    told.transactions[2].outcome = FAILED


def tears(told: TransactionHistory) -> None:
    told.committed.remove((1, 4, "t 3 1"))
    told.reads = [one for one in told.reads if one.value != "t 3 1"]


def loses(told: TransactionHistory) -> None:
    told.committed = [row for row in told.committed if not row[2].startswith("t 1")]
    told.reads = [one for one in told.reads if not one.value.startswith("t 1")]


def repeats(told: TransactionHistory) -> None:
    told.committed.append((0, 9, "t 1 0"))


def shows_beyond_the_end(told: TransactionHistory) -> None:
    told.reads[0] = Read("r", 0, 0, "t 1 0", 0)


def takes_back(told: TransactionHistory) -> None:
    told.reads.append(Read("r", 0, 7, "gone", 9))


def goes_back(told: TransactionHistory) -> None:
    told.stable.append(Stable("b", 0, 1, 9.0, 9.5))


def forgets_the_offset(told: TransactionHistory) -> None:
    told.offsets["t"] = 1


def obeys_a_zombie(told: TransactionHistory) -> None:
    told.transactions[2].fenced_s = 2.5


def stays_open(told: TransactionHistory) -> None:
    told.hanging.append("transfers-0")


def ends_both_ways(told: TransactionHistory) -> None:
    told.markers[0] = MarkerFound(0, 1, 7, 1, False)


def ends_it_again(told: TransactionHistory) -> None:
    told.markers.append(MarkerFound(0, 9, 7, 4, False))


PLANTED: dict[Callable[[TransactionHistory], None], set[str]] = {
    shows_an_aborted_one: {"aborted read"},
    shows_what_was_left_open: {"aborted read", "offsets"},
    shows_what_was_refused: {"aborted read"},
    tears: {"torn", "offsets"},
    loses: {"lost commit"},
    repeats: {"duplicate"},
    shows_beyond_the_end: {"unstable"},
    takes_back: {"unstable"},
    goes_back: {"unstable"},
    forgets_the_offset: {"offsets"},
    obeys_a_zombie: {"zombie"},
    stays_open: {"hanging"},
    ends_both_ways: {"markers"},
    ends_it_again: {"markers"},
}


@pytest.mark.parametrize("plant", PLANTED, ids=lambda plant: plant.__name__)
def test_a_planted_story_is_found(plant: Callable[[TransactionHistory], None]) -> None:
    told = story()
    plant(told)
    assert kinds(told) == PLANTED[plant]
