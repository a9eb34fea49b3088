"""What a runner shows of its work: alarms go by these series."""

from kafscale.spark.runner.planner import AUDIT, EXPORT, PlannedWork
from kafscale.spark.runner.series import RunnerSeries
from kafscale.testing.clock import ManualClock

FRESHNESS_MS = 60_000
ORDERS = PlannedWork(EXPORT, "orders", ("orders",), FRESHNESS_MS)
STATES = PlannedWork(EXPORT, "states", ("states",), FRESHNESS_MS)
CHECK = PlannedWork(AUDIT, "orders", ("orders",), FRESHNESS_MS)


def shown(series: RunnerSeries, name: str) -> dict[str, float]:
    """The rows of one series: labels and value."""
    lines = series.registry.render().decode().splitlines()
    rows = (line.removeprefix(name).rpartition(" ") for line in lines if line.startswith(name))
    return {labels: float(value) for labels, _, value in rows}


def test_a_failure_is_shown_until_the_same_work_succeeds() -> None:
    series = RunnerSeries(ManualClock())
    series.failed(CHECK)
    series.succeeded(ORDERS, 0, 10)
    assert shown(series, "kafscale_pipeline_failing") == {'{kind="audit",subject="orders"}': 1}
    series.succeeded(CHECK, 0, 10)
    assert shown(series, "kafscale_pipeline_failing") == {}


def test_a_topic_that_another_runner_has_taken_over_is_not_late_here() -> None:
    clock = ManualClock()
    series = RunnerSeries(clock)
    for work in (ORDERS, STATES):
        series.succeeded(work, clock.now_ms(), 10)
    series.failed(CHECK)
    clock.advance_ms(2 * FRESHNESS_MS)
    assert len(shown(series, "kafscale_pipeline_freshness_ratio")) == 2
    series.keep_only([STATES])
    assert shown(series, "kafscale_pipeline_freshness_ratio") == {'{topic="states"}': 2}
    assert shown(series, "kafscale_pipeline_failing") == {}
