"""What the page for operators shows before the broker is ready, and afterwards.

A broker may take long to start: it waits for its stores and for other brokers. Meanwhile it lives,
and an orchestrator that asks for /health must not restart it.
Next door: the page itself (gateways/ops_http.py), the checks (readiness.py).
"""

from collections.abc import Mapping

from kafscale.broker.wiring import Broker


class StartingPage:
    """Answers for a broker that is not there yet; from `show` on the broker answers itself."""

    def __init__(self) -> None:
        self._broker: Broker | None = None

    def show(self, broker: Broker) -> None:
        """The broker has started."""
        self._broker = broker

    async def metrics(self) -> bytes:
        """Give the text of all series; there are none before the start is over."""
        if self._broker is None:
            return b""
        return await self._broker.engine.turns.finish(
            self._broker.metrics.registry.render_in_steps()
        )

    async def checks(self) -> Mapping[str, str | None]:
        """Give the reason why clients should stay away, or None, by check."""
        if self._broker is None:
            return {"start": "the broker is starting"}
        return await self._broker.readiness.ask()
