"""Filters become bounds; what is not understood prunes nothing."""

from datetime import UTC, datetime
from typing import Any

import pytest
from pyspark.sql import datasource as ds

from kafscale.spark.source.plan.filters import EVERYTHING, Bounds, bounds_of

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
NOON_MS = int(NOON.timestamp() * 1000)


@pytest.mark.parametrize(
    ("filters", "bounds"),
    [
        ([], EVERYTHING),
        ([ds.EqualTo(("topic",), "a")], Bounds(topics=frozenset("a"))),
        ([ds.In(("partition",), (1, 2)), ds.EqualTo(("partition",), 2)],
         Bounds(partitions=frozenset([2]))),
        ([ds.GreaterThan(("offset",), 5), ds.LessThanOrEqual(("offset",), 9)],
         Bounds(first=6, until=10)),
        ([ds.GreaterThanOrEqual(("offset",), 5), ds.LessThan(("offset",), 9)],
         Bounds(first=5, until=9)),
        ([ds.EqualTo(("offset",), 7)], Bounds(first=7, until=8)),
        ([ds.In(("offset",), (7, 3))], Bounds(first=3, until=8)),
        ([ds.GreaterThan(("timestamp",), NOON)], Bounds(since_ms=NOON_MS - 1)),
        ([ds.LessThan(("timestamp",), NOON)], Bounds(until_ms=NOON_MS + 1)),
        ([ds.EqualTo(("timestamp",), NOON)], Bounds(since_ms=NOON_MS - 1, until_ms=NOON_MS + 1)),
        ([ds.Not(ds.EqualTo(("offset",), 5))], EVERYTHING),
        ([ds.IsNotNull(("key",)), ds.StringStartsWith(("key",), "a")], EVERYTHING),
        ([ds.StringStartsWith(("topic",), "a")], Bounds(prefixes=("a",))),
        ([ds.EqualTo(("value", "offset"), 5), ds.EqualTo(("topic",), None)], EVERYTHING),
    ],
)  # fmt: skip
def test_filters_become_bounds(filters: list[Any], bounds: Bounds) -> None:
    assert bounds_of(filters) == bounds


def test_bounds_leave_out_topics_and_partitions() -> None:
    bounds = Bounds(topics=frozenset(["a"]), partitions=frozenset([1]))
    assert bounds.allow("a", 1)
    assert not bounds.allow("b", 1)
    assert not bounds.allow("a", 0)
    bounds = Bounds(prefixes=("web-", "web-logs"))
    assert bounds.allow("web-logs.v2", 0)
    assert not bounds.allow("web-shop", 0)
