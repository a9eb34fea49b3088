"""The manual clock and the seeded dice."""

from kafscale.model.clock import Clock, Dice
from kafscale.testing.clock import ManualClock, SeededDice


def test_time_passes_only_when_told() -> None:
    clock = ManualClock(now_ms=1000)
    seen: Clock = clock
    assert (seen.now_ms(), seen.elapsed_s()) == (1000, 0.0)
    clock.advance_ms(1500)
    assert (seen.now_ms(), seen.elapsed_s()) == (2500, 1.5)


def test_the_wall_clock_can_jump_alone() -> None:
    clock = ManualClock(now_ms=1000)
    clock.advance_ms(500)
    clock.set_wall_ms(100)
    assert (clock.now_ms(), clock.elapsed_s()) == (100, 0.5)


def test_the_same_seed_throws_the_same() -> None:
    dice: Dice = SeededDice(7)
    assert dice.token(16) == SeededDice(7).token(16) != SeededDice(8).token(16)
    assert len(dice.token(5)) == 5
    assert SeededDice().happens(1.0)
    assert not SeededDice().happens(0.0)
