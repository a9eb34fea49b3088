"""Whether the object store answers well enough to accept writes.

Here: the gate that the write path asks. While the store does not answer, producers get an error
that they retry after. The broker stays up and needs no restart: waiting flushes keep trying.
"""

from kafscale.model.clock import Clock
from kafscale.objects.health import Health, HealthWindow


class StoreGate:
    """The store's state as the engine sees it."""

    def __init__(self, window: HealthWindow, clock: Clock) -> None:
        """Judge by `window`, fed by the instrumented store."""
        self._window = window
        self._clock = clock

    def state(self) -> Health:
        """Healthy, degraded or unavailable, now."""
        return self._window.state(self._clock.elapsed_s())

    def why_not_writable(self) -> str | None:
        """The store's own words if it has refused all writes for some seconds."""
        return self._window.why_not_writable(self._clock.elapsed_s())

    def is_unavailable(self) -> bool:
        """Whether writes are refused."""
        return self.state() is Health.UNAVAILABLE
