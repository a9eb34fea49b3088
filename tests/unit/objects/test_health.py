"""When the store counts as sick, and when as well again."""

import pytest

from kafscale.objects.health import FEW, Health, HealthWindow


def window(
    count: int, errors: int = 0, latency_s: float = 0.01, at_s: float = 100.0
) -> HealthWindow:
    health = HealthWindow()
    for number in range(count):
        health.report(at_s, latency_s, ok=number >= errors)
    return health


@pytest.mark.parametrize(
    ("errors", "latency_s", "expected"),
    [
        (0, 0.01, Health.HEALTHY),
        (1, 0.01, Health.HEALTHY),
        (2, 0.01, Health.DEGRADED),
        (5, 0.01, Health.DEGRADED),
        (6, 0.01, Health.UNAVAILABLE),
        (0, 0.49, Health.HEALTHY),
        (0, 0.5, Health.DEGRADED),
        (0, 2.9, Health.DEGRADED),
        (0, 3.0, Health.UNAVAILABLE),
        (2, 3.5, Health.UNAVAILABLE),
    ],
)
def test_errors_and_latency_decide(errors: int, latency_s: float, expected: Health) -> None:
    assert window(10, errors, latency_s).state(100.5) is expected


def test_a_handful_of_reports_is_needed() -> None:
    assert window(FEW - 1, errors=FEW - 1).state(100) is Health.HEALTHY
    assert window(FEW, errors=FEW).state(100) is Health.UNAVAILABLE


def test_a_silent_crisis_ends_with_the_window() -> None:
    health = window(10, errors=10)
    assert health.state(159.9) is Health.UNAVAILABLE
    assert health.state(160) is Health.HEALTHY


def test_the_window_slides_over_a_long_time() -> None:
    health = HealthWindow()
    states = {}
    for second in range(1000):
        health.report(second, 0.01, ok=second < 500)
        states[second] = health.state(second)
    assert states[499] is Health.HEALTHY
    assert states[510] is Health.HEALTHY
    assert states[511] is Health.DEGRADED  # 12 of 60
    assert states[534] is Health.DEGRADED
    assert states[535] is Health.UNAVAILABLE  # 36 of 60
    assert states[999] is Health.UNAVAILABLE


def test_ten_calm_seconds_end_a_crisis_early() -> None:
    health = window(100, errors=100)
    for second in range(101, 110):
        health.report(second, 0.01, ok=True)
        assert health.state(second) is Health.UNAVAILABLE
    health.report(110, 0.01, ok=True)
    assert health.state(110) is Health.HEALTHY


def test_calm_seconds_that_are_slow_do_not_count() -> None:
    health = window(100, errors=100)
    for second in range(101, 130):
        health.report(second, 1.0, ok=True)
    assert health.state(130) is Health.UNAVAILABLE


def test_a_verdict_follows_a_report_within_the_same_second() -> None:
    health = window(FEW)
    assert health.state(100.1) is Health.HEALTHY
    for _ in range(20):
        health.report(100.2, 0.01, ok=False)
    assert health.state(100.3) is Health.UNAVAILABLE
