"""The lag of a stream, from Spark's own report."""

from typing import Any

from kafscale.spark import stream_lag


def report(**source: Any) -> dict[str, Any]:
    return {"sources": [source]}


def test_lag_is_what_lies_between_a_triggers_end_and_the_logs() -> None:
    found = stream_lag(
        report(endOffset='{"t": {"0": 7, "1": 3}}', latestOffset='{"t": {"0": 10, "1": 3, "2": 4}}')
    )
    assert found == (7, {"t": {"0": 3, "1": 0, "2": 4}})


def test_partitions_of_several_sources_are_summed() -> None:
    one = {"endOffset": {"t": {"0": 1}}, "latestOffset": {"t": {"0": 4}}}
    assert stream_lag({"sources": [one, one]}) == (6, {"t": {"0": 6}})


def test_where_no_end_is_told_nothing_is_known() -> None:
    assert stream_lag(None) is None
    assert stream_lag(report(endOffset='{"t": {"0": 7}}', latestOffset=None)) is None
    assert stream_lag(report(endOffset="17", latestOffset="18")) is None
    assert stream_lag(report(endOffset="not json", latestOffset="{")) is None
