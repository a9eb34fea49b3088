"""From the parts of an engine to series and log lines.

Here: what each part reports as it happens, and what is read from it at each scrape.
Next door: the names of the series (series.py), the rows of logs and partitions (log_gauges.py).
"""

import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Protocol

import structlog

from kafscale.engine.cluster.membership import Membership
from kafscale.engine.coordinator.groups import Groups
from kafscale.engine.metrics.lag import ConsumerLag
from kafscale.engine.metrics.log_gauges import LogGauges
from kafscale.engine.metrics.series import MAX_SERIES, BrokerMetrics
from kafscale.engine.moves.moves import Moves
from kafscale.engine.partitions.open_logs import OpenLogs
from kafscale.engine.partitions.store_gate import StoreGate
from kafscale.engine.topics.registry import TopicRegistry
from kafscale.engine.topics.topic import Topic
from kafscale.engine.transactions.transactions import Transactions
from kafscale.log.writer.types import Observer
from kafscale.model.metrics.meters import SampleSource
from kafscale.model.metrics.metric_names import SHARED
from kafscale.objects.health import Health

logger = structlog.get_logger()

WriteLine = Callable[..., object]


class BufferedBytes:
    """Bytes that wait to be flushed, in all logs together."""

    def __init__(self) -> None:
        self.size = 0

    def add(self, delta: int) -> None:
        """Count bytes that came, or, with a negative number, that were flushed."""
        self.size += delta


def flush_line(*, is_info: bool) -> WriteLine:
    """The function that writes a log line for a flush.

    Without a flush interval every request is a flush: too many lines for level info.
    """
    write_line: WriteLine = logger.info if is_info else logger.debug
    return write_line


def log_received(topic: str, partition: int, size: int) -> None:
    """Write a log line for a batch that has come, before it is validated."""
    logger.debug("produce_received", topic=topic, partition=partition, batch_size=size)


def observer_of(
    metrics: BrokerMetrics,
    topic: Topic | None,
    folder: str,
    buffered: Callable[[int], None],
    write_line: WriteLine,
) -> Observer:
    """The observer of a log of `topic`; None: of a shared log."""
    name = SHARED if topic is None else topic.name
    flushes = metrics.flushes.labels(name)
    flush_bytes = metrics.flush_bytes.labels(name)
    if topic is not None:
        metrics.offset_range_exhausted.labels(name)  # zero from the start, or a rise goes unseen
    partition = int(folder.rpartition("/")[2])

    def flushed(base: int, size: int, records: int, seconds: float) -> None:
        flushes.inc()
        flush_bytes.inc(size)
        write_line(
            "segment_flushed",
            topic=name,
            partition=partition,
            base_offset=base,
            size_bytes=size,
            duration=seconds,
        )

    return Observer(
        flushed=flushed,
        rolled_up=lambda _objects: metrics.rollups.inc(),
        buffered=buffered,
        found_broken=lambda _name: metrics.broken_objects.inc(),
    )


class SampledParts(Protocol):
    """The parts of an engine that are read at each scrape."""

    @property
    def cluster(self) -> Membership: ...
    @property
    def logs(self) -> OpenLogs: ...
    @property
    def groups(self) -> Groups: ...
    @property
    def lag(self) -> ConsumerLag: ...
    @property
    def moves(self) -> Moves: ...
    @property
    def transactions(self) -> Transactions: ...
    @property
    def store_gate(self) -> StoreGate: ...
    @property
    def metrics(self) -> BrokerMetrics: ...


def sample_engine(
    parts: SampledParts,
    topics: TopicRegistry,
    checkpoint_age: Callable[[], float | None],
    compaction_left: SampleSource,
) -> None:
    """Have an engine's figures read at each scrape."""
    metrics, logs, cluster, lag = parts.metrics, parts.logs, parts.cluster, parts.lag
    metrics.sample_buffers(lambda: _buffers(logs, topics))
    metrics.sample_logs(LogGauges(logs.each, topics.residents, lambda: topics.revision))
    metrics.sample_traffic(
        produced_bytes=lambda: _traffic(topics, lambda topic: topic.appended_bytes),
        produced_records=lambda: _traffic(topics, lambda topic: topic.appended_records),
        fetched=lambda: _traffic(topics, lambda topic: topic.fetched_bytes),
    )
    metrics.sample_store_health(states_of(parts.store_gate))
    metrics.sample_groups(lambda: _group_states(parts.groups), parts.groups.member_count)
    metrics.sample_consumer_lag(lag.rows)
    metrics.sample_untracked_lag(lambda: lag.untracked)
    metrics.sample_compaction(compaction_left)
    metrics.sample_moves(parts.moves.counts, parts.moves.ages)
    metrics.sample_transactions(parts.transactions.open_count, parts.transactions.oldest_open_s)
    metrics.sample_checkpoint_age(checkpoint_age)
    metrics.sample_fleet(
        is_controller=lambda: cluster.is_controller,
        generation=lambda: cluster.generation,
        logs=logs.count,
        stopped=logs.stopped,
        handovers=lambda: logs.handed_over,
    )


def _traffic(
    topics: TopicRegistry, look: Callable[[Topic], int]
) -> Iterator[tuple[Sequence[str], float]]:
    """Topics that were written to, or read, through this broker."""
    counted = ((topic.name, look(topic)) for topic in topics.all())
    for name, count in itertools.islice((row for row in counted if row[1]), MAX_SERIES):
        yield (name,), float(count)


def _buffers(logs: OpenLogs, topics: TopicRegistry) -> Iterator[tuple[Sequence[str], float]]:
    """Topic and partition, with the bytes that wait to be flushed."""
    for topic, log in logs.each():
        waiting = log.pending_bytes()
        if topic is not None:
            partition = log.folder.rpartition("/")[2]
            yield (topic.name, partition), float(sum(waiting.values()))
            continue
        residents = topics.residents(log.folder)
        for lane, size in waiting.items():
            if lane in residents:
                owner, number = residents[lane]
                yield (owner.name, str(number)), float(size)


def _group_states(groups: Groups) -> Iterator[tuple[Sequence[str], float]]:
    for state, count in groups.states():
        yield (state,), float(count)


def states_of(health: StoreGate) -> SampleSource:
    """One for the state the store is in, zero for the others."""

    def rows() -> Iterator[tuple[Sequence[str], float]]:
        now = health.state()
        for state in Health:
            yield (state.value,), float(state is now)

    return rows
