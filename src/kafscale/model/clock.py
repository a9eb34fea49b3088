"""Time and chance as arguments.

Here: the two protocols that pure code takes instead of the wall clock and the dice.
Next door: the real ones (system.py) and the manual ones (testing/clock.py).
"""

from typing import NamedTuple, Protocol


class Clock(Protocol):
    """Tells the time in two ways."""

    def now_ms(self) -> int:
        """Wall time in Unix milliseconds: for timestamps that people and clients see."""
        ...

    def elapsed_s(self) -> float:
        """Seconds since some start, never going back and not stopping while the machine sleeps."""
        ...


class Moment(NamedTuple):
    """A point in time by both clocks."""

    elapsed_s: float
    wall_ms: int


def moment(clock: Clock) -> Moment:
    """Now."""
    return Moment(clock.elapsed_s(), clock.now_ms())


def age_s(clock: Clock, since: Moment) -> float:
    """How long ago that was, by whichever clock says longer.

    A frozen virtual machine's steady clock stands still; only the wall clock shows the gap.
    """
    return max(clock.elapsed_s() - since.elapsed_s, (clock.now_ms() - since.wall_ms) / 1000)


class Dice(Protocol):
    """Source of random bytes: content ids, topic ids, cluster ids."""

    def token(self, size: int) -> bytes:
        """Give `size` random bytes."""
        ...
