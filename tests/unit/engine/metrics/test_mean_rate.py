"""A rate is the mean of about the last minute, however often it is asked for."""

from kafscale.engine.metrics.mean_rate import MeanRate
from kafscale.testing.clock import ManualClock


class Meter:
    """A count and a clock, both moved by hand, and the rate of the one by the other."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.count = 0.0
        self.rate = MeanRate(self.clock, lambda: self.count)

    def later(self, seconds: float, more: float) -> float:
        self.clock.advance_ms(seconds * 1000)
        self.count += more
        return self.rate()


def test_it_is_zero_before_any_time_has_passed() -> None:
    assert Meter().rate() == 0


def test_it_is_the_mean_since_the_start_within_the_first_minute() -> None:
    meter = Meter()
    assert meter.later(10, 50) == 5
    assert meter.later(10, 0) == 2.5


def test_what_is_older_than_a_minute_does_not_count() -> None:
    meter = Meter()
    meter.later(30, 3000)
    for _ in range(6):
        meter.later(10, 10)
    assert meter.later(10, 10) == 1


def test_a_question_after_a_long_silence_covers_the_silence() -> None:
    meter = Meter()
    meter.later(10, 0)
    meter.later(600, 1200)
    assert meter.later(600, 1200) == 2


def test_many_questions_at_once_take_no_memory() -> None:
    meter = Meter()
    for _ in range(1000):
        meter.later(0.001, 1)
    assert len(meter.rate._seen) <= 3
