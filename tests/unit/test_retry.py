"""Pauses between attempts grow, stay below a limit, and end at a deadline."""

import pytest

from kafscale.retry import Backoff, RetryPolicy
from kafscale.testing.clock import SeededDice


def pauses(backoff: Backoff, count: int) -> list[float]:
    return [backoff.next_s() for _ in range(count)]


def test_pauses_double_up_to_the_longest() -> None:
    backoff = Backoff(RetryPolicy(0.1, 0.5))
    assert pauses(backoff, 5) == pytest.approx([0.1, 0.2, 0.4, 0.5, 0.5])


def test_pauses_grow_by_the_factor_of_the_policy() -> None:
    assert pauses(Backoff(RetryPolicy(1.0, 100.0, factor=3.0)), 3) == [1.0, 3.0, 9.0]


def test_after_a_success_pauses_begin_anew() -> None:
    backoff = Backoff(RetryPolicy(0.1, 10.0))
    pauses(backoff, 4)
    backoff.restart()
    assert backoff.next_s() == 0.1


def test_no_attempt_begins_after_the_deadline() -> None:
    backoff = Backoff(RetryPolicy(1.0, 8.0, deadline_s=5.0))
    assert backoff.allows(4.0)
    assert not backoff.allows(4.1)
    backoff.next_s()
    assert not backoff.allows(3.5)
    assert Backoff(RetryPolicy(1.0, 8.0)).allows(1e9)


def test_jitter_adds_up_to_its_part_and_the_same_dice_give_the_same_pauses() -> None:
    policy = RetryPolicy(1.0, 1.0, jitter=0.3)
    found = pauses(Backoff(policy, SeededDice(7)), 50)
    assert all(1.0 <= pause <= 1.3 for pause in found)
    assert len(set(found)) > 40
    assert found == pauses(Backoff(policy, SeededDice(7)), 50)
    assert pauses(Backoff(policy), 2) == [1.0, 1.0]
