"""The rules of docs/internals/transactions.md: together they hold, and each one is needed.

What is searched: every interleaving of the steps in transaction_steps.py and transaction_lane.py
within the bounds named here, without any bound on delays and repetitions. One transactional id, 2
lanes, 2 brokers that both take themselves for the owner of both; every state is also left to the
brokers alone, which must end everything. Not modelled: several ids, moves, changes of the producer
id, clocks. Evidence within bounds, not proof.

T9 closes by itself what T3, T5 and T14 close, so those are switched off together with it.
"""

from dataclasses import fields

import pytest

from tests.model import transaction_lane as lane
from tests.model import transaction_state as state
from tests.model import transaction_steps as steps
from tests.model.search import Result
from tests.model.transaction_state import Bounds

RULES = state.Rules()
ONE_LANE = ((0,), (0,), (0,))
SHORT = Bounds()
TIMEOUT = Bounds(timeouts=1)
TWO = Bounds(transactions=2)
LOSS = Bounds(losses=1)
SECOND = Bounds(second_instance=True)
REMEMBERED = Bounds(transactions=2, remembers=True)
OLD_CLIENT = Bounds(
    transactions=2, raises_epoch=False, late_end=False, turns=3, timeouts=1, lanes_of=ONE_LANE
)
SAFE = {
    "a crash and a timeout": Bounds(crashes=1, timeouts=1),
    "two transactions": TWO,
    "the store is lost": Bounds(transactions=2, losses=1),
    "decisions that are remembered": Bounds(transactions=2, remembers=True, gives_up=False),
    "an older client": OLD_CLIENT,
    "an older client, two lanes": Bounds(raises_epoch=False, late_end=False, turns=2),
}
SAFE_BUT_LARGE = {
    "two transactions, a crash, a timeout": Bounds(transactions=2, crashes=1, timeouts=1),
    "a second instance": SECOND,
    "a second instance, a crash": Bounds(second_instance=True, crashes=1),
    "remembered decisions, a timeout": Bounds(transactions=2, remembers=True, timeouts=1),
    "an older client, two lanes, a timeout": Bounds(
        raises_epoch=False, late_end=False, turns=3, timeouts=1
    ),
}

# Which rules are off, and where that is found. Which promise is broken first may depend on the
# order of steps, which is not the same in every run.
MISSING: dict[tuple[str, ...], Bounds] = {
    ("row_compared",): TIMEOUT,
    ("registered_first",): SHORT,
    ("registration_forgotten", "older_one_first"): OLD_CLIENT,
    ("decision_read",): TIMEOUT,
    ("every_lane_marked", "older_one_first"): TWO,
    ("done_when_all_marked",): SHORT,
    ("unclaimed_aborted", "registered_first"): SHORT,
    ("turns_rise",): Bounds(transactions=2, remembers=True, gives_up=False),
    ("instance_waits", "older_one_first"): SECOND,
    ("offsets_before_done",): SHORT,
    ("acknowledged_when_done",): LOSS,
    ("markers_believed",): LOSS,
    ("all_fenced",): Bounds(transactions=2, losses=1),
}
LARGE_MISSING: dict[tuple[str, ...], Bounds] = {
    ("judged_one_ended", "every_lane_marked"): REMEMBERED
}
ENOUGH = {
    "registration_forgotten": OLD_CLIENT,
    "every_lane_marked": REMEMBERED,
    "instance_waits": SECOND,
    "older_one_first": SECOND,
}

LANE_RULES = lane.Rules()
LANE_MISSING = {
    "committed_chain_only": lane.UNSTABLE,
    "handed_on": lane.ABORTED_READ,
    "ranges_before_data": lane.ABORTED_READ,
    "jobs_stay_below": lane.SHADOWED,
    "aborted_shadow_nothing": lane.SHADOWED,
    "never_again": lane.BEHIND,
}


def _finds_nothing(found: Result) -> None:
    print(found)
    assert not found.violation, str(found)
    assert found.exhausted
    assert found.states > 500, "the bounds leave nothing to search"


@pytest.mark.parametrize("name", SAFE)
def test_transactions_by_all_rules_break_no_promise(name: str) -> None:
    _finds_nothing(steps.search(RULES, SAFE[name]))


@pytest.mark.deep
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("name", SAFE_BUT_LARGE)
def test_transactions_by_all_rules_break_no_promise_in_larger_bounds(name: str) -> None:
    _finds_nothing(steps.search(RULES, SAFE_BUT_LARGE[name]))


@pytest.mark.parametrize("names", MISSING, ids=" and ".join)
def test_without_a_rule_a_promise_is_broken(names: tuple[str, ...]) -> None:
    found = steps.search(RULES.without(*names), MISSING[names])
    print(found)
    assert found.violation, str(found)


@pytest.mark.deep
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("names", LARGE_MISSING, ids=" and ".join)
def test_without_a_rule_a_promise_is_broken_in_larger_bounds(names: tuple[str, ...]) -> None:
    found = steps.search(RULES.without(*names), LARGE_MISSING[names])
    print(found)
    assert found.violation, str(found)


@pytest.mark.deep
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("name", ENOUGH)
def test_without_one_of_these_rules_the_others_are_enough(name: str) -> None:
    _finds_nothing(steps.search(RULES.without(name), ENOUGH[name]))


def test_an_end_of_an_older_client_that_comes_late_ends_its_next_transaction() -> None:
    """What a client without an epoch for each transaction cannot rule out, as in Apache Kafka."""
    late = Bounds(transactions=2, raises_epoch=False, turns=3, lanes_of=ONE_LANE)
    found = steps.search(RULES, late)
    assert found.violation == state.ABORTED_READ, str(found)


def test_a_lane_by_all_rules_breaks_no_promise() -> None:
    _finds_nothing(lane.search(LANE_RULES, lane.Bounds()))


@pytest.mark.parametrize("name", LANE_MISSING)
def test_without_a_rule_of_the_lane_a_promise_is_broken(name: str) -> None:
    found = lane.search(LANE_RULES.without(name), lane.Bounds())
    print(found)
    assert found.violation == LANE_MISSING[name], str(found)


def test_every_rule_is_tried() -> None:
    tried = {name for names in (*MISSING, *LARGE_MISSING) for name in names}
    assert tried == {row.name for row in fields(RULES)}
    assert set(LANE_MISSING) == {row.name for row in fields(LANE_RULES)}
