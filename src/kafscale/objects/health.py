"""How the object store feels: a sliding window over errors and latency.

Here: the verdict, from what the instrumented store reported. Time comes as an argument.
Next door: who reports (instrumented.py). Never here: clocks, the decision what to refuse.
"""

import math
from dataclasses import dataclass
from enum import Enum
from typing import Final

FEW: Final = 5  # fewer reports than this prove nothing
CALM_S: Final = 10  # so long without a fault, with reports, ends a crisis early
UNANSWERED_S: Final = 10  # so long without any answer, though asked, is a crisis by itself
LATELY_S: Final = 30  # a store that nobody has asked for so long may be asked again


class Health(Enum):
    """What the broker may expect of the store."""

    HEALTHY = "healthy"
    DEGRADED = "degraded"
    UNAVAILABLE = "unavailable"


@dataclass(frozen=True, slots=True)
class HealthLimits:
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

    def __init__(self, limits: HealthLimits | None = None) -> None:
        self._limits = limits or HealthLimits()
        self._ring = [_Second() for _ in range(self._limits.window_s)]
        self._verdict = Health.HEALTHY
        self._verdict_second: int | None = None  # None: the last report may have changed it
        self._in_flight = 0
        self._ended_s = 0.0
        self._failing = False
        self._due_s = math.inf  # the store owes us an answer by then
        self._heard_s = -math.inf  # when the last silence ended

    def begin(self, now_s: float) -> None:
        """Note that an operation was begun which ends soon where all is well."""
        self._in_flight += 1
        self._due_s = min(self._due_s, now_s + UNANSWERED_S)

    def end(self, now_s: float) -> None:
        """Note that one of them is over, after its report if it has one."""
        self._in_flight -= 1
        self._ended_s = now_s
        if not self._in_flight and not self._failing:
            self._due_s = math.inf

    def report(self, now_s: float, latency_s: float, ok: bool) -> None:
        """Take one finished operation."""
        if ok and now_s >= self._due_s:
            self._heard_s = now_s
        if now_s - latency_s >= self._heard_s:  # what was begun in a silence is no news
            self._count(int(now_s), latency_s, ok)
        # Good news can wait for the next second: asking happens with every batch produced.
        if not ok or latency_s >= self._limits.slow_s:
            self._verdict_second = None
        self._failing = not ok
        if ok:
            self._due_s = now_s + UNANSWERED_S if self._in_flight else math.inf

    def _count(self, second: int, latency_s: float, ok: bool) -> None:
        slot = self._ring[second % len(self._ring)]
        if slot.second != second:
            slot.second, slot.count, slot.errors, slot.total_s = second, 0, 0, 0.0
        slot.count += 1
        slot.errors += not ok
        slot.total_s += latency_s

    def state(self, now_s: float) -> Health:
        """Judge the window; an empty one is healthy, so that a silent crisis ends by itself."""
        second = int(now_s)
        if self._verdict_second != second:
            is_owing = self._is_owing(now_s)
            self._verdict = Health.UNAVAILABLE if is_owing else self._judge(second)
            self._verdict_second = second
        return self._verdict

    def _is_owing(self, now_s: float) -> bool:
        """Whether nothing was answered for too long: a store that hangs reports nothing bad."""
        asked = self._in_flight > 0 or now_s - self._ended_s < LATELY_S
        return asked and now_s >= self._due_s

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
