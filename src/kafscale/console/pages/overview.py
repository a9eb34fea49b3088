"""The first page: how everything is, and what is worth a look."""

from typing import Final

from kafscale.console import advice, figures
from kafscale.console.answers.refusals import ApiRefusal
from kafscale.console.answers.shapes import (
    BrokerSummary,
    ClusterRates,
    Finding,
    GroupSummary,
    OverviewPage,
    TopicCostRow,
    Unknown,
)
from kafscale.console.call import ApiCall, Handlers, Services
from kafscale.console.pages.cluster.brokers import broker_rows
from kafscale.console.pages.cluster.store import state_strip
from kafscale.console.pages.groups.groups import group_rows
from kafscale.console.pages.topics.topics import known_layouts, shared_topics
from kafscale.console.watch.notes import worst_state
from kafscale.console.watch.rates import quantile_ms
from kafscale.model.metrics.metric_names import (
    FETCHED_BYTES,
    PRODUCED_BYTES,
    PRODUCED_RECORDS,
    S3_REQUESTS,
)

_MOST_ROWS: Final = 8
_LATE_S: Final = 300.0


async def get_overview(call: ApiCall) -> OverviewPage:
    """Give the first page."""
    services = call.services
    watcher = services.watcher
    if watcher.why and not watcher.view.nodes:
        raise ApiRefusal("broker", watcher.why)
    layouts, _ = await known_layouts(services)
    counted = figures.compute(watcher, services.prices, shared_topics(layouts))
    brokers = broker_rows(services)
    groups = group_rows(services) if watcher.groups is not None else None
    unread = watcher.unread()
    unknown: Unknown = {}
    if unread:
        unknown |= dict.fromkeys(("store", "cost_month", "brokers_ready"), unread)
    if groups is None:
        unknown["groups"] = watcher.groups_why
    state = worst_state(watcher)
    money = [
        TopicCostRow(topic=name, month=row.month)
        for name, row in counted.topics.items()
        if row.month
    ]
    late = [row for row in groups or () if row.lag]
    return OverviewPage(
        as_of_ms=watcher.as_of_ms,
        store=state,
        store_strip=state_strip(services),
        put_p99_ms=quantile_ms(watcher.rates, "put", 0.99),
        brokers=len(brokers),
        brokers_ready=sum(bool(row.ready) for row in brokers)
        if any(row.ready is not None for row in brokers)
        else None,
        controller=watcher.view.controller,
        topics=len(watcher.view.leaders),
        partitions=sum(map(len, watcher.view.leaders.values())),
        groups=None if groups is None else len(groups),
        rates=_rates(services),
        currency=services.prices.currency,
        cost_month=counted.month,
        findings=[
            *_problems(services, brokers, state, late),
            *advice.findings(services, counted, layouts),
        ],
        expensive_topics=sorted(money, key=lambda row: -(row.month or 0.0))[:_MOST_ROWS],
        worst_groups=sorted(late, key=lambda row: (-(row.lag_s or 0.0), -(row.lag or 0)))[
            :_MOST_ROWS
        ],
        unknown=unknown,
    )


def _rates(services: Services) -> ClusterRates:
    rates = services.watcher.rates
    if not rates:
        return ClusterRates()

    def total(name: str, operation: str = "") -> float:
        return sum(
            rate
            for key, rate in rates.items()
            if key[0] == name and (not operation or key[2] == operation)
        )

    return ClusterRates(
        puts_per_s=total(S3_REQUESTS, "put"),
        gets_per_s=total(S3_REQUESTS, "get"),
        in_bytes_per_s=total(PRODUCED_BYTES),
        out_bytes_per_s=total(FETCHED_BYTES),
        in_records_per_s=total(PRODUCED_RECORDS),
    )


def _problems(
    services: Services, brokers: list[BrokerSummary], state: str | None, late: list[GroupSummary]
) -> list[Finding]:
    found = []
    if services.watcher.why:
        text = f"the last question to brokers failed: {services.watcher.why}"
        found.append(Finding(severity="error", kind="brokers_silent", text=text))
    if state not in (None, "healthy"):
        text = f"the object store is {state}"
        severity: Final = "error" if state == "unavailable" else "warning"
        found.append(Finding(severity=severity, kind="store", text=text))
    for row in brokers:
        if row.ready is False:
            text = f"broker {row.id} is not ready: {'; '.join(row.reasons)}"
            found.append(Finding(severity="error", kind="not_ready", text=text, broker=row.id))
        elif row.ready is None and row.unknown:
            text = f"broker {row.id} shows no metrics: {row.unknown['ready']}"
            found.append(Finding(severity="warning", kind="unread", text=text, broker=row.id))
    for group in late:
        if (group.lag_s or 0.0) >= _LATE_S and (group.trend_per_s or 0.0) >= 0:
            minutes = int((group.lag_s or 0.0) // 60)
            more = "more than " if group.lag_s_is_at_least else ""
            where = ", ".join(group.topics[:2])
            text = f"{group.id} is {more}{minutes} min behind on {where} and does not catch up"
            found.append(Finding(severity="warning", kind="late", text=text, group=group.id))
    return found


HANDLERS: Final[Handlers] = {"get_overview": get_overview}
