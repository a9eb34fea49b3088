"""The real clock and the real dice: the only place that asks the machine for either."""

import os
import time

# Goes on while the machine sleeps, where the system has such a clock.
_STEADY = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


class SystemClock:
    """The machine's time."""

    def __init__(self) -> None:
        self._steady_s = time.clock_gettime(_STEADY)

    def now_ms(self) -> int:
        """Wall time."""
        return int(time.time() * 1000)

    def elapsed_s(self) -> float:
        """Seconds since this clock was made."""
        return time.clock_gettime(_STEADY) - self._steady_s


class SystemDice:
    """The system's random bytes."""

    def token(self, size: int) -> bytes:
        """Give `size` of them."""
        return os.urandom(size)
