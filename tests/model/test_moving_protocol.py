"""The rules of moving in docs/formats/log-protocol.md: together they hold, and each one is needed.

What is searched: every interleaving of the steps in move_old.py and move_new.py within the bounds
named here, without any bound on depth, pauses or retries. At most 2 lanes, 2 brokers that
take themselves for the owner of the old log, 2 for the new one, 3 batches of producers in the old
place. Not modelled: what one
log does by itself (test_log_protocol.py), log starts, lanes that share a log, a deleted topic, the
removal of the old place. Evidence within bounds, not proof.
"""

from dataclasses import fields, replace
from typing import NamedTuple

import pytest

from tests.model import move_search
from tests.model.move_search import search
from tests.model.move_state import Bounds, Rules

RULES = Rules()

STALE_WRITER = Bounds(copiers=1, longest=2, roll_up=False, reader=False)
ROLLED_UP = replace(STALE_WRITER, idempotent=0, roll_up=True, expiry=True)
TWO_COPIERS = Bounds(writers=1, longest=2, roll_up=False, reader=False)
READER = Bounds(writers=1, copiers=1, longest=2, roll_up=False)
NUMBERED = replace(STALE_WRITER, idempotent=2, plain=0)
TWO_LANES = Bounds(
    lanes=2, writers=1, copiers=1, idempotent=0, plain=1, longest=1, roll_up=False, reader=False
)
EARLIER = replace(STALE_WRITER, writers=1, earlier=True)

SAFE = {
    "a stale writer of the old log": STALE_WRITER,
    "the same with roll-up": ROLLED_UP,
    "two who copy": TWO_COPIERS,
    "a reader on its way": READER,
    "a producer that numbers its batches": NUMBERED,
    "two lanes": TWO_LANES,
    "reports of an earlier move": EARLIER,
}
SAFE_BUT_LARGE = {
    "two writers, two copiers": replace(TWO_COPIERS, writers=2, roll_up=True),
    "two copiers, three batches": replace(TWO_COPIERS, longest=3),
    "two copiers, batches that a producer numbers": replace(TWO_COPIERS, idempotent=2, longest=3),
    "two lanes, two batches": replace(TWO_LANES, longest=2),
    "two lanes, stale writers": replace(TWO_LANES, writers=2),
    "a reader beside a stale writer": replace(READER, writers=2, longest=3, roll_up=True),
    "earlier reports, two copiers": replace(EARLIER, copiers=2),
}

SLOW = {"two lanes"}  # searches of a second and more
QUICK_OR_SLOW = [
    pytest.param(name, marks=pytest.mark.slow if name in SLOW else ()) for name in SAFE
]


@pytest.mark.parametrize("name", QUICK_OR_SLOW)
def test_a_move_by_all_rules_breaks_no_promise(name: str) -> None:
    _finds_nothing(SAFE[name])


@pytest.mark.deep
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("name", SAFE_BUT_LARGE)
def test_a_move_by_all_rules_breaks_no_promise_in_larger_bounds(name: str) -> None:
    _finds_nothing(SAFE_BUT_LARGE[name])


def _finds_nothing(bounds: Bounds) -> None:
    found = search(RULES, bounds)
    print(found)
    assert not found.violation, str(found)
    assert found.exhausted
    assert found.states > 500, "the bounds leave nothing to search"


@pytest.mark.parametrize("name", QUICK_OR_SLOW)
def test_a_move_by_all_rules_can_come_to_its_end(name: str) -> None:
    found = search(RULES, SAFE[name], {move_search.GOES_ON})
    assert found.violation == move_search.GOES_ON, str(found)


def test_a_move_that_is_called_off_leaves_the_old_place_in_use() -> None:
    found = search(RULES, STALE_WRITER, {move_search.STAYS})
    assert found.violation == move_search.STAYS, str(found)


class Missing(NamedTuple):
    """Switches turned off, where to look, and what must be found broken."""

    off: tuple[str, ...]
    bounds: Bounds
    kind: str


MISSING = {
    "13, the owner merely stops": Missing(("sealed",), STALE_WRITER, move_search.LOST),
    "14, roll-up forgets the seal": Missing(
        ("seal_survives_roll_up",), ROLLED_UP, move_search.LOST
    ),
    "14, the sealer expires": Missing(("seal_survives_expiry",), ROLLED_UP, move_search.LOST),
    "15, the end is told before it is true": Missing(
        ("end_after_commit",), replace(STALE_WRITER, idempotent=0), move_search.LOST
    ),
    "16, the old log is looked at first": Missing(
        ("ends_first", "end_compared"), STALE_WRITER, move_search.LOST
    ),
    "17, copied on in a log that was opened again": Missing(
        ("copies_from_the_end",), replace(TWO_COPIERS, written=2), move_search.LOST
    ),
    "18, producers are not copied": Missing(("producers_copied",), NUMBERED, move_search.DUPLICATE),
    "18, unknown producers go on": Missing(
        ("unknown_producers_begin_at_zero",), NUMBERED, move_search.DISORDER
    ),
    "19, the seal is left out": Missing(("seal_keeps_its_offset",), READER, move_search.MISSED),
    "19, the seal is copied as it is": Missing(
        ("seal_becomes_nothing",), READER, move_search.CLOSED
    ),
    "20, one log is there": Missing(("all_done",), TWO_LANES, move_search.LOST),
    "21, reports of another move": Missing(("same_move",), EARLIER, move_search.LOST),
    "22, a place that was used": Missing(
        ("place_is_new",), replace(STALE_WRITER, written=1), move_search.TWO
    ),
    "23, a step that ends in another world": Missing(
        ("one_descriptor",), STALE_WRITER, move_search.CLOSED
    ),
    "24, called off when lanes may be sealed": Missing(
        ("called_off_in_time",), STALE_WRITER, move_search.STUCK
    ),
}


@pytest.mark.parametrize("name", MISSING)
def test_a_missing_rule_of_moving_is_found(name: str) -> None:
    off, bounds, kind = MISSING[name]
    found = search(RULES.without(*off), bounds)
    print(f"without rule {name}, {found}")
    assert found.violation == kind, str(found)


def test_without_rule_20_a_lane_goes_on_before_the_old_one_has_ended() -> None:
    found = search(RULES.without("all_done"), TWO_LANES, {move_search.EARLY})
    print(found)
    assert found.violation == move_search.EARLY, str(found)


def test_without_rule_19_a_seal_that_is_copied_ends_the_new_lane_too() -> None:
    found = search(RULES.without("seal_becomes_nothing"), READER, {move_search.GOES_ON})
    assert not found.violation, str(found)
    assert found.exhausted


@pytest.mark.parametrize("name", ["ends_first", "end_compared"])
def test_either_half_of_rule_16_is_enough(name: str) -> None:
    found = search(RULES.without(name), STALE_WRITER)
    assert not found.violation, str(found)
    assert found.exhausted


def test_every_switch_of_moving_is_turned_off_somewhere() -> None:
    turned_off = {name for case in MISSING.values() for name in case.off}
    assert turned_off == {field.name for field in fields(Rules)}
