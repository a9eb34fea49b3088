"""Rule 25 of docs/formats/log-protocol.md: as a whole it holds, and each part of it is needed.

What is searched: every interleaving of the steps in end_model.py within the bounds named here,
without any bound on depth or pauses. At most 2 owners, 3 records, 2 roll-ups. Not modelled: PUTs
that execute after their sender has given up (to it they are as good as refused), lanes, several
topics that want the name. Evidence within bounds, not proof.
"""

from dataclasses import fields

import pytest

from tests.model import end_model
from tests.model.end_model import Bounds, Rules, search

RULES = Rules()
ONE = Bounds(owners=1, longest=3)
TWO = Bounds(owners=2, longest=2, roll_ups=0)
ROLLED_UP = Bounds(owners=1, longest=3, roll_ups=2)
SAFE = {"one owner": ONE, "two owners": TWO, "roll-ups": ROLLED_UP}

# Which parts are off, and what then goes wrong.
MISSING = {
    ("tail_taken",): ONE,
    ("last_manifest",): ONE,
    ("last_manifest_first", "looks_twice"): ROLLED_UP,
    ("chain_stays",): ONE,
    ("end_remembered",): ONE,
}


@pytest.mark.parametrize("name", SAFE)
def test_nothing_is_acknowledged_in_a_log_whose_name_is_used_again(name: str) -> None:
    found = search(RULES, SAFE[name])
    print(found)
    assert not found.violation, str(found)
    assert found.exhausted
    assert found.states > 500, "the bounds leave nothing to search"


@pytest.mark.parametrize("name", SAFE)
def test_a_name_can_be_used_again(name: str) -> None:
    found = search(RULES, SAFE[name], end_model.USED_AGAIN)
    assert found.violation == end_model.USED_AGAIN, str(found)


@pytest.mark.parametrize("parts", MISSING, ids=" and ".join)
def test_without_a_part_of_the_rule_a_record_is_lost(parts: tuple[str, ...]) -> None:
    found = search(RULES.without(*parts), MISSING[parts])
    print(found)
    assert found.violation == end_model.LOST, str(found)


@pytest.mark.parametrize("one", ["last_manifest_first", "looks_twice"])
def test_either_of_these_two_is_enough(one: str) -> None:
    found = search(RULES.without(one), ROLLED_UP)
    assert not found.violation, str(found)
    assert found.exhausted


def test_every_part_is_tried() -> None:
    assert {part for parts in MISSING for part in parts} == {row.name for row in fields(Rules)}
