"""How far groups are behind, from the last look: in records, in seconds, and whether it grows.

Next door: the brokers' own count of it (reading.py), when records came (ends.py).
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from kafscale.console.watch.watcher import ClusterWatcher

_TREND_S: Final = 300.0


@dataclass(slots=True)
class CountedLag:
    """A group over all that it reads."""

    group: str
    records: int = 0
    seconds: float | None = None
    is_at_least: bool = False
    topics: set[str] = field(default_factory=set)


def group_lags(watcher: "ClusterWatcher") -> dict[str, CountedLag]:
    """Every group that has committed something."""
    found: dict[str, CountedLag] = {}
    for (group, topic, partition), records in _each(watcher):
        _add(watcher, found.setdefault(group, CountedLag(group)), topic, partition, records)
    return found


def lags_by_topic(watcher: "ClusterWatcher") -> dict[str, dict[str, CountedLag]]:
    """The groups of each topic, with their lag there alone."""
    found: dict[str, dict[str, CountedLag]] = {}
    for (group, topic, partition), records in _each(watcher):
        lag = found.setdefault(topic, {}).setdefault(group, CountedLag(group))
        _add(watcher, lag, topic, partition, records)
    return found


def _each(watcher: "ClusterWatcher") -> Iterator[tuple[tuple[str, str, int], int]]:
    for one in watcher.readings:
        yield from one.lag.items()


def _add(
    watcher: "ClusterWatcher", lag: CountedLag, topic: str, partition: int, records: int
) -> None:
    lag.records += records
    lag.topics.add(topic)
    end = watcher.ends.newest(topic, partition)
    if end is None:
        return
    age = watcher.ends.age(watcher.as_of_ms / 1000, topic, partition, end - records)
    if age is not None and age.seconds >= (lag.seconds or 0.0):
        lag.seconds, lag.is_at_least = age.seconds, age.is_at_least


def trend(watcher: "ClusterWatcher", group: str) -> float | None:
    """How many records the lag grows in a second, over five minutes; None: not known yet."""
    label = (("group", group),)
    values = watcher.history.newest("group_lag", label, watcher.as_of_ms / 1000, _TREND_S)
    if len(values) < 3:
        return None
    third = max(len(values) // 3, 1)
    first, last = sum(values[:third]) / third, sum(values[-third:]) / third
    steps = len(values) - third
    return (last - first) / (steps * 5.0)


def catch_up_s(records: int | None, growth: float | None) -> float | None:
    """When the lag will be gone at this pace; None: never, or not known."""
    if records is None:
        return None
    if records == 0:
        return 0.0
    return records / -growth if growth is not None and growth < 0 else None
