"""Figures of topics, as arithmetic."""

from datetime import date

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafscale.spark.report.statistics import (
    DAY_MS,
    PartitionLag,
    PartitionStats,
    Prices,
    TopicStats,
    lags,
    partition_stats,
    spread,
)
from kafscale.spark.views import PartitionView, StoredRange


def topic(*partitions: PartitionStats, target: int = 100) -> TopicStats:
    return TopicStats("orders", "id", target, list(partitions))


@given(st.integers(0, 10**9), st.integers(0, 10**13), st.integers(0, 400 * DAY_MS))
def test_bytes_shared_out_over_days_add_up(size: int, first: int, span: int) -> None:
    days = spread(size, first, first + span)
    assert sum(days.values()) == size
    assert all(share >= 0 for share in days.values())


def test_a_day_gets_its_share() -> None:
    noon = 20_000 * DAY_MS + DAY_MS // 2
    assert spread(100, noon, noon + DAY_MS - 1) == {date(2024, 10, 4): 50, date(2024, 10, 5): 50}


def test_a_clock_that_was_wrong_makes_no_years_of_nothing() -> None:
    assert len(spread(10, 0, 20_000 * DAY_MS)) == 1


def test_records_below_the_log_start_do_not_count() -> None:
    whole = StoredRange("a", 0, 0, 99, 32, 1000, 100, 5, 6, has_index=False, kind="flush")
    sparse = StoredRange("b", 0, 100, 199, 32, 1000, 7, 5, 6, has_index=False, kind="history")
    view = PartitionView("orders", 0, 60, 200, (whole, sparse))
    assert partition_stats(view, {}, 100, {}).records == 40 + 7


def test_debts_are_objects_beyond_those_needed_log_by_log() -> None:
    one = PartitionStats("orders", 0, 0, 9, bytes=250, objects=10)
    empty = PartitionStats("orders", 1, 0, 0)
    assert topic(one, empty).debt == 7


def test_skew_compares_with_equal_shares() -> None:
    rows = [PartitionStats("orders", at, 0, 0, records=n) for at, n in enumerate((90, 10))]
    assert topic(*rows).skew == pytest.approx(1.8)
    assert topic(PartitionStats("orders", 0, 0, 0)).skew is None


def test_growth_leaves_the_unfinished_day_out() -> None:
    one = PartitionStats("orders", 0, 0, 0)
    one.days.update({date(2026, 1, 1): 100, date(2026, 1, 2): 300, date(2026, 1, 3): 5})
    assert topic(one).growth_per_day() == 200


def test_a_month_costs_what_the_price_list_says() -> None:
    """The example of the price list: 700 GB kept, 25,000 objects a day, 100,000 reads a day."""
    one = PartitionStats("orders", 0, 0, 0, bytes=700 * 10**9, flushes_per_day=25_000)
    cost = topic(one).monthly_cost(Prices(), gets_per_day=100_000)
    assert cost == pytest.approx({"storage": 16.10, "put": 3.75, "get": 1.20})


def test_lags_are_those_of_this_life_of_the_topic() -> None:
    one = topic(PartitionStats("orders", 0, 0, 50), PartitionStats("orders", 1, 0, 7))
    committed = {
        ("g", "orders", 0): (20, "id"),
        ("g", "orders", 1): (9, ""),
        ("g", "orders", 5): (1, "id"),
        ("old", "orders", 0): (3, "another id"),
        ("g", "gone", 0): (1, ""),
    }
    found = lags(committed, [one])
    assert found == [PartitionLag("g", "orders", 0, 20, 50), PartitionLag("g", "orders", 1, 9, 7)]
    assert [lag.records for lag in found] == [30, 0]
