"""A life of a topic that comes and goes is judged by what was written in it."""

from tests.faults.neighbours import problems

SENT = {(0, "a"), (0, "b"), (1, "c")}
TOLD = {(0, "a"): 0, (1, "c"): -1}
GOOD = [(0, 0, "a"), (0, 1, "b"), (1, 0, "c")]


def test_what_was_written_may_be_there_and_what_was_acknowledged_must() -> None:
    assert list(problems(SENT, TOLD, GOOD)) == []
    assert list(problems(SENT, TOLD, [GOOD[0], GOOD[2]])) == []
    assert list(problems(SENT, TOLD, GOOD[:2])) == ["(1, 'c') was acknowledged and is not there"]


def test_an_offset_that_was_told_is_kept() -> None:
    moved = [(0, 1, "a"), (1, 0, "c")]
    assert list(problems(SENT, TOLD, moved)) == ["(0, 'a') is at 1, not at 0"]


def test_records_of_another_life_are_found() -> None:
    (found,) = problems(SENT, TOLD, [*GOOD, (1, 1, "old")])
    assert found == "[(1, 'old')] were not written there"


def test_a_record_that_is_there_twice_is_found() -> None:
    assert list(problems(SENT, TOLD, [*GOOD, (0, 2, "b")])) == ["something is there twice"]
