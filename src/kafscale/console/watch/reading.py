"""One look at a broker's metrics page, sorted by what pages of the console need.

Here: from samples to figures. Next door: reading the text (admin/cost/metrics_page.py), what
becomes of several looks (rates.py, history.py).
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from kafscale.admin.cost.metrics_page import MetricSample
from kafscale.model.metrics.metric_names import (
    FETCHED_BYTES,
    PRODUCED_BYTES,
    PRODUCED_RECORDS,
    S3_BYTES,
    S3_REQUESTS,
    STARTED,
)

S3_OPERATIONS: Final = "kafscale_s3_operations_total"
LATENCY_BUCKET: Final = "kafscale_s3_latency_seconds_bucket"
LOG_PUTS: Final = "kafscale_log_puts_total"
CPU: Final = "process_cpu_seconds_total"
MEMORY: Final = "process_resident_memory_bytes"
CONNECTIONS: Final = "kafscale_active_connections"
CONTROLLER: Final = "kafscale_is_controller"
GENERATION: Final = "kafscale_members_generation"
LOGS_OWNED: Final = "kafscale_logs_owned"
HANDOVERS: Final = "kafscale_handovers_total"
CHECKPOINT_AGE: Final = "kafscale_checkpoint_age_seconds"
PARTITIONS_UNTRACKED: Final = "kafscale_partitions_untracked"
LAG_UNTRACKED: Final = "kafscale_consumer_lag_untracked_total"
_HEALTH: Final = "kafscale_s3_health_state"
_LAG: Final = "kafscale_consumer_lag"
_GROUPS: Final = "kafscale_groups"
_MOVES: Final = "kafscale_moves"
_PARTITION_RECORDS: Final = "kafscale_partition_records"
_PARTITION_BYTES: Final = "kafscale_partition_bytes"
_LOG_FIGURES: Final = {
    "kafscale_log_lanes": "lanes",
    "kafscale_log_end_position": "end",
    "kafscale_log_tail_objects": "tail_objects",
    "kafscale_log_live_bytes": "live_bytes",
    "kafscale_log_dead_bytes": "dead_bytes",
}
# Counters, and the labels that tell their series apart here.
_COUNTERS: Final[dict[str, tuple[str, ...]]] = {
    S3_REQUESTS: ("topic", "operation"),
    S3_BYTES: ("topic", "operation"),
    S3_OPERATIONS: ("operation", "status"),
    LATENCY_BUCKET: ("operation", "le"),
    LOG_PUTS: ("topic", "log"),
    PRODUCED_BYTES: ("topic",),
    PRODUCED_RECORDS: ("topic",),
    FETCHED_BYTES: ("topic",),
    CPU: (),
}
_SINGLE: Final = frozenset(
    {
        STARTED,
        MEMORY,
        CONNECTIONS,
        CONTROLLER,
        GENERATION,
        LOGS_OWNED,
        HANDOVERS,
        CHECKPOINT_AGE,
        PARTITIONS_UNTRACKED,
        LAG_UNTRACKED,
    }
)
NAMES: Final = frozenset(
    {
        *_COUNTERS,
        *_SINGLE,
        *_LOG_FIGURES,
        _HEALTH,
        _LAG,
        _GROUPS,
        _MOVES,
        _PARTITION_RECORDS,
        _PARTITION_BYTES,
    }
)

CounterKey = tuple[str, ...]  # the name of the series, then the values of its labels
LogKey = tuple[str, str]  # topic, or @shared, and the log's number


@dataclass(slots=True)
class BrokerReading:
    """What one page said at one moment."""

    at_s: float  # Unix time
    single: dict[str, float] = field(default_factory=dict)
    counters: dict[CounterKey, float] = field(default_factory=dict)
    records: dict[tuple[str, int], int] = field(default_factory=dict)
    bytes: dict[tuple[str, int], int] = field(default_factory=dict)
    lag: dict[tuple[str, str, int], int] = field(default_factory=dict)  # group, topic, partition
    logs: dict[LogKey, dict[str, int]] = field(default_factory=dict)
    groups: int = 0
    moves: dict[str, int] = field(default_factory=dict)  # by phase
    health: str | None = None

    @property
    def started_s(self) -> float:
        """When the broker's process began."""
        return self.single.get(STARTED, 0.0)


def read_page(samples: Iterable[MetricSample], at_s: float) -> BrokerReading:
    """Sort the samples of a page."""
    reading = BrokerReading(at_s)
    for name, labels, value in samples:
        if (wanted := _COUNTERS.get(name)) is not None:
            key = (name, *(labels.get(label, "") for label in wanted))
            reading.counters[key] = reading.counters.get(key, 0.0) + value
        elif name in _SINGLE:
            reading.single[name] = value
        else:
            _take(reading, name, labels, value)
    return reading


def _take(reading: BrokerReading, name: str, labels: dict[str, str], value: float) -> None:
    topic = labels.get("topic", "")
    if name == _PARTITION_RECORDS:
        reading.records[topic, _number(labels)] = int(value)
    elif name == _PARTITION_BYTES:
        reading.bytes[topic, _number(labels)] = int(value)
    elif name == _LAG:
        reading.lag[labels.get("group", ""), topic, _number(labels)] = int(value)
    elif name == _GROUPS:
        reading.groups += int(value)
    elif name == _MOVES:
        if value:
            reading.moves[labels.get("phase", "")] = int(value)
    elif name == _HEALTH:
        if value:
            reading.health = labels.get("state")
    else:
        figures = reading.logs.setdefault((topic, labels.get("log", "")), {})
        figures[_LOG_FIGURES[name]] = int(value)


def _number(labels: dict[str, str]) -> int:
    text = labels.get("partition", "")
    return int(text) if text.isdecimal() else -1
