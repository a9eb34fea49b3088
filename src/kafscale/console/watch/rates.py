"""From counters to rates: how much in a second, over about the last minute.

A broker that began anew counts from zero, so its readings before that count no more. Next door: a
single reading (reading.py), rates over time (history.py).
"""

from collections import deque
from collections.abc import Iterable, Mapping
from typing import Final

from kafscale.console.watch.reading import LATENCY_BUCKET, BrokerReading, CounterKey

_SPAN_S: Final = 60.0
CounterRates = dict[CounterKey, float]


class RateWindow:
    """The readings of one broker within a minute."""

    def __init__(self, span_s: float = _SPAN_S) -> None:
        self._span_s = span_s
        self._readings: deque[tuple[float, float, Mapping[CounterKey, float]]] = deque()

    def add(self, reading: BrokerReading) -> None:
        """Take a reading; one of an earlier process counts no more."""
        while self._readings and self._readings[-1][1] < reading.started_s:
            self._readings.pop()
        self._readings.append((reading.at_s, reading.started_s, reading.counters))
        while len(self._readings) > 2 and self._readings[1][0] <= reading.at_s - self._span_s:
            self._readings.popleft()

    def rates(self, since_last: bool = False) -> CounterRates:
        """Growth of each counter in a second; nothing before the second reading."""
        if len(self._readings) < 2:
            return {}
        first, last = self._readings[-2 if since_last else 0], self._readings[-1]
        span_s = last[0] - first[0]
        if span_s <= 0:
            return {}
        return {
            key: max(value - first[2].get(key, 0.0), 0.0) / span_s for key, value in last[2].items()
        }


def add_up(rates: Iterable[CounterRates]) -> CounterRates:
    """The rates of all brokers together."""
    total: CounterRates = {}
    for one in rates:
        for key, value in one.items():
            total[key] = total.get(key, 0.0) + value
    return total


def quantile_ms(rates: CounterRates, operation: str, share: float) -> float | None:
    """The latency below which this share of a store's operations were; None without any.

    Between the bounds of a bucket it is taken to grow evenly. Beyond the last bound there is no
    other number than that bound.
    """
    buckets = sorted(
        (float(key[2]), rate)
        for key, rate in rates.items()
        if key[0] == LATENCY_BUCKET and key[1] == operation
    )
    if not buckets or buckets[-1][1] <= 0:
        return None
    wanted = buckets[-1][1] * share
    below_s = below = 0.0
    for bound_s, reached in buckets:
        if reached >= wanted:
            if bound_s == float("inf"):
                return below_s * 1000
            part = (wanted - below) / (reached - below) if reached > below else 1.0
            return (below_s + (bound_s - below_s) * part) * 1000
        below_s, below = bound_s, reached
    return below_s * 1000
