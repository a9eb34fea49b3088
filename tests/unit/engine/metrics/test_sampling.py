"""What becomes of what the parts say."""

import pytest

from kafscale.engine.metrics import sampling
from kafscale.engine.metrics.series import BrokerMetrics
from kafscale.engine.partitions.store_gate import StoreGate
from kafscale.model.metrics.meters import Registry
from kafscale.objects.health import HealthWindow
from kafscale.testing.clock import ManualClock
from tests.support.exposition import parse, series


@pytest.mark.parametrize(
    ("errors", "state"), [(0, "healthy"), (3, "degraded"), (10, "unavailable")]
)
def test_exactly_one_state_of_the_store_is_shown(errors: int, state: str) -> None:
    clock, window = ManualClock(), HealthWindow()
    metrics = BrokerMetrics(Registry())
    metrics.sample_store_health(sampling.states_of(StoreGate(window, clock)))
    for number in range(10):
        window.report(clock.elapsed_s(), 0.01, ok=number >= errors)
    samples = parse(metrics.registry.render())
    shown = {
        name: samples[series("kafscale_s3_health_state", state=name)]
        for name in ("healthy", "degraded", "unavailable")
    }
    assert shown == {name: float(name == state) for name in shown}
