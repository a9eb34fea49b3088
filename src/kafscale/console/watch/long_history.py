"""Numbers over weeks: the same series as in the console's own history, asked of Prometheus.

Here: what each series is in PromQL. Next door: the last day (history.py), the question
(admin/cost/range_query.py).
"""

import math
from collections.abc import Iterable, Mapping
from typing import Final

from kafscale.admin.cost.range_query import RangeLine
from kafscale.console.watch import reading as page
from kafscale.console.watch.history import HistoryLine
from kafscale.model.metrics.metric_names import (
    FETCHED_BYTES,
    PRODUCED_BYTES,
    PRODUCED_RECORDS,
    S3_REQUESTS,
)

SPANS_S: Final = {"7d": 7 * 86_400, "30d": 30 * 86_400}
STEPS_S: Final = {"7d": 600, "30d": 3600}
_BUCKETS: Final = page.LATENCY_BUCKET
_STATE: Final = "kafscale_s3_health_state"
_INSTANCE: Final = "instance"
# {labels}: what lines must have, {window}: the step of the answer.
_EXPRESSIONS: Final = {
    "requests_per_s": f"sum by (operation) (rate({S3_REQUESTS}{{labels}}[{{window}}]))",
    "latency_p50_ms": f"1000 * histogram_quantile(0.5, sum by (operation, le) "
    f"(rate({_BUCKETS}{{labels}}[{{window}}])))",
    "latency_p99_ms": f"1000 * histogram_quantile(0.99, sum by (operation, le) "
    f"(rate({_BUCKETS}{{labels}}[{{window}}])))",
    "store_state": f'clamp_max(max({_STATE}{{state="degraded"}}) '
    f'+ 2 * max({_STATE}{{state="unavailable"}}), 2)',
    "in_bytes_per_s": f"sum(rate({PRODUCED_BYTES}[{{window}}]))",
    "out_bytes_per_s": f"sum(rate({FETCHED_BYTES}[{{window}}]))",
    "in_records_per_s": f"sum(rate({PRODUCED_RECORDS}[{{window}}]))",
    "topic_puts_per_s": f"sum by (topic) (rate({S3_REQUESTS}{{labels}}[{{window}}]))",
    "topic_in_bytes_per_s": f"sum by (topic) (rate({PRODUCED_BYTES}{{labels}}[{{window}}]))",
    "topic_out_bytes_per_s": f"sum by (topic) (rate({FETCHED_BYTES}{{labels}}[{{window}}]))",
    "topic_in_records_per_s": f"sum by (topic) (rate({PRODUCED_RECORDS}{{labels}}[{{window}}]))",
    "group_lag": "sum by (group) (kafscale_consumer_lag{labels})",
    "broker_cpu": f"sum by ({_INSTANCE}) (rate({page.CPU}{{labels}}[{{window}}]))",
    "broker_memory_bytes": f"sum by ({_INSTANCE}) ({page.MEMORY}{{labels}})",
    "broker_connections": f"sum by ({_INSTANCE}) ({page.CONNECTIONS}{{labels}})",
}
_ALSO: Final = {"topic_puts_per_s": {"operation": "put"}}


def expression(
    name: str, labels: Mapping[str, str], instances: Mapping[str, str], step_s: int
) -> str | None:
    """A series in PromQL; None: Prometheus does not have it.

    `instances`: by broker, the address under which Prometheus reads it.
    """
    text = _EXPRESSIONS.get(name)
    if text is None:
        return None
    wanted = {**labels, **_ALSO.get(name, {})}
    if (broker := wanted.pop("broker", None)) is not None:
        wanted[_INSTANCE] = instances.get(broker, "")
    matchers = ",".join(f'{label}="{_escaped(value)}"' for label, value in wanted.items())
    return text.replace("{labels}", f"{{{matchers}}}" if matchers else "").replace(
        "{window}", f"{step_s}s"
    )


def _escaped(value: str) -> str:
    return value.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")


def moments(now_s: float, span: str) -> tuple[list[int], int]:
    """The moments of an answer in Unix seconds, and their distance."""
    step_s = STEPS_S[span]
    last = int(now_s // step_s) * step_s
    return list(range(last - SPANS_S[span] + step_s, last + 1, step_s)), step_s


def lines_of(
    name: str, found: Iterable[RangeLine], instances: Mapping[str, str], at_s: list[int]
) -> list[HistoryLine]:
    """What Prometheus answered, as lines of the console; a moment without a number is a gap."""
    brokers = {address: broker for broker, address in instances.items()}
    lines = []
    for one in found:
        labels = dict(one.metric)
        if (instance := labels.pop(_INSTANCE, None)) is not None:
            labels["broker"] = brokers.get(instance, instance)
        known = {int(moment): float(value) for moment, value in one.values}
        values = [known.get(moment) for moment in at_s]
        lines.append(
            HistoryLine(
                name,
                labels,
                [None if value is None or not math.isfinite(value) else value for value in values],
            )
        )
    return lines
