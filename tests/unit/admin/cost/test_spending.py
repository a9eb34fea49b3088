"""Money by hand-made numbers."""

import pytest

from kafscale.admin.cost.metrics_page import parse_samples
from kafscale.admin.cost.spending import (
    DAY_S,
    GB,
    BrokerCounters,
    TopicUse,
    add_rates,
    daily_cost,
    shares,
    sum_of,
    window_s,
)
from kafscale.model.metrics.metric_names import S3_BYTES, S3_REQUESTS, STARTED
from kafscale.settings.sections import PricesSection

PAGE = """\
# TYPE kafscale_s3_requests_total counter
kafscale_s3_requests_total{topic="or\\"ders",operation="put"} 120
kafscale_s3_requests_total{topic="@store",operation="head"} 3
kafscale_s3_requests_total_other{topic="x"} 1
kafscale_s3_bytes_total{topic="or\\"ders",operation="put"} 5e+06
process_start_time_seconds 1000
something_else 5
"""


def look(at_s: float, started_s: float, **puts: float) -> BrokerCounters:
    return BrokerCounters(
        at_s, started_s, {(S3_REQUESTS, topic, "put"): n for topic, n in puts.items()}
    )


def test_a_page_is_read_into_counts() -> None:
    found = BrokerCounters.of(parse_samples(PAGE, {S3_REQUESTS, S3_BYTES, STARTED}), at_s=1600)
    assert found == BrokerCounters(
        1600,
        1000,
        {
            (S3_REQUESTS, 'or"ders', "put"): 120,
            (S3_REQUESTS, "@store", "head"): 3,
            (S3_BYTES, 'or"ders', "put"): 5e6,
        },
    )


def test_since_the_start_a_count_is_stretched_to_a_day() -> None:
    uses: dict[str, TopicUse] = {}
    add_rates(uses, look(1600, 1000, a=120), None)
    assert uses["a"].requests == {"put": 120 * 144}


def test_between_two_looks_only_what_was_added_counts() -> None:
    uses: dict[str, TopicUse] = {}
    earlier, later = look(1000, 0, a=500), look(1864, 0, a=600, b=1)
    assert window_s(later, earlier) == 864
    add_rates(uses, later, earlier)
    assert uses["a"].requests == {"put": 10_000}
    assert uses["b"].requests == {"put": 100}


def test_a_broker_that_began_anew_has_counted_from_zero_since() -> None:
    uses: dict[str, TopicUse] = {}
    earlier, later = look(1000, 0, a=500), look(1900, 1036, a=10)
    assert window_s(later, earlier) == 864
    add_rates(uses, later, earlier)
    assert uses["a"].requests == {"put": 1000}


def test_a_topic_made_anew_has_counted_from_zero() -> None:
    uses: dict[str, TopicUse] = {}
    add_rates(uses, look(1864, 0, a=10), look(1000, 0, a=500))
    assert uses["a"].requests == {"put": 1000}


def test_brokers_add_up_each_by_its_own_window() -> None:
    uses: dict[str, TopicUse] = {}
    add_rates(uses, look(DAY_S, 0, a=100), None)
    add_rates(uses, look(DAY_S, DAY_S / 2, a=100), None)
    assert uses["a"].requests == {"put": 300}


def test_bytes_go_by_their_direction() -> None:
    uses: dict[str, TopicUse] = {}
    counts = {(S3_BYTES, "a", "put"): 7.0, (S3_BYTES, "a", "get"): 9.0}
    add_rates(uses, BrokerCounters(DAY_S, 0, counts), None)
    assert (uses["a"].written_bytes, uses["a"].read_bytes) == (7, 9)


def test_every_kind_of_request_has_its_price() -> None:
    prices = PricesSection()
    for operation, expected in (
        ("put", 0.005),
        ("list", 0.005),
        ("get", 0.0004),
        ("head", 0.0004),
        ("delete", 0),
    ):
        assert daily_cost(TopicUse(requests={operation: 1000}), prices).day == pytest.approx(
            expected
        )


def test_a_day_and_a_month_by_hand() -> None:
    # 100 GB a day in objects of 4 MB, kept for 7 days, each read once in four requests.
    use = TopicUse(
        requests={"put": 25_600, "get": 102_400},
        written_bytes=100 * GB,
        read_bytes=100 * GB,
        stored_bytes=700 * GB,
    )
    cost = daily_cost(use, PricesSection(read_gb=0.02))
    assert cost.requests == pytest.approx(25.6 * 0.005 + 102.4 * 0.0004)
    assert cost.transfer == pytest.approx(2.0)
    assert cost.storage == pytest.approx(16.10 / 30)
    assert cost.month == pytest.approx(30 * (0.128 + 0.04096 + 2.0) + 16.10)


def test_all_topics_together_are_their_sum() -> None:
    one = TopicUse({"put": 1, "get": 2}, written_bytes=3, read_bytes=4, stored_bytes=5)
    other = TopicUse({"put": 10}, written_bytes=30, stored_bytes=None)
    assert sum_of([one, other]) == TopicUse({"put": 11, "get": 2}, 33, 4, 5)
    assert sum_of([]).stored_bytes is None


def test_what_topics_share_is_divided_by_their_bytes() -> None:
    assert list(shares({"a": 1, "b": 3, "none": 0}).items()) == [
        ("b", 0.75),
        ("a", 0.25),
        ("none", 0),
    ]
    assert shares({"empty": 0}) == {"empty": 0.0}
