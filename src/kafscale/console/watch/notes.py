"""From the last look to points of the history.

Next door: the looks (watcher.py), the rings (history.py), what groups lag (lags.py).
"""

from typing import TYPE_CHECKING, Final

from kafscale.console.answers.shapes import StoreStateName
from kafscale.console.watch import reading as page
from kafscale.console.watch.lags import group_lags
from kafscale.console.watch.rates import add_up, quantile_ms
from kafscale.model.metrics.metric_names import (
    FETCHED_BYTES,
    PRODUCED_BYTES,
    PRODUCED_RECORDS,
    S3_REQUESTS,
)

if TYPE_CHECKING:
    from kafscale.console.watch.watcher import ClusterWatcher

STATES: Final[tuple[StoreStateName, ...]] = ("healthy", "degraded", "unavailable")
OPERATIONS: Final = ("put", "get", "head", "list", "delete")
_TRAFFIC: Final = {
    PRODUCED_BYTES: "in_bytes_per_s",
    PRODUCED_RECORDS: "in_records_per_s",
    FETCHED_BYTES: "out_bytes_per_s",
}


def worst_state(watcher: "ClusterWatcher") -> StoreStateName | None:
    """The store's state as the broker feels it that feels it worst; None: no broker says."""
    said = {one.health for one in watcher.readings}
    return next((state for state in reversed(STATES) if state in said), None)


def note_readings(watcher: "ClusterWatcher") -> None:
    """Add a point to every series."""
    now_s = watcher.as_of_ms / 1000
    put = watcher.history.put
    state = worst_state(watcher)
    put(now_s, "store_state", None if state is None else float(STATES.index(state)))
    _note_rates(watcher, now_s)
    for number, broker in watcher.brokers.items():
        if broker.reading is None:
            continue
        label = (("broker", str(number)),)
        since_last = broker.window.rates(since_last=True)
        put(now_s, "broker_cpu", since_last.get((page.CPU,)), label)
        single = broker.reading.single
        put(now_s, "broker_memory_bytes", single.get(page.MEMORY), label)
        put(now_s, "broker_connections", single.get(page.CONNECTIONS), label)
    for lag in group_lags(watcher).values():
        label = (("group", lag.group),)
        put(now_s, "group_lag", lag.records, label)
        put(now_s, "group_lag_s", lag.seconds, label)


def _note_rates(watcher: "ClusterWatcher", now_s: float) -> None:
    put = watcher.history.put
    rates = add_up(state.window.rates(since_last=True) for state in watcher.brokers.values())
    if not rates:
        return
    requests = dict.fromkeys(OPERATIONS, 0.0)
    totals = dict.fromkeys(_TRAFFIC.values(), 0.0)
    by_topic: dict[tuple[str, str], float] = {}
    for key, rate in rates.items():
        if key[0] == S3_REQUESTS:
            requests[key[2]] = requests.get(key[2], 0.0) + rate
            if key[2] == "put":
                by_topic["topic_puts_per_s", key[1]] = rate
        elif (name := _TRAFFIC.get(key[0])) is not None:
            totals[name] += rate
            by_topic[f"topic_{name}", key[1]] = rate
    for operation, rate in requests.items():
        put(now_s, "requests_per_s", rate, (("operation", operation),))
        for share, name in ((0.5, "latency_p50_ms"), (0.99, "latency_p99_ms")):
            put(now_s, name, quantile_ms(rates, operation, share), (("operation", operation),))
    for name, rate in totals.items():
        put(now_s, name, rate)
    for (name, topic), rate in by_topic.items():
        put(now_s, name, rate, (("topic", topic),))
