"""How fast a client goes, and how long it must wait to go no faster than its quota.

Here: Kafka's two measures. A rate over the last samples, for bytes, request time and connections:
its window is never shorter than all samples but one, so a client may spend some seconds' worth at
once. A bucket of tokens, for changes that the controller makes.
Next door: which quota a client has (quotas.py). Time is an argument.
"""

from collections import deque
from typing import Final, NamedTuple, Protocol


class QuotaWindows(NamedTuple):
    """How many samples a rate is measured over, and how long each of them is."""

    samples: int = 11
    sample_s: float = 1.0


USUAL_WINDOWS: Final = QuotaWindows()


class QuotaMeter(Protocol):
    """What one client, or all clients that share a quota, have used lately."""

    bound: float  # per second

    def record(self, amount: float, now_s: float) -> None:
        """Count what was used; a negative amount takes a count back."""
        ...

    def delay_s(self, now_s: float) -> float:
        """How long the client must wait until it is within its quota; 0: it is."""
        ...

    def charge(self, amount: float, now_s: float) -> float:
        """Record, and give the delay."""
        ...

    def left(self, now_s: float) -> float:
        """How much can be used now without a delay."""
        ...

    def allows(self, amount: float, now_s: float) -> bool:
        """Whether so much is left."""
        ...


class SampledRate:
    """Implements QuotaMeter by samples of time."""

    __slots__ = ("_amounts", "_least_s", "_sample_s", "_starts_s", "_total", "_windows", "bound")

    def __init__(self, bound: float, windows: QuotaWindows) -> None:
        """`bound`: what may be used per second."""
        self.bound = bound
        self._windows = windows
        self._sample_s = windows.sample_s
        self._least_s = (windows.samples - 1) * windows.sample_s
        self._starts_s: deque[float] = deque()
        self._amounts: deque[float] = deque()
        self._total = 0.0

    def record(self, amount: float, now_s: float) -> None:
        """See QuotaMeter."""
        starts = self._starts_s
        if not starts or now_s - starts[-1] >= self._sample_s:
            self._forget(now_s)
            starts.append(now_s)
            self._amounts.append(0.0)
        self._amounts[-1] += amount
        self._total += amount

    def delay_s(self, now_s: float) -> float:
        """See QuotaMeter."""
        return max(0.0, self._total_now(now_s) / self.bound - self._window_s(now_s))

    def charge(self, amount: float, now_s: float) -> float:
        """See QuotaMeter. The busiest path: most clients are far below their quota."""
        self.record(amount, now_s)
        return 0.0 if self._total <= self.bound * self._least_s else self.delay_s(now_s)

    def left(self, now_s: float) -> float:
        """See QuotaMeter."""
        return self.bound * self._window_s(now_s) - self._total_now(now_s)

    def allows(self, amount: float, now_s: float) -> bool:
        """See QuotaMeter. What is old only makes room: it is not looked at if there is enough."""
        return amount <= self.bound * self._least_s - self._total or amount <= self.left(now_s)

    def _total_now(self, now_s: float) -> float:
        self._forget(now_s)
        return self._total

    def _forget(self, now_s: float) -> None:
        """Drop samples that are as old as the whole window."""
        starts, oldest_s = self._starts_s, now_s - self._windows.samples * self._windows.sample_s
        while starts and starts[0] <= oldest_s:
            starts.popleft()
            self._total -= self._amounts.popleft()
        if not starts:
            self._total = 0.0  # without what rounding has left

    def _window_s(self, now_s: float) -> float:
        """The time since the oldest sample, as if all samples but one were full at least."""
        samples, sample_s = self._windows
        elapsed_s = now_s - self._starts_s[0] if self._starts_s else 0.0
        missing = samples - 1 - int(elapsed_s / sample_s)
        return elapsed_s + max(0, missing) * sample_s


_LEAST: Final = 1e-9  # of a token: what rounding leaves is no debt


class TokenBucket:
    """Implements QuotaMeter by tokens that come back with time. It may go into debt once."""

    __slots__ = ("_at_s", "_burst_s", "_tokens", "bound")

    def __init__(self, bound: float, windows: QuotaWindows, now_s: float) -> None:
        """`bound`: tokens per second. It begins full, with the tokens of all samples."""
        self.bound = bound
        self._burst_s = windows.samples * windows.sample_s
        self._tokens = bound * self._burst_s
        self._at_s = now_s

    def record(self, amount: float, now_s: float) -> None:
        """See QuotaMeter."""
        self._refill(now_s)
        self._tokens = min(self._tokens - amount, self.bound * self._burst_s)

    def delay_s(self, now_s: float) -> float:
        """See QuotaMeter."""
        self._refill(now_s)
        return -self._tokens / self.bound if self._tokens < -_LEAST else 0.0

    def charge(self, amount: float, now_s: float) -> float:
        """See QuotaMeter."""
        self.record(amount, now_s)
        return self.delay_s(now_s)

    def left(self, now_s: float) -> float:
        """See QuotaMeter."""
        self._refill(now_s)
        return max(0.0, self._tokens)

    def allows(self, amount: float, now_s: float) -> bool:
        """See QuotaMeter."""
        return amount <= self.left(now_s)

    def _refill(self, now_s: float) -> None:
        gained = self.bound * (now_s - self._at_s)
        self._tokens = min(self._tokens + gained, self.bound * self._burst_s)
        self._at_s = now_s
