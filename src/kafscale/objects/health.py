"""How the object store feels: a sliding window over errors and latency.

Here: the verdict, from what the instrumented store reported. Time comes as an argument.
Next door: who reports (instrumented.py). Never here: clocks, the decision what to refuse.
"""

from dataclasses import dataclass
from enum import Enum
from typing import Final

FEW: Final = 5  # fewer reports than this prove nothing
CALM_S: Final = 10  # so long without a fault, with reports, ends a crisis early


class Health(Enum):
    """What the broker may expect of the store."""

    HEALTHY = "healthy"
    DEGRADED = "degraded"
    UNAVAILABLE = "unavailable"


@dataclass(frozen=True, slots=True)
class Limits:
    """From where on an average latency or a share of errors is bad, and very bad."""

    window_s: int = 60
    slow_s: float = 0.5
    too_slow_s: float = 3.0
    some_errors: float = 0.2
    many_errors: float = 0.6


@dataclass(slots=True)
class _Second:
    second: int = -1
    count: int = 0
    errors: int = 0
    total_s: float = 0.0


class HealthWindow:
    """One sum per second, as a ring: reporting and asking cost the same at any load."""

    def __init__(self, limits: Limits | None = None) -> None:
        self._limits = limits or Limits()
        self._ring = [_Second() for _ in range(self._limits.window_s)]
        self._verdict = Health.HEALTHY
        self._verdict_second: int | None = None  # None: something bad was reported since

    def report(self, now_s: float, latency_s: float, ok: bool) -> None:
        """Take one finished operation."""
        second = int(now_s)
        slot = self._ring[second % len(self._ring)]
        if slot.second != second:
            slot.second, slot.count, slot.errors, slot.total_s = second, 0, 0, 0.0
        slot.count += 1
        slot.errors += not ok
        slot.total_s += latency_s
        # Good news can wait for the next second: asking happens with every batch produced.
        if not ok or latency_s >= self._limits.slow_s:
            self._verdict_second = None

    def state(self, now_s: float) -> Health:
        """Judge the window; an empty one is healthy, so that a silent crisis ends by itself."""
        second = int(now_s)
        if self._verdict_second != second:
            self._verdict = self._judge(second)
            self._verdict_second = second
        return self._verdict

    def _judge(self, second: int) -> Health:
        lately = self._grade(second - CALM_S, second)
        if lately is Health.HEALTHY and self._sums(second - CALM_S, second)[1] == 0:
            return Health.HEALTHY
        return self._grade(second - self._limits.window_s, second) or Health.HEALTHY

    def _grade(self, after: int, until: int) -> Health | None:
        count, errors, total_s = self._sums(after, until)
        if count < FEW:
            return None
        limits = self._limits
        if errors >= limits.many_errors * count or total_s >= limits.too_slow_s * count:
            return Health.UNAVAILABLE
        if errors >= limits.some_errors * count or total_s >= limits.slow_s * count:
            return Health.DEGRADED
        return Health.HEALTHY

    def _sums(self, after: int, until: int) -> tuple[int, int, float]:
        slots = [slot for slot in self._ring if after < slot.second <= until]
        return (
            sum(slot.count for slot in slots),
            sum(slot.errors for slot in slots),
            sum(slot.total_s for slot in slots),
        )
