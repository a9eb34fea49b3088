"""The page for operators: /health, /ready, /metrics.

Here: three answers. Next door: HTTP and its bounds (http.py), what is counted
(engine/metrics/series.py), whether clients should come (broker/operating/readiness.py).
Never here: what a client can change.
"""

from collections.abc import Awaitable, Callable, Mapping
from http import HTTPStatus
from typing import Final

from kafscale.gateways.http import HttpAnswer, HttpRequest, HttpServer, as_json
from kafscale.gateways.tls import Tls
from kafscale.model.metrics.meters import CONTENT_TYPE
from kafscale.tasks import Tasks

DEADLINE_S: Final = 10.0  # less than scrapers wait
_ALLOWED: Final = ("GET", "HEAD")


class OpsServer:
    """Serves until stopped, also while the broker drains.

    `checks` gives, by name, why clients should stay away; None means no reason.
    """

    def __init__(
        self,
        metrics: Callable[[], Awaitable[bytes]],
        checks: Callable[[], Awaitable[Mapping[str, str | None]]],
        deadline_s: float = DEADLINE_S,
    ) -> None:
        self._metrics = metrics
        self._checks = checks
        self._pages: dict[tuple[str, ...], Callable[[], Awaitable[HttpAnswer]]] = {
            ("health",): self._health,
            ("ready",): self._ready,
            ("metrics",): self._show_metrics,
        }
        self._tasks = Tasks()
        self._server = HttpServer(self._answer, self._tasks, deadline_s)

    def __len__(self) -> int:
        """Count the open connections."""
        return len(self._server)

    async def start(self, host: str, port: int, tls: Tls | None = None) -> int:
        """Listen; gives the port (0: the system chooses one). OSError if it is taken."""
        if tls is not None:
            self._tasks.spawn(tls.keep_reread(), "certificates")
        return await self._server.open(host, port, tls)

    async def stop(self) -> None:
        """Stop listening. Harmless when never started."""
        await self._server.aclose()
        await self._tasks.aclose()

    async def _answer(self, request: HttpRequest) -> HttpAnswer:
        page = self._pages.get(request.parts)
        if page is None:
            return _refusal(HTTPStatus.NOT_FOUND)
        if request.method not in _ALLOWED:
            refusal = _refusal(HTTPStatus.METHOD_NOT_ALLOWED)
            return refusal._replace(headers=(f"Allow: {', '.join(_ALLOWED)}",))
        return await page()

    # -- the pages ---------------------------------------------------------------------------

    async def _health(self) -> HttpAnswer:
        # The process answers, so it lives. An unavailable store is no reason to restart it.
        return as_json({"alive": True})

    async def _ready(self) -> HttpAnswer:
        said = await self._checks()
        reasons = [f"{name}: {reason}" for name, reason in said.items() if reason is not None]
        checks = {name: reason or "ok" for name, reason in said.items()}
        return as_json(
            {"ready": not reasons, "reasons": reasons, "checks": checks},
            HTTPStatus.SERVICE_UNAVAILABLE if reasons else HTTPStatus.OK,
        )

    async def _show_metrics(self) -> HttpAnswer:
        return HttpAnswer(HTTPStatus.OK, await self._metrics(), CONTENT_TYPE)


def _refusal(status: HTTPStatus) -> HttpAnswer:
    return as_json({"error": status.phrase}, status)
