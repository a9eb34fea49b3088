"""What a query's filters allow the reader to leave unread.

Here: bounds on topic, partition, offset and time, taken from the filters Spark offers. They only
ever prune; Spark filters the rows again, so a filter that is not understood costs time, nothing
else. Upper bounds on time prune the files of tables, not the log: a batch there knows its latest
record, not its earliest.
Next door: their users (planning.py, source/source.py).
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from kafscale.spark.kernels.decoder import LAST_OFFSET


@dataclass(frozen=True)
class Bounds:
    """Rows outside are not wanted."""

    topics: frozenset[str] | None = None
    partitions: frozenset[int] | None = None
    first: int = 0
    until: int = LAST_OFFSET
    since_ms: int | None = None
    until_ms: int | None = None
    prefixes: tuple[str, ...] = ()

    def allow_topic(self, topic: str) -> bool:
        """Whether a topic may hold wanted rows."""
        named = self.topics is None or topic in self.topics
        return named and all(topic.startswith(prefix) for prefix in self.prefixes)

    def allow(self, topic: str, partition: int) -> bool:
        """Whether a partition may hold wanted rows."""
        return self.allow_topic(topic) and (self.partitions is None or partition in self.partitions)


EVERYTHING = Bounds()


def bounds_of(filters: Iterable[Any]) -> Bounds:
    """All filters hold at once, so each may narrow what the others left."""
    bounds = EVERYTHING
    for condition in filters:
        path: tuple[str, ...] = getattr(condition, "attribute", ())
        if len(path) == 1:
            # By name: Spark 4.0 does not have these classes.
            bounds = _narrowed(
                bounds, path[0].lower(), type(condition).__name__, getattr(condition, "value", None)
            )
    return bounds


def _narrowed(bounds: Bounds, column: str, kind: str, value: Any) -> Bounds:
    match column, kind:
        case "topic", "EqualTo" | "EqualNullSafe" | "In":
            names = _values(kind, value, str)
            return bounds if names is None else replace(bounds, topics=_both(bounds.topics, names))
        case "topic", "StringStartsWith" if isinstance(value, str):
            return replace(bounds, prefixes=(*bounds.prefixes, value))
        case "partition", "EqualTo" | "EqualNullSafe" | "In":
            numbers = _values(kind, value, int)
            if numbers is None:
                return bounds
            return replace(bounds, partitions=_both(bounds.partitions, numbers))
        case "offset", "In":
            numbers = _values(kind, value, int)
            if not numbers:
                return bounds
            return _between(bounds, min(numbers), max(numbers) + 1)
        case "offset", _ if isinstance(value, int):
            return _offset(bounds, kind, value)
        case "timestamp", "GreaterThan" | "GreaterThanOrEqual":
            return _since(bounds, value)
        case "timestamp", "LessThan" | "LessThanOrEqual":
            return _up_to(bounds, value)
        case "timestamp", "EqualTo":
            return _up_to(_since(bounds, value), value)
        case _:
            return bounds


def _offset(bounds: Bounds, kind: str, value: int) -> Bounds:
    match kind:
        case "EqualTo" | "EqualNullSafe":
            return _between(bounds, value, value + 1)
        case "GreaterThan":
            return _between(bounds, value + 1, LAST_OFFSET)
        case "GreaterThanOrEqual":
            return _between(bounds, value, LAST_OFFSET)
        case "LessThan":
            return _between(bounds, 0, value)
        case "LessThanOrEqual":
            return _between(bounds, 0, value + 1)
        case _:
            return bounds


def _between(bounds: Bounds, first: int, until: int) -> Bounds:
    return replace(bounds, first=max(bounds.first, first), until=min(bounds.until, until))


def _since(bounds: Bounds, value: Any) -> Bounds:
    if not isinstance(value, datetime) or value.tzinfo is None:
        return bounds
    since = int(value.timestamp() * 1000) - 1  # floats round; one millisecond more is harmless
    return replace(bounds, since_ms=max(since, bounds.since_ms or since))


def _up_to(bounds: Bounds, value: Any) -> Bounds:
    if not isinstance(value, datetime) or value.tzinfo is None:
        return bounds
    until = int(value.timestamp() * 1000) + 1  # as above
    return replace(
        bounds, until_ms=until if bounds.until_ms is None else min(until, bounds.until_ms)
    )


def _values(kind: str, value: Any, of: type) -> frozenset[Any] | None:
    rows = value if kind == "In" else (value,)
    return frozenset(rows) if all(isinstance(row, of) for row in rows) else None


def _both(old: frozenset[Any] | None, new: frozenset[Any]) -> frozenset[Any]:
    return new if old is None else old & new
