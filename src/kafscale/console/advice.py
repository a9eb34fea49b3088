"""What would save money, and how much: the arithmetic of cost with other settings.

Here: shared logs for small topics, a longer flush interval. Next door: what it costs now
(figures.py), the page (pages/cluster/cost.py).
"""

from collections.abc import Collection, Mapping
from typing import Final, NamedTuple

from kafscale.admin.cost.spending import DAY_S, TopicUse, daily_cost
from kafscale.console.answers.shapes import Finding
from kafscale.console.answers.store_shapes import Advice
from kafscale.console.call import Services
from kafscale.console.figures import Figures
from kafscale.model.metrics.metric_names import NO_TOPIC, SHARED
from kafscale.model.topics import TopicDescriptor
from kafscale.settings.sections import PricesSection

_WORTH: Final = 1.0  # a month; less is not worth a line
_SMALL_BYTES_PER_S: Final = 100_000.0
_BELIEVABLE_S: Final = 600.0  # counters that cover less say little about a month


class OtherMonth(NamedTuple):
    """A topic with other settings."""

    topic: str
    month: float
    what_if: float


def small_topics(figures: Figures, layouts: Mapping[str, TopicDescriptor]) -> list[str]:
    """Topics with logs of their own and little traffic."""
    return sorted(
        name
        for name, one in layouts.items()
        if one.layout != "shared"
        and one.moving is None
        and name in figures.uses
        and (figures.of(name).in_per_s or 0.0) < _SMALL_BYTES_PER_S
    )


def with_flush_interval(use: TopicUse, factor: float) -> TopicUse:
    """The same with flushes so many times as far apart.

    Objects become fewer by that factor; bytes stay, and so does what is read.
    """
    requests = dict(use.requests)
    requests["put"] = requests.get("put", 0.0) / max(factor, 1.0)
    return TopicUse(requests, use.written_bytes, use.read_bytes, use.stored_bytes)


def in_shared_logs(
    figures: Figures, topics: Collection[str], prices: PricesSection, interval_ms: int, logs: int
) -> tuple[float, float]:
    """What the topics cost a month now, and in shared logs.

    There each log is flushed once per interval for all topics together, so what they add is at
    most what is missing to that. Bytes stay.
    """
    now = sum(daily_cost(figures.uses[name], prices).month for name in topics)
    most_puts = logs * DAY_S * 1000 / max(interval_ms, 1)
    there = figures.uses.get(SHARED, TopicUse()).requests.get("put", 0.0)
    moved = sum(figures.uses[name].requests.get("put", 0.0) for name in topics)
    added = min(moved, max(most_puts - there, 0.0))
    rest = TopicUse(
        requests={"put": added},
        written_bytes=sum(figures.uses[name].written_bytes for name in topics),
        read_bytes=sum(figures.uses[name].read_bytes for name in topics),
        stored_bytes=sum(figures.uses[name].stored_bytes or 0 for name in topics),
    )
    for name in topics:
        for operation, count in figures.uses[name].requests.items():
            if operation != "put":
                rest.requests[operation] = rest.requests.get(operation, 0.0) + count
    return now, daily_cost(rest, prices).month


def advise(
    services: Services, figures: Figures, layouts: Mapping[str, TopicDescriptor]
) -> list[Advice]:
    """Everything that would save a noticeable sum."""
    if (figures.window_s or 0.0) < _BELIEVABLE_S:
        return []
    found: list[Advice] = []
    prices, currency = services.prices, services.prices.currency
    interval_ms = services.flush_interval_ms or 500
    brokers = max(len(services.watcher.view.nodes), 1)
    small = small_topics(figures, layouts)
    if len(small) > 1:
        now, then = in_shared_logs(figures, small, prices, interval_ms, brokers)
        if now - then >= _WORTH:
            text = f"{len(small)} small topics in shared logs: {now - then:,.2f} {currency} less"
            found.append(
                Advice(kind="share_topics", text=text, saving_month=now - then, topics=small)
            )
    uses = {name: use for name, use in figures.uses.items() if name != NO_TOPIC}
    now = sum(daily_cost(use, prices).month for use in uses.values())
    then = sum(daily_cost(with_flush_interval(use, 4), prices).month for use in uses.values())
    if services.flush_interval_ms and now - then >= _WORTH:
        seconds = interval_ms * 4 / 1000
        text = f"a flush every {seconds:g} s: {now - then:,.2f} {currency} less"
        found.append(Advice(kind="flush_less_often", text=text, saving_month=now - then, topics=[]))
    return sorted(found, key=lambda one: -one.saving_month)


def findings(
    services: Services, figures: Figures, layouts: Mapping[str, TopicDescriptor]
) -> list[Finding]:
    """The same as lines of the first page."""
    return [
        Finding(severity="info", kind=one.kind, text=one.text, saving_month=one.saving_month)
        for one in advise(services, figures, layouts)
    ]
