"""Which topics are virtual: names first, patterns in their order, then the default."""

import pytest

from kafscale.model.errors import InvalidMapping
from kafscale.virtual.rules import LayoutRules, Override, PartitionLayout

DEFAULT = PartitionLayout(100, 10)
RULES = LayoutRules.of(
    DEFAULT,
    {
        "metrics.*": Override(50, 5),
        "metrics.cpu": Override(physical_partitions=2),
        "(metrics|logs)-.+": Override(20, 4),
        ".*-raw": Override(offset_range=1 << 30),
    },
)


@pytest.mark.parametrize(
    ("topic", "layout"),
    [
        ("orders", DEFAULT),
        ("metrics-memory", PartitionLayout(50, 5)),  # the first pattern that matches
        ("metrics.cpu", PartitionLayout(100, 2)),  # a name beats every pattern
        ("logs-raw", PartitionLayout(20, 4)),
        ("xlogs-a", DEFAULT),  # the whole name must match
        ("clicks-raw", PartitionLayout(100, 10, 1 << 30)),
    ],
)
def test_a_topic_has_one_layout(topic: str, layout: PartitionLayout) -> None:
    assert RULES.layout_of(topic) == layout


def test_a_dot_does_not_make_a_name_a_pattern() -> None:
    rules = LayoutRules.of(PartitionLayout(), {"a.b": Override(8, 2)})
    assert rules.layout_of("a.b") == PartitionLayout(8, 2)
    assert rules.layout_of("axb") == PartitionLayout()


@pytest.mark.parametrize(
    ("default", "overrides"),
    [
        (PartitionLayout(physical_partitions=0), {}),
        (PartitionLayout(2, 3), {}),
        (PartitionLayout(offset_range=1 << 19), {}),
        (PartitionLayout(offset_range=(1 << 40) + 1), {}),
        (PartitionLayout(100, 10), {"small": Override(virtual_partitions=5)}),
        (PartitionLayout(), {"[": Override(8, 2)}),
        (PartitionLayout(), {"(a)\\1": Override(8, 2)}),  # only an engine that goes back has it
        (PartitionLayout(), {"((a{1000}){1000}){1000}": Override(8, 2)}),  # a large machine
    ],
)
def test_what_cannot_hold_is_refused_at_once(
    default: PartitionLayout, overrides: dict[str, Override]
) -> None:
    with pytest.raises(InvalidMapping):
        LayoutRules.of(default, overrides)


@pytest.mark.parametrize("pattern", ["(a+)+b", "(a|a)*b", "(.*.*)*!", "(?:a?){100}a{100}b"])
def test_no_name_makes_a_pattern_slow(pattern: str) -> None:
    rules = LayoutRules.of(DEFAULT, {pattern: Override(50, 5)})
    assert rules.layout_of("a" * 249) == DEFAULT  # an engine that goes back never ends


def test_a_pattern_that_cannot_be_read_is_named_with_its_reason() -> None:
    with pytest.raises(InvalidMapping, match=r"^a\[: neither .* pattern: missing \]: \["):
        LayoutRules.of(DEFAULT, {"a[": Override(8, 2)})
