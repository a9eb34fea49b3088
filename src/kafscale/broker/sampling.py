"""From what the parts of a broker report to series and log lines; what the process uses.

Next door: the series' names (engine/metrics/series.py), who is connected with whom (wiring.py).
"""

import os
import resource
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import structlog

from kafscale.engine.metrics.series import Probe
from kafscale.engine.partitions.store_gate import StoreGate
from kafscale.engine.topics.topic import Topic
from kafscale.log.writer.types import Observer
from kafscale.model.meters import SampleSource
from kafscale.model.metric_names import SHARED
from kafscale.objects.health import Health

logger = structlog.get_logger()

_STATM = Path("/proc/self/statm")

Tell = Callable[..., object]


def teller(flush_interval_ms: int) -> Tell:
    """Choose how flushes are logged.

    Without a flush interval, a flush is about one request: too many to log at level info.
    """
    tell: Tell = logger.info if flush_interval_ms else logger.debug
    return tell


def tell_received(topic: str, partition: int, size: int) -> None:
    """Log one batch, before more than its size is known."""
    logger.debug("produce_received", topic=topic, partition=partition, batch_size=size)


def observer_of(
    probe: Probe,
    topic: Topic | None,
    folder: str,
    buffered: Callable[[int], None],
    tell: Tell,
) -> Observer:
    """Make the observer of a log of `topic`; None: a log that many topics share."""
    name = SHARED if topic is None else topic.name
    flushes = probe.flushes.labels(name)
    flush_bytes = probe.flush_bytes.labels(name)
    if topic is not None:
        probe.offset_range_exhausted.labels(
            name
        )  # zero from the start: else the first rise is not seen
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
    """Give 1 for the state of the store, and 0 for the other states."""

    def rows() -> Iterator[tuple[Sequence[str], float]]:
        now = health.state()
        for state in Health:
            yield (state.value,), float(state is now)

    return rows


def resident_bytes() -> float:
    """Give the memory that this process uses now; where the system does not say, its peak."""
    if _STATM.exists():
        return int(_STATM.read_text().split()[1]) * os.sysconf("SC_PAGESIZE")
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def cpu_seconds() -> float:
    """Give the CPU time of all threads of this process."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime
