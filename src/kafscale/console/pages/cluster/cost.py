"""What everything costs, by requests as billed, and what it would cost with other settings."""

from typing import Final

import msgspec

from kafscale.admin.cost.spending import MONTH_DAYS, TopicUse, daily_cost, sum_of
from kafscale.console import advice, figures
from kafscale.console.answers.store_shapes import (
    CostPage,
    CostRow,
    ShareRow,
    WhatIf,
    WhatIfAnswer,
    WhatIfRow,
)
from kafscale.console.call import ApiCall, Handlers, Services
from kafscale.console.figures import Figures
from kafscale.console.pages.topics.topics import known_layouts, shared_topics
from kafscale.model.metrics.metric_names import NO_TOPIC, SHARED
from kafscale.settings.sections import PricesSection

CONSOLE: Final = "@console"
_DAY_S: Final = 86_400.0


async def get_cost(call: ApiCall) -> CostPage:
    """Give what each topic costs."""
    services = call.services
    is_hour = call.query.window == "hour"
    layouts, why = await known_layouts(services)
    shared = shared_topics(layouts)
    counted = figures.compute(services.watcher, services.prices, shared, last_hour=is_hour)
    uses = dict(counted.uses)
    if (own := _own_use(services)) is not None:
        uses[CONSOLE] = own
    rows = [_row(name, use, services.prices) for name, use in uses.items()]
    unread = services.watcher.unread()
    unknown = {"items": unread} if unread else {}
    if why:
        unknown["shared"] = why
    prices = msgspec.to_builtins(services.prices)
    return CostPage(
        as_of_ms=services.watcher.as_of_ms,
        currency=services.prices.currency,
        window="last hour" if is_hour else "since start",
        window_s=counted.window_s,
        prices={name: value for name, value in prices.items() if name != "currency"},
        items=sorted(rows, key=lambda row: (-row.month, row.topic)),
        total=_row("", sum_of(uses.values()), services.prices),
        shared=_shares(services, counted, shared),
        advice=advice.advise(services, counted, layouts),
        unknown=unknown,
    )


def _row(name: str, use: TopicUse, prices: PricesSection) -> CostRow:
    cost = daily_cost(use, prices)
    return CostRow(
        topic=name,
        requests=use.requests,
        written_bytes=use.written_bytes,
        read_bytes=use.read_bytes,
        stored_bytes=use.stored_bytes,
        day=cost.day,
        month=cost.month,
        requests_month=cost.requests * MONTH_DAYS,
        transfer_month=cost.transfer * MONTH_DAYS,
        storage_month=None if use.stored_bytes is None else cost.storage * MONTH_DAYS,
    )


def _own_use(services: Services) -> TopicUse | None:
    """What this console itself asks of the bucket in a day, by what it asked since it started."""
    bucket = services.bucket
    if bucket is None or not bucket.requests:
        return None
    span_s = max(services.clock.elapsed_s() - services.started_s, 60.0)
    factor = _DAY_S / span_s
    return TopicUse(
        requests={kind: count * factor for kind, count in bucket.requests.items()},
        read_bytes=bucket.read_bytes * factor,
    )


def _shares(services: Services, counted: Figures, shared: set[str]) -> list[ShareRow]:
    pool = counted.uses.get(SHARED)
    if pool is None:
        return []
    month = daily_cost(pool, services.prices).month
    return [
        ShareRow(
            topic=name, stored_bytes=counted.of(name).bytes or 0, share=share, month=share * month
        )
        for name, share in figures.shares_of(counted, shared).items()
    ]


async def get_what_if(call: ApiCall) -> WhatIfAnswer:
    """Give the same month with another flush interval or other topics in shared logs."""
    services, wanted = call.services, call.body
    layouts, _ = await known_layouts(services)
    shared = shared_topics(layouts)
    counted = figures.compute(services.watcher, services.prices, shared)
    interval_ms = services.flush_interval_ms or 500
    factor = (wanted.flush_interval_ms or interval_ms) / interval_ms
    moved = _moved(wanted, counted, advice.small_topics(counted, layouts))
    rows = []
    for name, use in sorted(counted.uses.items()):
        now = daily_cost(use, services.prices).month
        then = use if name == NO_TOPIC else advice.with_flush_interval(use, factor)
        what_if = 0.0 if name in moved else daily_cost(then, services.prices).month
        rows.append(WhatIfRow(topic=name, month=now, what_if_month=what_if))
    assumptions = [
        "what clients write and read stays as it is",
        f"flushes are {factor:g} times as far apart, so there are as many times fewer of them",
    ]
    if moved:
        logs = max(len(services.watcher.view.nodes), 1)
        _, there = advice.in_shared_logs(
            counted, moved, services.prices, round(interval_ms * factor), logs
        )
        rows.append(WhatIfRow(topic=SHARED + " (moved topics)", month=0.0, what_if_month=there))
        assumptions.append(f"{len(moved)} topics lie in {logs} shared logs")
    return WhatIfAnswer(
        currency=services.prices.currency,
        month=sum(row.month for row in rows),
        what_if_month=sum(row.what_if_month for row in rows),
        items=rows,
        assumptions=assumptions,
    )


def _moved(wanted: WhatIf, counted: Figures, small: list[str]) -> list[str]:
    named = [*(wanted.shared or ()), *(small if wanted.share_all_small else ())]
    return sorted({name for name in named if name in counted.uses and not name.startswith("@")})


HANDLERS: Final[Handlers] = {"get_cost": get_cost, "get_what_if": get_what_if}
