"""A login with a wrong user takes the steps of one with a wrong password: time tells nothing.

No clock is read here. What is compared is every call of a function, of Python's and of C's, in its
order; `python -m benchmarks.logins` prints the time.
"""

import sys
from types import FrameType
from typing import Any

import pytest

from tests.unit.access.conversations import CASES, SCRAM_AND_PLAIN, Converse


def steps(converse: Converse, case: str) -> list[str]:
    """The names of all functions that are called and left, in their order."""
    seen: list[str] = []

    def note(frame: FrameType, event: str, argument: Any) -> None:
        name = argument.__name__ if event.startswith("c_") else frame.f_code.co_qualname
        seen.append(f"{event} {name}")

    sys.setprofile(note)
    try:
        converse(case)
    finally:
        sys.setprofile(None)
    return seen


@pytest.mark.parametrize("name", SCRAM_AND_PLAIN)
def test_a_wrong_user_takes_the_steps_of_a_wrong_password(name: str) -> None:
    converse = SCRAM_AND_PLAIN[name]
    assert [converse(case) for case in CASES] == [True, False, False]
    wrong_password, wrong_user = (steps(converse, case) for case in CASES[1:])
    assert wrong_user == wrong_password
    assert "c_call compare_digest" in wrong_user, "the steps are seen"
