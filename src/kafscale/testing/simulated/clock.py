"""The clocks of simulated processes: the loop's time, each with an error of its own.

Next door: the protocol (model/clock.py), the loop (loop.py).
"""

from typing import Final

from kafscale.testing.simulated.loop import SimulatedProcess

EPOCH_MS: Final = 1_700_000_000_000


def wall_ms(loop_s: float, skew_ms: int = 0) -> int:
    """The simulated world's wall time at a time of the loop."""
    return EPOCH_MS + int(loop_s * 1000) + skew_ms


class SimulatedClock:
    """What one process takes for the time."""

    def __init__(self, process: SimulatedProcess, skew_ms: int = 0) -> None:
        """Tell a wall time that is off by `skew_ms`; change it to let the clock jump."""
        self._process = process
        self.skew_ms = skew_ms

    def now_ms(self) -> int:
        """Wall time."""
        return wall_ms(self._process.loop.time(), self.skew_ms)

    def elapsed_s(self) -> float:
        """Steady time; stands still while the machine is suspended."""
        return self._process.loop.time() - self._process.suspended_s
