"""The rules B1 to B6 of docs/internals/transactions.md: together they hold, each one is needed.

What is searched: every interleaving of the steps in buffered_steps.py within the bounds named here,
without any bound on delays and repetitions. Every state is also left to the brokers alone, which
must end everything. Not modelled: clients without an epoch for each transaction, several ids,
moves. Evidence within bounds, not proof.
"""

from dataclasses import fields

import pytest

from tests.model import buffered_steps
from tests.model.buffered_state import Bounds, Rules
from tests.model.search import Result

RULES = Rules()
ONE_LOG = Bounds(openings=2, gives_up=False)
TWO_LOGS = Bounds(one_log=False, gives_up=False)
SAFE = {
    "one log": Bounds(openings=2),
    "one log, a timeout": Bounds(openings=2, crashes=0, timeouts=1),
    "one log, the store is lost": Bounds(openings=2, losses=1, gives_up=False),
    "two logs": TWO_LOGS,
    "two logs, the store is lost": Bounds(one_log=False, crashes=0, losses=1, gives_up=False),
}
SAFE_BUT_LARGE = {
    "one log, a crash and a timeout": Bounds(timeouts=1),
    "one log, three openings, the store is lost": Bounds(losses=1),
    "one log, two transactions": Bounds(transactions=2, crashes=0, openings=2),
    "two logs, a crash": Bounds(one_log=False),
    "one log, two transactions, a crash": Bounds(transactions=2, timeouts=1),
    "two logs, a crash and a timeout": Bounds(one_log=False, timeouts=1, openings=4),
    "two logs, two transactions": Bounds(
        transactions=2, one_log=False, crashes=0, openings=4, gives_up=False
    ),
}
MISSING = {
    "staged_first": ONE_LOG,
    "same_session": ONE_LOG,
    "one_object": ONE_LOG,
    "chain_decides": Bounds(openings=2, crashes=0, timeouts=1, gives_up=False),
    "first_marker_counts": Bounds(openings=2, crashes=0, gives_up=False),
    "all_kept": TWO_LOGS,
    "kept_in_bucket": TWO_LOGS,
}


def _finds_nothing(found: Result) -> None:
    print(found)
    assert not found.violation, str(found)
    assert found.exhausted
    assert found.states > 500, "the bounds leave nothing to search"


@pytest.mark.parametrize("name", SAFE)
def test_buffered_transactions_by_all_rules_break_no_promise(name: str) -> None:
    _finds_nothing(buffered_steps.search(RULES, SAFE[name]))


@pytest.mark.deep
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("name", SAFE_BUT_LARGE)
def test_buffered_transactions_break_no_promise_in_larger_bounds(name: str) -> None:
    _finds_nothing(buffered_steps.search(RULES, SAFE_BUT_LARGE[name]))


@pytest.mark.parametrize("name", MISSING)
def test_without_a_rule_a_promise_is_broken(name: str) -> None:
    found = buffered_steps.search(RULES.without(name), MISSING[name])
    print(found)
    assert found.violation, str(found)


def test_every_rule_is_tried() -> None:
    assert set(MISSING) == {row.name for row in fields(RULES)}
