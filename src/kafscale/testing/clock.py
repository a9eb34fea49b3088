"""Time and chance under the control of a test.

Next door: the protocols (model/clock.py), the real ones (system.py).
"""

import random


class ManualClock:
    """A clock that moves only when the test moves it."""

    def __init__(self, now_ms: int = 1_700_000_000_000) -> None:
        self._start_ms = now_ms
        self._elapsed_ms = 0.0

    def now_ms(self) -> int:
        """Wall time."""
        return self._start_ms + int(self._elapsed_ms)

    def elapsed_s(self) -> float:
        """Seconds since the clock was made."""
        return self._elapsed_ms / 1000

    def advance_ms(self, by_ms: float) -> None:
        """Let time pass."""
        self._elapsed_ms += by_ms

    def set_wall_ms(self, now_ms: int) -> None:
        """Move the wall clock alone, as an operator or NTP may do."""
        self._start_ms = now_ms - int(self._elapsed_ms)


class SeededDice:
    """The same results for the same seed."""

    def __init__(self, seed: int = 0) -> None:
        self._random = random.Random(seed)

    def token(self, size: int) -> bytes:
        """Give `size` bytes."""
        return self._random.randbytes(size)

    def happens(self, chance: float) -> bool:
        """Whether something of this probability happens now."""
        return int.from_bytes(self.token(4)) < chance * 2**32
