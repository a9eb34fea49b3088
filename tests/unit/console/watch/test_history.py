from kafscale.console.watch.ends import EndHistory, LagAge
from kafscale.console.watch.history import SeriesHistory
from kafscale.console.watch.rates import RateWindow, quantile_ms
from kafscale.console.watch.reading import LATENCY_BUCKET, STARTED, BrokerReading


def test_a_moment_without_a_number_is_a_gap() -> None:
    history = SeriesHistory()
    for now_s in (1000, 1005, 1020):
        history.put(now_s, "x", float(now_s), (("topic", "t"),))
    moments, step_s, lines = history.read(1020, "15m", ["x"], {"topic": "t"})
    assert (len(moments), step_s) == (180, 5)
    assert lines[0].values[-5:] == [1000.0, 1005.0, None, None, 1020.0]
    assert moments[-1] == 1_020_000
    assert history.read(1020, "15m", ["x"], {"topic": "other"})[2] == []
    assert history.newest("x", (("topic", "t"),), 1020, 30) == [1000.0, 1005.0, 1020.0]


def test_a_day_is_kept_in_minutes() -> None:
    history = SeriesHistory()
    for minute in range(2000):
        history.put(minute * 60, "x", float(minute))
    moments, step_s, lines = history.read(1999 * 60, "24h", ["x"], {})
    assert (len(moments), step_s) == (1440, 60)
    assert lines[0].values == [float(minute) for minute in range(560, 2000)]


def test_old_points_of_a_ring_do_not_come_back() -> None:
    history = SeriesHistory()
    history.put(0, "x", 1.0)
    history.put(3600 * 3, "x", 2.0)
    assert [value for value in history.read(3600 * 3, "1h", ["x"], {})[2][0].values if value] == [2]


def test_series_are_bounded_and_silent_ones_make_room() -> None:
    history = SeriesHistory(most_series=2)
    history.put(0, "a", 1.0)
    history.put(0, "b", 1.0)
    history.put(5, "c", 1.0)
    assert (len(history), history.left_out) == (2, 1)
    history.put(4000, "b", 1.0)
    history.put(4000, "c", 1.0)
    assert (len(history), history.left_out) == (2, 1)


def reading(at_s: float, started_s: float, **counts: float) -> BrokerReading:
    return BrokerReading(
        at_s, {STARTED: started_s}, {(name,): value for name, value in counts.items()}
    )


def test_a_rate_needs_two_readings_of_the_same_process() -> None:
    window = RateWindow()
    window.add(reading(100, 1, x=50))
    assert window.rates() == {}
    window.add(reading(110, 1, x=70))
    assert window.rates() == {("x",): 2.0}
    window.add(reading(120, 115, x=5))
    assert window.rates() == {}
    window.add(reading(130, 115, x=15))
    assert window.rates() == {("x",): 1.0}


def test_a_rate_is_over_about_a_minute() -> None:
    window = RateWindow()
    for at_s in range(0, 300, 5):
        window.add(reading(at_s, 0, x=at_s if at_s < 200 else 200))
    assert window.rates() == {("x",): 0.0}
    assert len(window._readings) <= 14


def test_quantiles_of_buckets() -> None:
    rates = {
        (LATENCY_BUCKET, "put", "0.01"): 50.0,
        (LATENCY_BUCKET, "put", "0.1"): 99.0,
        (LATENCY_BUCKET, "put", "+Inf"): 100.0,
    }
    assert quantile_ms(rates, "put", 0.5) == 10.0
    assert quantile_ms(rates, "put", 0.99) == 100.0
    assert quantile_ms(rates, "put", 0.999) == 100.0
    assert quantile_ms(rates, "get", 0.5) is None


def test_lag_in_seconds_is_since_the_end_passed_the_committed_offset() -> None:
    ends = EndHistory()
    for now_s, end in ((0, 100), (5, 110), (10, 110), (15, 120)):
        ends.put(now_s, "t", 0, end)
    assert ends.age(20, "t", 0, 120) == LagAge(0.0, False)
    assert ends.age(20, "t", 0, 115) == LagAge(5.0, False)
    assert ends.age(20, "t", 0, 105) == LagAge(15.0, False)
    assert ends.age(20, "t", 0, 50) == LagAge(20.0, True)
    assert ends.age(20, "t", 1, 50) is None


def test_a_partition_that_begins_anew_forgets_its_past() -> None:
    ends = EndHistory()
    ends.put(0, "t", 0, 1000)
    ends.put(5, "t", 0, 10)
    assert ends.age(6, "t", 0, 5) == LagAge(1.0, True)
    ends.forget_others(set())
    assert ends.newest("t", 0) is None


def test_the_history_of_ends_is_thinned_not_cut() -> None:
    ends = EndHistory()
    for step in range(10_000):
        ends.put(step * 5.0, "t", 0, step)
    kept = ends._partitions["t", 0]
    assert len(kept.ends) <= 1500
    assert kept.ends[0] == 0
    assert list(kept.ends) == sorted(kept.ends)
