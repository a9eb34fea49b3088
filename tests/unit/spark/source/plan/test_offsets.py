"""Arithmetic on the offsets of many partitions."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafscale.spark.source.plan import offsets
from kafscale.spark.source.plan.offsets import DataLost, PartitionOffsets
from kafscale.spark.source.plan.options import BadOption, OffsetRule
from kafscale.spark.views import PartitionView

VIEW = PartitionView("t", 0, 10, 50, ())


def resolve(rule: OffsetRule, found: int | None = None, latest: bool = False) -> int:
    answer = offsets.resolve(
        rule, [VIEW], lambda _view, _time: found, side="starting", no_match_is_latest=latest
    )
    return answer["t", 0]


def test_rules_become_offsets() -> None:
    assert resolve(OffsetRule("earliest")) == 10
    assert resolve(OffsetRule("latest")) == 50
    assert resolve(OffsetRule("offsets", {"t": {0: 23}})) == 23
    assert resolve(OffsetRule("offsets", {"t": {0: -2}})) == 10
    assert resolve(OffsetRule("offsets", {"t": {0: -1}})) == 50
    assert resolve(OffsetRule("timestamp", timestamp_ms=5), found=31) == 31
    assert resolve(OffsetRule("timestamps", {"t": {0: 5}}), found=32) == 32
    assert resolve(OffsetRule("timestamp", timestamp_ms=5), latest=True) == 50


def test_a_time_after_the_last_record_is_an_error_unless_told_otherwise() -> None:
    with pytest.raises(BadOption, match="no record at or after 5"):
        resolve(OffsetRule("timestamp", timestamp_ms=5))


def test_every_partition_must_be_named() -> None:
    with pytest.raises(BadOption, match="t-0"):
        resolve(OffsetRule("offsets", {"t": {1: 3}}))


def test_errors_name_the_option_that_was_given() -> None:
    with pytest.raises(BadOption, match=r"^startingOffsetsByTimestamp: nothing said about t-0"):
        resolve(OffsetRule("timestamps", {"t": {}}))
    with pytest.raises(BadOption, match=r"^startingTimestamp: "):
        resolve(OffsetRule("timestamp", timestamp_ms=5))


def test_offsets_of_partitions_that_the_query_does_not_read_are_refused() -> None:
    offsets.refuse_unknown_partitions(OffsetRule("offsets", {"t": {0: 3}}), [VIEW], "starting")
    for strange in ({"t": {0: 3, 1: 3}}, {"t": {0: 3}, "other": {0: 3}}):
        with pytest.raises(
            BadOption, match=r"endingOffsets: the query does not read (t-1|other-0)"
        ):
            offsets.refuse_unknown_partitions(OffsetRule("offsets", strange), [VIEW], "ending")


def test_json_goes_both_ways() -> None:
    found: PartitionOffsets = {("b", 10): 1, ("a", 2): 5, ("a", 1): 7}
    assert offsets.to_json(found) == {"a": {"1": 7, "2": 5}, "b": {"10": 1}}
    assert offsets.from_json(offsets.to_json(found)) == found


def test_lost_data_is_an_error_or_left_out() -> None:
    assert offsets.within(VIEW, 10, 50, fail_on_data_loss=True) == (10, 50)
    assert offsets.within(VIEW, 3, 60, fail_on_data_loss=False) == (10, 50)
    assert offsets.within(VIEW, 1, 5, fail_on_data_loss=False) == (10, 10)
    with pytest.raises(DataLost, match="offsets 3 to 9 have been deleted"):
        offsets.within(VIEW, 3, 20, fail_on_data_loss=True)
    with pytest.raises(DataLost, match="51 was asked for and the log ends at 50"):
        offsets.within(VIEW, 20, 51, fail_on_data_loss=True)
    with pytest.raises(DataLost, match="60 was asked for"):
        offsets.within(VIEW, 60, 50, fail_on_data_loss=True)
    assert offsets.within(VIEW, 60, 50, fail_on_data_loss=False) == (50, 50)


PLACES = st.dictionaries(st.integers(0, 9), st.tuples(st.integers(0, 99), st.integers(0, 99)))


@given(rows=PLACES, most=st.integers(0, 300))
def test_limits_are_kept_and_used_up(rows: dict[int, tuple[int, int]], most: int) -> None:
    start = {("t", p): begin for p, (begin, _) in rows.items()}
    latest = {("t", p): begin + more for p, (begin, more) in rows.items()}
    end = offsets.limited(start, latest, most)
    moved = sum(end[place] - start[place] for place in start)
    waiting = sum(more for _, more in rows.values())
    assert moved == (min(most, waiting) if most else waiting)
    assert all(start[place] <= end[place] <= latest[place] for place in start)
