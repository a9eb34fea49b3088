"""From the parts of an engine to series and log lines.

Here: what each part reports as it happens, and what is read from it at each scrape.
Next door: the names of the series (series.py), the rows of logs and partitions (log_gauges.py).
"""

from collections.abc import Callable, Iterator, Sequence

import structlog

from kafscale.engine.metrics.series import BrokerMetrics
from kafscale.engine.partitions.store_gate import StoreGate
from kafscale.engine.topics.topic import Topic
from kafscale.log.writer.types import Observer
from kafscale.model.meters import SampleSource
from kafscale.model.metric_names import SHARED
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


def states_of(health: StoreGate) -> SampleSource:
    """One for the state the store is in, zero for the others."""

    def rows() -> Iterator[tuple[Sequence[str], float]]:
        now = health.state()
        for state in Health:
            yield (state.value,), float(state is now)

    return rows
