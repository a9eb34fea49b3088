"""The page for operators: /health, /ready, /metrics.

Here: three answers over HTTP. Import this module late: loading aiohttp takes a quarter of a second.
Next door: what is counted (engine/metrics/series.py). Never here: what a client can change.
"""

import json
from collections.abc import Awaitable, Callable, Mapping
from typing import Final

from aiohttp import web

from kafscale.model.meters import CONTENT_TYPE

_GRACE_S: Final = 1.0  # for answers in flight when we stop


class OpsServer:
    """Serves until stopped, also while the broker drains.

    `checks` gives, by name, why clients should stay away; None means no reason.
    """

    def __init__(
        self,
        metrics: Callable[[], bytes],
        checks: Callable[[], Awaitable[Mapping[str, str | None]]],
    ) -> None:
        self._metrics = metrics
        self._checks = checks
        page = web.Application()
        page.router.add_get("/health", self._health)
        page.router.add_get("/ready", self._ready)
        page.router.add_get("/metrics", self._show_metrics)
        # The broker handles signals: it stops this page last.
        self._runner = web.AppRunner(
            page, access_log=None, handle_signals=False, shutdown_timeout=_GRACE_S
        )

    async def start(self, host: str, port: int) -> int:
        """Listen; gives the port (0: the system chooses one). OSError if it is taken."""
        await self._runner.setup()
        try:
            await web.TCPSite(self._runner, host, port).start()
        except OSError:
            await self._runner.cleanup()
            raise
        return int(self._runner.addresses[0][1])

    async def stop(self) -> None:
        """Stop listening. Harmless when never started."""
        await self._runner.cleanup()

    async def _health(self, request: web.Request) -> web.Response:
        # The process answers, so it lives. An unavailable store is no reason to restart it.
        return _answer(200, {"alive": True})

    async def _ready(self, request: web.Request) -> web.Response:
        said = await self._checks()
        reasons = [f"{name}: {reason}" for name, reason in said.items() if reason is not None]
        checks = {name: reason or "ok" for name, reason in said.items()}
        return _answer(
            503 if reasons else 200,
            {"ready": not reasons, "reasons": reasons, "checks": checks},
        )

    async def _show_metrics(self, request: web.Request) -> web.Response:
        return web.Response(body=self._metrics(), headers={"Content-Type": CONTENT_TYPE})


def _answer(status: int, body: dict[str, object]) -> web.Response:
    return web.json_response(body, status=status, dumps=json.dumps)
