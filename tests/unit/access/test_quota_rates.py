"""Rates and how long a client must wait, by Kafka's rules."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafscale.access.quota_rates import QuotaWindows, SampledRate, TokenBucket

WINDOWS = QuotaWindows(samples=11, sample_s=1.0)


def test_a_client_may_spend_ten_seconds_worth_at_once() -> None:
    rate = SampledRate(100.0, WINDOWS)
    rate.record(1000, 5.0)
    assert rate.delay_s(5.0) == 0
    assert rate.left(5.0) == 0
    rate.record(500, 5.0)
    assert rate.delay_s(5.0) == pytest.approx(5.0), "as long as 500 take at 100 a second"


def test_the_window_is_never_shorter_than_all_samples_but_one() -> None:
    rate = SampledRate(100.0, WINDOWS)
    rate.record(1500, 0.0)
    assert rate.delay_s(5.0) == pytest.approx(5.0), "ten seconds, as if they were over"
    assert rate.delay_s(10.5) == pytest.approx(4.5)


def test_what_is_older_than_all_samples_is_forgotten() -> None:
    rate = SampledRate(100.0, WINDOWS)
    rate.record(100_000, 0.0)
    assert rate.delay_s(10.9) > 0
    assert rate.delay_s(11.0) == 0
    assert rate.left(11.0) == 1000


@given(
    used=st.lists(st.tuples(st.integers(0, 2000), st.integers(0, 5)), max_size=20),
    wanted=st.integers(0, 3000),
)
def test_so_much_is_allowed_as_is_left(used: list[tuple[int, int]], wanted: int) -> None:
    rate, now_s = SampledRate(100.0, WINDOWS), 0
    for amount, pause_s in used:
        now_s += pause_s
        rate.record(amount, now_s)
        allowed = rate.allows(wanted, now_s)  # before `left`, which forgets what is old
        assert allowed == (wanted <= rate.left(now_s))


def test_a_count_can_be_taken_back() -> None:
    rate = SampledRate(1.0, WINDOWS)
    rate.record(11, 0.0)
    assert rate.delay_s(0.0) > 0
    rate.record(-1, 0.0)
    assert rate.delay_s(0.0) == 0


def test_a_quota_that_is_raised_counts_at_once() -> None:
    rate = SampledRate(100.0, WINDOWS)
    rate.record(2000, 0.0)
    rate.bound = 200.0
    assert rate.delay_s(0.0) == 0


@given(
    bound=st.floats(1, 1e6),
    shares=st.lists(st.floats(0, 1), min_size=1, max_size=60),
    samples=st.integers(2, 20),
)
def test_a_client_that_waits_as_told_stays_within_its_quota(
    bound: float, shares: list[float], samples: int
) -> None:
    """Of requests worth a second at most: as in Kafka, larger ones get a window for nothing."""
    windows = QuotaWindows(samples, 1.0)
    rate = SampledRate(bound, windows)
    now_s = total = 0.0
    for share in shares:
        rate.record(share * bound, now_s)
        total += share * bound
        now_s += rate.delay_s(now_s)
    # The window's worth that may be spent at once, what is spent while its oldest sample is still
    # counted as a whole, and the last request, which is waited for after.
    burst = bound * (samples + 1) * windows.sample_s
    assert total - shares[-1] * bound <= bound * now_s + burst + bound


def test_tokens_come_back_with_time_and_debt_is_waited_for() -> None:
    bucket = TokenBucket(2.0, QuotaWindows(5, 1.0), 0.0)
    assert bucket.left(0.0) == 10
    bucket.record(10, 0.0)
    assert bucket.delay_s(0.0) == 0
    bucket.record(3, 0.0)
    assert bucket.delay_s(0.0) == pytest.approx(1.5)
    assert bucket.delay_s(1.5) == 0
    assert bucket.left(1000.0) == 10, "no more than the burst"
