"""The health of the object store: a sliding window over errors and latency.

Here: the verdict, from the reports of the instrumented store. Time comes as an argument.
Next door: the reports (instrumented.py). Never here: clocks, and what a broker refuses when the
store is sick.
"""

import math
from dataclasses import dataclass
from enum import Enum
from typing import Final

FEW: Final = 5  # fewer reports than this prove nothing
CALM_S: Final = 10  # a sick store is healthy again after reports without an error for this long
UNANSWERED_S: Final = 10  # a store that answers no request for this long is unavailable
UNWRITABLE_S: Final = 2  # a store that refuses all writes for this long cannot be written
LATELY_S: Final = 30  # a store that got no request for this long counts as able to answer


class Health(Enum):
    """What a broker may expect of the store."""

    HEALTHY = "healthy"
    DEGRADED = "degraded"
    UNAVAILABLE = "unavailable"


@dataclass(frozen=True, slots=True)
class HealthLimits:
    """The average latency and the share of errors at which a store is degraded or unavailable."""

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
    """A ring with one sum per second, so that a report costs the same at any load."""

    def __init__(self, limits: HealthLimits | None = None) -> None:
        self._limits = limits or HealthLimits()
        self._ring = [_Second() for _ in range(self._limits.window_s)]
        self._verdict = Health.HEALTHY
        self._verdict_second: int | None = None  # None: the last report may have changed it
        self._in_flight = 0
        self._ended_s = 0.0
        self._failing = False
        self._due_s = math.inf  # the store must answer some request by then
        self._heard_s = -math.inf  # when the store answered again after it had been silent
        self._write_problem = ""  # why the newest write failed; "": it did not
        self._unwritten_since_s = math.inf
        self._unwritten_until_s = -math.inf

    def begin(self, now_s: float) -> None:
        """Note the start of an operation that a healthy store ends soon."""
        self._in_flight += 1
        self._due_s = min(self._due_s, now_s + UNANSWERED_S)

    def end(self, now_s: float) -> None:
        """Note the end of such an operation, after its report if it has one."""
        self._in_flight -= 1
        self._ended_s = now_s
        if not self._in_flight and not self._failing:
            self._due_s = math.inf

    def report(self, now_s: float, latency_s: float, ok: bool) -> None:
        """Count one finished operation."""
        if ok and now_s >= self._due_s:
            self._heard_s = now_s
        if now_s - latency_s >= self._heard_s:  # else it began while the store was silent
            self._count(int(now_s), latency_s, ok)
        # A success may count a second late: `state` is asked with every batch produced.
        if not ok or latency_s >= self._limits.slow_s:
            self._verdict_second = None
        self._failing = not ok
        if ok:
            self._due_s = now_s + UNANSWERED_S if self._in_flight else math.inf

    def report_write(self, now_s: float, problem: str) -> None:
        """Note whether something could be written; `problem` says why not."""
        if problem:
            if not self._write_problem:
                self._unwritten_since_s = now_s
            self._unwritten_until_s = now_s
        self._write_problem = problem

    def why_not_writable(self, now_s: float) -> str | None:
        """Why all writes have failed lately. Reads may go well meanwhile, as on a full disk."""
        is_lasting = now_s - self._unwritten_since_s >= UNWRITABLE_S
        is_recent = now_s - self._unwritten_until_s < LATELY_S
        return self._write_problem if self._write_problem and is_lasting and is_recent else None

    def _count(self, second: int, latency_s: float, ok: bool) -> None:
        slot = self._ring[second % len(self._ring)]
        if slot.second != second:
            slot.second, slot.count, slot.errors, slot.total_s = second, 0, 0, 0.0
        slot.count += 1
        slot.errors += not ok
        slot.total_s += latency_s

    def state(self, now_s: float) -> Health:
        """Judge the window. An empty one is healthy, so that a broker without traffic recovers."""
        second = int(now_s)
        if self._verdict_second != second:
            is_silent = self._is_silent(now_s)
            self._verdict = Health.UNAVAILABLE if is_silent else self._judge(second)
            self._verdict_second = second
        return self._verdict

    def _is_silent(self, now_s: float) -> bool:
        """Whether the store answered nothing for too long: a store that hangs reports no error."""
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
