"""The object store as brokers feel it, and what this console asks of it."""

from typing import Final

from kafscale.admin.cost.spending import MONTH_DAYS, TopicUse, daily_cost
from kafscale.console.answers.shapes import StatePoint, StoreStateName
from kafscale.console.answers.store_shapes import OperationRow, OwnRequests, SharedLogRow, StorePage
from kafscale.console.call import ApiCall, Handlers, Services
from kafscale.console.watch import reading as page
from kafscale.console.watch.notes import OPERATIONS, STATES, worst_state
from kafscale.console.watch.rates import quantile_ms
from kafscale.model.metrics.metric_names import S3_REQUESTS, SHARED


async def get_store(call: ApiCall) -> StorePage:
    """Give the state of the store."""
    services = call.services
    watcher = services.watcher
    ages = [one.single[page.CHECKPOINT_AGE] for one in watcher.readings
            if page.CHECKPOINT_AGE in one.single]  # fmt: skip
    unread = watcher.unread()
    unknown = {} if ages else {"checkpoint_age_s": unread or "no broker has taken one yet"}
    if services.bucket is None:
        unknown |= dict.fromkeys(("place", "namespace"), services.no_bucket)
    return StorePage(
        as_of_ms=watcher.as_of_ms,
        place=services.bucket.place if services.bucket else None,
        namespace=services.bucket.namespace if services.bucket else None,
        state=worst_state(watcher),
        strip=state_strip(services),
        operations=[_operation(services, name) for name in OPERATIONS],
        checkpoint_age_s=min(ages, default=None),
        shared_logs=_shared_logs(services),
        own=own_requests(services),
        unknown=unknown,
    )


def _operation(services: Services, name: str) -> OperationRow:
    watcher, rates = services.watcher, services.watcher.rates
    sent = sum(rate for key, rate in rates.items() if key[0] == S3_REQUESTS and key[2] == name)
    failed = rates.get((page.S3_OPERATIONS, name, "error"), 0.0)
    total = sum(
        value
        for one in watcher.readings
        for key, value in one.counters.items()
        if key[0] == S3_REQUESTS and key[2] == name
    )
    return OperationRow(
        operation=name,
        per_s=sent if rates else None,
        p50_ms=quantile_ms(rates, name, 0.5),
        p99_ms=quantile_ms(rates, name, 0.99),
        errors_per_s=failed if rates else None,
        total=int(total),
    )


def state_strip(services: Services) -> list[StatePoint]:
    """The state over the last hour: a point for each change."""
    watcher = services.watcher
    now_s = (watcher.as_of_ms or services.clock.now_ms()) / 1000
    moments, _, lines = watcher.history.read(now_s, "1h", ["store_state"], {})
    if not lines:
        return []
    points: list[StatePoint] = []
    for at_ms, value in zip(moments, lines[0].values, strict=True):
        state: StoreStateName | None = None if value is None else STATES[int(value)]
        if not points or points[-1].state != state:
            points.append(StatePoint(at_ms=at_ms, state=state))
    return points


def _shared_logs(services: Services) -> list[SharedLogRow]:
    return [
        SharedLogRow(
            log=f"{topic}/{log}",
            live_bytes=figures.get("live_bytes"),
            dead_bytes=figures.get("dead_bytes"),
            lanes=figures.get("lanes"),
        )
        for one in services.watcher.readings
        for (topic, log), figures in sorted(one.logs.items())
        if topic == SHARED
    ]


def own_requests(services: Services) -> OwnRequests:
    """What this console asked of the bucket since it started, and what that cost."""
    bucket = services.bucket
    if bucket is None:
        return OwnRequests(requests={}, bytes=0, money=0.0)
    counts: dict[str, float] = dict(bucket.requests)
    use = TopicUse(requests=counts, read_bytes=bucket.read_bytes)
    money = daily_cost(use, services.prices).month / MONTH_DAYS
    return OwnRequests(requests=dict(bucket.requests), bytes=bucket.read_bytes, money=money)


HANDLERS: Final[Handlers] = {"get_store": get_store}
