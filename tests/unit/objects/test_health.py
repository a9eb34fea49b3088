"""When the store counts as unhealthy, and when as healthy again."""

import pytest

from kafscale.objects.health import FEW, LATELY_S, UNANSWERED_S, Health, HealthWindow


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


def test_a_store_that_answers_nothing_is_unavailable_whatever_it_did_before() -> None:
    health = window(1000)
    health.begin(100)
    health.begin(105)
    assert health.state(100 + UNANSWERED_S - 1) is Health.HEALTHY
    assert health.state(100 + UNANSWERED_S) is Health.UNAVAILABLE
    assert health.state(100 + UNANSWERED_S + 600) is Health.UNAVAILABLE


def test_one_answer_ends_the_silence() -> None:
    health = window(1000)
    health.begin(100)
    health.begin(100)
    assert health.state(111) is Health.UNAVAILABLE
    health.report(111.2, 11.2, ok=True)
    health.end(111.2)
    assert health.state(111.2) is Health.HEALTHY
    assert health.state(121) is Health.HEALTHY  # the other one is given as long again
    assert health.state(122) is Health.UNAVAILABLE
    health.end(122)  # the caller gave up
    assert health.state(123) is Health.HEALTHY


def test_failures_are_no_answers() -> None:
    health = window(1000)
    for second in range(100, 112):
        health.begin(second)
        health.report(second + 0.9, 0.9, ok=False)
        health.end(second + 0.9)
        assert (health.state(second + 0.95) is Health.UNAVAILABLE) == (second >= 110), second
    assert health.state(111.9 + LATELY_S - 1) is Health.UNAVAILABLE


def test_a_store_without_recent_requests_may_be_asked_again() -> None:
    health = window(1000)
    health.begin(100)
    health.report(111, 11, ok=False)
    health.end(111)
    assert health.state(111) is Health.UNAVAILABLE
    assert health.state(111 + LATELY_S) is not Health.UNAVAILABLE
    health.begin(145)
    assert health.state(145) is Health.UNAVAILABLE  # for all others, until it is answered


def test_an_operation_that_was_given_up_owes_nothing() -> None:
    health = window(1000)
    health.begin(100)
    health.end(101)
    assert health.state(112) is Health.HEALTHY


def test_what_was_begun_in_a_silence_does_not_speak_against_the_store_afterwards() -> None:
    health = window(FEW)
    for _ in range(20):
        health.begin(100)
    health.report(140, 40, ok=True)
    health.end(140)
    for _ in range(19):
        health.report(141, 41, ok=False)
        health.end(141)
    assert health.state(141) is Health.HEALTHY


def test_a_store_that_refuses_all_writes_says_why_although_reads_go_well() -> None:
    health = HealthWindow()
    health.report_write(0, "disk full")
    assert health.why_not_writable(0) is None, "one refusal may pass"
    health.report(1, 0.01, ok=True)
    health.report_write(3, "disk full")
    assert health.why_not_writable(3) == "disk full"
    assert health.why_not_writable(3 + LATELY_S) is None, "nothing was tried lately"
    health.report_write(40, "")
    assert health.why_not_writable(40) is None
    health.report_write(41, "read-only")
    assert health.why_not_writable(41) is None, "a new problem begins anew"
