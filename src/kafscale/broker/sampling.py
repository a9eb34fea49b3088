"""From what the parts of a broker say to series and log lines.

Next door: the series' names (engine/metrics/series.py), who is connected with whom (wiring.py).
"""

from collections.abc import Callable, Iterator, Sequence

import structlog

from kafscale.engine.metrics.series import Probe
from kafscale.engine.partitions.store_gate import StoreGate
from kafscale.engine.topics.topic import Topic
from kafscale.log.writer.types import Observer
from kafscale.model.meters import SampleSource
from kafscale.model.metric_names import SHARED
from kafscale.objects.health import Health

logger = structlog.get_logger()

Tell = Callable[..., object]


def teller(flush_interval_ms: int) -> Tell:
    """How flushes are told of.

    Without an interval to gather in, a flush is about one request: too much to tell of each.
    """
    tell: Tell = logger.info if flush_interval_ms else logger.debug
    return tell


def tell_received(topic: str, partition: int, size: int) -> None:
    """Tell of one batch, before anything is known of it but its size."""
    logger.debug("produce_received", topic=topic, partition=partition, batch_size=size)


def observer_of(
    probe: Probe,
    topic: Topic | None,
    folder: str,
    buffered: Callable[[int], None],
    tell: Tell,
) -> Observer:
    """Who is told what a log of `topic` does; None: one that many share."""
    name = SHARED if topic is None else topic.name
    flushes = probe.flushes.labels(name)
    flush_bytes = probe.flush_bytes.labels(name)
    if topic is not None:
        probe.offset_range_exhausted.labels(name)  # zero from the start, or a rise goes unseen
    partition = int(folder.rpartition("/")[2])

    def flushed(base: int, size: int, records: int, seconds: float) -> None:
        flushes.inc()
        flush_bytes.inc(size)
        tell(
            "segment_flushed",
            topic=name,
            partition=partition,
            base_offset=base,
            size_bytes=size,
            duration=seconds,
        )

    return Observer(
        flushed=flushed,
        rolled_up=lambda _objects: probe.rollups.inc(),
        buffered=buffered,
        found_broken=lambda _name: probe.broken_objects.inc(),
    )


def states_of(health: StoreGate) -> SampleSource:
    """One for the state the store is in, zero for the others."""

    def rows() -> Iterator[tuple[Sequence[str], float]]:
        now = health.state()
        for state in Health:
            yield (state.value,), float(state is now)

    return rows
