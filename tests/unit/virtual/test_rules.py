"""Which topics are virtual: names first, patterns in their order, then the default."""

import pytest

from kafscale.model.errors import InvalidMapping
from kafscale.virtual.rules import Layout, LayoutRules, Override

DEFAULT = Layout(100, 10)
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
        ("metrics-memory", Layout(50, 5)),  # the first pattern that matches
        ("metrics.cpu", Layout(100, 2)),  # a name beats every pattern
        ("logs-raw", Layout(20, 4)),
        ("xlogs-a", DEFAULT),  # the whole name must match
        ("clicks-raw", Layout(100, 10, 1 << 30)),
    ],
)
def test_a_topic_has_one_layout(topic: str, layout: Layout) -> None:
    assert RULES.layout_of(topic) == layout


def test_a_dot_does_not_make_a_name_a_pattern() -> None:
    rules = LayoutRules.of(Layout(), {"a.b": Override(8, 2)})
    assert rules.layout_of("a.b") == Layout(8, 2)
    assert rules.layout_of("axb") == Layout()


@pytest.mark.parametrize(
    ("default", "overrides"),
    [
        (Layout(physical_partitions=0), {}),
        (Layout(2, 3), {}),
        (Layout(offset_range=1 << 19), {}),
        (Layout(offset_range=(1 << 40) + 1), {}),
        (Layout(100, 10), {"small": Override(virtual_partitions=5)}),
        (Layout(), {"[": Override(8, 2)}),
    ],
)
def test_what_cannot_hold_is_refused_at_once(
    default: Layout, overrides: dict[str, Override]
) -> None:
    with pytest.raises(InvalidMapping):
        LayoutRules.of(default, overrides)
