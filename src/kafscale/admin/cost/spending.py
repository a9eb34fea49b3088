"""From counters and stored bytes to money: arithmetic and nothing else.

Here: rates from one reading of the counters or two, prices on top.
Next door: where the numbers come from (cost.py), the prices (settings/sections.py).
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from kafscale.admin.cost.metrics_page import MetricSample
from kafscale.model.metrics.metric_names import S3_BYTES, S3_REQUESTS, STARTED
from kafscale.settings.sections import PricesSection

DAY_S: Final = 86_400.0
MONTH_DAYS: Final = 30
GB: Final = 1 << 30

# (series, topic, operation) -> count
Counts = dict[tuple[str, str, str], float]


@dataclass(frozen=True, slots=True)
class BrokerCounters:
    """One broker's counters at one moment."""

    at_s: float  # Unix time
    started_s: float
    counts: Counts

    @classmethod
    def of(cls, samples: Iterable[MetricSample], at_s: float) -> "BrokerCounters":
        """Take what matters from a metrics page."""
        started_s, counts = at_s, Counts()
        for name, labels, value in samples:
            if name == STARTED:
                started_s = value
            elif name in (S3_REQUESTS, S3_BYTES):
                counts[name, labels.get("topic", ""), labels.get("operation", "")] = value
        return cls(at_s, started_s, counts)


@dataclass(slots=True)
class TopicUse:
    """What a topic asks of the bucket in a day, and what it stores there."""

    requests: dict[str, float] = field(default_factory=dict)  # by operation
    written_bytes: float = 0.0
    read_bytes: float = 0.0
    stored_bytes: int | None = None  # None: not counted


@dataclass(frozen=True, slots=True)
class DailyCost:
    """A day of one topic in money."""

    requests: float
    transfer: float
    storage: float

    @property
    def day(self) -> float:
        """All of it."""
        return self.requests + self.transfer + self.storage

    @property
    def month(self) -> float:
        """Thirty such days."""
        return self.day * MONTH_DAYS


def window_s(now: BrokerCounters, before: BrokerCounters | None) -> float:
    """How many seconds the counters of one broker cover."""
    if before is None or now.started_s > before.at_s:
        return now.at_s - now.started_s
    return now.at_s - before.at_s


def add_rates(
    uses: dict[str, TopicUse], now: BrokerCounters, before: BrokerCounters | None
) -> None:
    """Add what one broker does in a day, extrapolated, to what others do.

    Since its start, or since an earlier reading. A broker that was restarted counts from 0.
    """
    span_s = window_s(now, before)
    if span_s <= 0:
        return
    earlier = {} if before is None or now.started_s > before.at_s else before.counts
    for (name, topic, operation), count in now.counts.items():
        grown = count - earlier.get((name, topic, operation), 0.0)
        # A topic that was deleted and created again counts from 0, too.
        a_day = (grown if grown >= 0 else count) * DAY_S / span_s
        use = uses.setdefault(topic, TopicUse())
        if name == S3_REQUESTS:
            use.requests[operation] = use.requests.get(operation, 0.0) + a_day
        elif operation == "put":
            use.written_bytes += a_day
        else:
            use.read_bytes += a_day


def daily_cost(use: TopicUse, prices: PricesSection) -> DailyCost:
    """What a day of it costs."""
    per_1000: Mapping[str, float] = {
        "put": prices.put_per_1000,
        "list": prices.list_per_1000,
        "delete": prices.delete_per_1000,
    }
    requests = sum(
        count / 1000 * per_1000.get(operation, prices.get_per_1000)
        for operation, count in use.requests.items()
    )
    transfer = use.written_bytes / GB * prices.written_gb + use.read_bytes / GB * prices.read_gb
    storage = (use.stored_bytes or 0) / GB * prices.storage_gb_month / MONTH_DAYS
    return DailyCost(requests, transfer, storage)


def sum_of(uses: Iterable[TopicUse]) -> TopicUse:
    """All topics as one."""
    total = TopicUse()
    for use in uses:
        for operation, count in use.requests.items():
            total.requests[operation] = total.requests.get(operation, 0.0) + count
        total.written_bytes += use.written_bytes
        total.read_bytes += use.read_bytes
        if use.stored_bytes is not None:
            total.stored_bytes = (total.stored_bytes or 0) + use.stored_bytes
    return total


def shares(sizes: Mapping[str, int]) -> dict[str, float]:
    """Each topic's part of what topics share, by its bytes; the largest part first."""
    total = sum(sizes.values())
    by_size = sorted(sizes, key=lambda topic: (-sizes[topic], topic))
    return {topic: sizes[topic] / total if total else 0.0 for topic in by_size}
