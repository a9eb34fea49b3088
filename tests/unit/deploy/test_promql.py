"""The reader of PromQL finds the names, so that the tests built on it can fail."""

import pytest

from tests.support.promql import BadExpression, read


def test_series_labels_and_clauses_are_told_apart() -> None:
    spoken = read(
        'sum by (topic, le) (rate(a_total{topic=~"$topic", status="ok"}[$__rate_interval]))'
        ' / on (topic) group_left (x) avg without (y) (b{z!="1"}) * 86.4 > 1e3 and c offset 5m'
    )
    assert spoken.series == {"a_total": {"topic", "status"}, "b": {"z"}, "c": set()}
    assert spoken.matches == [("a_total", "status", "ok")]
    assert spoken.clauses == [
        ("by", {"topic", "le"}),
        ("on", {"topic"}),
        ("group_left", {"x"}),
        ("without", {"y"}),
    ]
    assert spoken.functions == {"sum", "rate", "avg"}
    assert spoken.grouped_by == {"topic", "le"}


@pytest.mark.parametrize(
    "expression",
    [
        "sum(a",
        "sum(a))",
        'a{b="c"',
        "a{b=c}",
        "sum by topic (a)",
        "a ? b",
        "histogram_quantile(0.99, sum by (topic) (rate(a_bucket[5m])))",
        "histogram_quantile(0.99, rate(a_bucket[5m])) by (operation)",
    ],
)
def test_what_prometheus_would_refuse_is_refused(expression: str) -> None:
    with pytest.raises(BadExpression):
        read(expression)
