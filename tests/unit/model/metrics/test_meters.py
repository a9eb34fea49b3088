"""Meters count, and Prometheus can read them."""

import math
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafscale.model.metrics.meters import OVERFLOW, Registry
from tests.support.exposition import parse, series


def test_the_text_is_what_prometheus_expects() -> None:
    registry = Registry()
    requests = registry.counter("requests_total", "How many", ("topic", "status"))
    requests.labels("orders", "ok").inc()
    requests.labels("orders", "ok").inc(2)
    requests.labels("orders", "bad").inc()
    registry.gauge("open", "Now open\nor \\ not").labels().set(2.5)
    seconds = registry.histogram("seconds", "How long", (0.1, 1), ("topic",))
    for value in (0.05, 0.1, 0.5, 3):
        seconds.labels("a").observe(value)
    assert registry.render() == (
        b"# HELP requests_total How many\n"
        b"# TYPE requests_total counter\n"
        b'requests_total{topic="orders",status="ok"} 3\n'
        b'requests_total{topic="orders",status="bad"} 1\n'
        b"# HELP open Now open\\nor \\\\ not\n"
        b"# TYPE open gauge\n"
        b"open 2.5\n"
        b"# HELP seconds How long\n"
        b"# TYPE seconds histogram\n"
        b'seconds_bucket{topic="a",le="0.1"} 2\n'
        b'seconds_bucket{topic="a",le="1.0"} 3\n'
        b'seconds_bucket{topic="a",le="+Inf"} 4\n'
        b'seconds_sum{topic="a"} 3.65\n'
        b'seconds_count{topic="a"} 4\n'
    )


def test_a_series_without_labels_is_there_from_the_start_and_one_with_labels_is_not() -> None:
    registry = Registry()
    registry.counter("a_total", "A")
    registry.counter("b_total", "B", ("x",))
    assert parse(registry.render()) == {series("a_total"): 0}


def test_a_series_is_the_same_each_time_it_is_asked_for() -> None:
    family = Registry().gauge("open", "Open", ("topic",))
    gauge = family.labels("a")
    gauge.set(5)
    gauge.inc()
    gauge.dec(2)
    assert family.labels("a") is gauge
    assert family.labels("a").value == 4
    assert family.labels("b").value == 0


@given(st.text() | st.binary().map(lambda raw: raw.decode("utf-8", "surrogateescape")), st.text())
def test_any_label_value_stays_inside_its_quotes(one: str, other: str) -> None:
    registry = Registry()
    registry.counter("a_total", "A", ("one", "other")).labels(one, other).inc()
    readable = [text.encode("utf-8", "replace").decode() for text in (one, other)]
    text = registry.render()
    assert text.count(b"\n") == 3
    assert parse(text) == {series("a_total", one=readable[0], other=readable[1]): 1}


@given(st.lists(st.floats(0, 10), max_size=50))
def test_each_bucket_counts_everything_up_to_its_end(values: list[float]) -> None:
    registry = Registry()
    bounds = (0.5, 1, 2.5, 5)
    histogram = registry.histogram("h", "H", bounds).labels()
    for value in values:
        histogram.observe(value)
    samples = parse(registry.render())
    for bound in bounds:
        expected = sum(value <= bound for value in values)
        assert samples[series("h_bucket", le=str(float(bound)))] == expected
    assert samples[series("h_bucket", le="+Inf")] == len(values)
    assert samples[series("h_count")] == histogram.count == len(values)
    assert samples[series("h_sum")] == pytest.approx(sum(values))


@pytest.mark.parametrize("value", [0, 1, 2**63, 0.1, 1e300, 1e-9, -3.5, math.inf, -math.inf])
def test_every_number_can_be_read_back(value: float) -> None:
    registry = Registry()
    registry.gauge("g", "G").labels().set(value)
    assert parse(registry.render()) == {series("g"): value}


def test_what_is_not_a_number_is_written_as_such() -> None:
    registry = Registry()
    registry.gauge("g", "G").labels().set(math.nan)
    assert b"g NaN\n" in registry.render()


def test_beyond_the_limit_one_series_counts_for_all() -> None:
    registry = Registry()
    family = registry.counter("a_total", "A", ("topic", "partition"), limit=2)
    for topic in ("a", "b", "c", "d", "a"):
        family.labels(topic, "0").inc()
    assert parse(registry.render()) == {
        series("a_total", topic="a", partition="0"): 2,
        series("a_total", topic="b", partition="0"): 1,
        series("a_total", topic=OVERFLOW, partition=OVERFLOW): 2,
    }


def test_a_forgotten_topic_leaves_no_series() -> None:
    registry = Registry()
    family = registry.counter("a_total", "A", ("topic", "partition"))
    for topic, partition in (("a", "0"), ("a", "1"), ("b", "0")):
        family.labels(topic, partition).inc()
    family.forget("topic", "a")
    assert list(parse(registry.render())) == [series("a_total", topic="b", partition="0")]


def test_sampled_rows_are_those_of_the_moment() -> None:
    registry = Registry()
    rows: list[tuple[Sequence[str], float]] = [(["a"], 1), (["b"], 2)]
    registry.sampled("lag", "Lag", lambda: rows, ("topic",))
    registry.sampled("cpu_total", "CPU", lambda: [((), 1.5)], kind="counter")
    assert parse(registry.render()) == {
        series("lag", topic="a"): 1,
        series("lag", topic="b"): 2,
        series("cpu_total"): 1.5,
    }
    rows[:] = [(["c"], 3)]
    assert parse(registry.render()) == {series("lag", topic="c"): 3, series("cpu_total"): 1.5}
    rows.clear()
    assert b"lag" not in registry.render()


def test_mistakes_are_found_when_a_family_is_added() -> None:
    registry = Registry()
    registry.counter("a_total", "A")
    with pytest.raises(ValueError, match="already"):
        registry.gauge("a_total", "A")
    with pytest.raises(ValueError, match="name"):
        registry.counter("a-b", "A")
    with pytest.raises(ValueError, match="name"):
        registry.counter("b", "A", ("x y",))
    with pytest.raises(ValueError, match="rise"):
        registry.histogram("h", "H", (1, 1, 2))
    with pytest.raises(ValueError, match="as many"):
        registry.counter("c", "C", ("x",)).labels("1", "2")
