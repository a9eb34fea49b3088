"""Figures of topics from the last look: sizes, rates, requests, money.

Here: arithmetic over what the watcher found, done once per look. Next door: the looks
(watch/watcher.py), the arithmetic of money (admin/cost/spending.py).
"""

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Final

from kafscale.admin.cost import spending
from kafscale.admin.cost.spending import BrokerCounters, TopicUse
from kafscale.console.watch.reading import BrokerReading
from kafscale.console.watch.watcher import ClusterWatcher
from kafscale.model.metrics.metric_names import (
    FETCHED_BYTES,
    PRODUCED_BYTES,
    S3_BYTES,
    S3_REQUESTS,
    SHARED,
)
from kafscale.settings.sections import PricesSection

_MONEY: Final = frozenset({S3_REQUESTS, S3_BYTES})


@dataclass(slots=True)
class TopicFigures:
    """What brokers counted for a topic."""

    records: int | None = None
    bytes: int | None = None
    partitions_seen: int = 0
    in_per_s: float | None = None
    out_per_s: float | None = None
    puts_per_s: float | None = None
    month: float | None = None


@dataclass(slots=True)
class Figures:
    """All topics, `@shared` and `@store` among them, at one moment."""

    topics: dict[str, TopicFigures] = field(default_factory=dict)
    uses: dict[str, TopicUse] = field(default_factory=dict)
    month: float | None = None
    window_s: float | None = None  # the shortest time that a broker's counters cover

    def of(self, topic: str) -> TopicFigures:
        """The figures of one topic; nothing is known of one that no broker has counted."""
        return self.topics.get(topic, _NOTHING)


_NOTHING: Final = TopicFigures()


def compute(
    watcher: ClusterWatcher,
    prices: PricesSection,
    shared: Collection[str],
    *,
    last_hour: bool = False,
) -> Figures:
    """Add up what all brokers said; money since each broker's start, or of the last hour.

    `shared`: the topics whose records lie in shared logs; those logs cost as one.
    """
    figures = Figures()
    for reading in watcher.readings:
        _add_sizes(figures, reading)
    _add_rates(figures, watcher)
    windows = []
    for state in watcher.brokers.values():
        if state.reading is None:
            continue
        now = counters_of(state.reading)
        before = counters_of(state.hourly[0]) if last_hour and state.hourly else None
        spending.add_rates(figures.uses, now, before)
        windows.append(spending.window_s(now, before))
    figures.window_s = min(windows, default=None)
    for topic, size in [(name, row.bytes) for name, row in figures.topics.items()]:
        if size is not None and windows:
            use = figures.uses.setdefault(SHARED if topic in shared else topic, TopicUse())
            use.stored_bytes = (use.stored_bytes or 0) + size
    for topic, use in figures.uses.items():
        row = figures.topics.setdefault(topic, TopicFigures())
        row.month = spending.daily_cost(use, prices).month
    if windows:
        total = spending.sum_of(figures.uses.values())
        figures.month = spending.daily_cost(total, prices).month
    return figures


def counters_of(reading: BrokerReading) -> BrokerCounters:
    """What a page counted that costs money."""
    counts = {
        (key[0], key[1], key[2]): value
        for key, value in reading.counters.items()
        if key[0] in _MONEY
    }
    return BrokerCounters(reading.at_s, reading.started_s or reading.at_s, counts)


def _add_sizes(figures: Figures, reading: BrokerReading) -> None:
    for (topic, _), records in reading.records.items():
        row = figures.topics.setdefault(topic, TopicFigures())
        row.records = (row.records or 0) + records
        row.partitions_seen += 1
    for (topic, _), size in reading.bytes.items():
        row = figures.topics.setdefault(topic, TopicFigures())
        row.bytes = (row.bytes or 0) + size


def _add_rates(figures: Figures, watcher: ClusterWatcher) -> None:
    if not watcher.rates:
        return
    for row in figures.topics.values():
        row.in_per_s = row.out_per_s = row.puts_per_s = 0.0
    for key, rate in watcher.rates.items():
        if key[0] not in (PRODUCED_BYTES, FETCHED_BYTES, S3_REQUESTS):
            continue
        row = figures.topics.setdefault(key[1], TopicFigures(None, None, 0, 0.0, 0.0, 0.0))
        if key[0] == PRODUCED_BYTES:
            row.in_per_s = rate
        elif key[0] == FETCHED_BYTES:
            row.out_per_s = rate
        elif key[2] == "put":
            row.puts_per_s = (row.puts_per_s or 0.0) + rate


def shares_of(figures: Figures, shared: Collection[str]) -> dict[str, float]:
    """Each topic's part of the shared logs, by bytes; empty while one of them is not known."""
    sizes = {name: figures.of(name).bytes for name in shared}
    known = {name: size for name, size in sizes.items() if size is not None}
    return spending.shares(known) if len(known) == len(sizes) else {}
