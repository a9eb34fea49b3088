"""Time and chance as arguments.

Here: the two protocols that pure code takes instead of the wall clock and the dice.
Next door: the real ones (broker/clock.py) and the manual ones (testing/clock.py).
"""

from typing import Protocol


class Clock(Protocol):
    """Tells the time in two ways."""

    def now_ms(self) -> int:
        """Wall time in Unix milliseconds: for timestamps that people and clients see."""
        ...

    def elapsed_s(self) -> float:
        """Seconds since some start, never going back and not stopping while the machine sleeps."""
        ...


class Dice(Protocol):
    """Source of random bytes: content ids, topic ids, cluster ids."""

    def token(self, size: int) -> bytes:
        """Give `size` random bytes."""
        ...
