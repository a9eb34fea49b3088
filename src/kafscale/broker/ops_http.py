"""The page for operators: /health, /ready, /metrics.

Here: three answers over HTTP, and nothing more of HTTP than they need: one request per connection,
a bounded head, no body. Every connection has a deadline and there are few of them, so that no
client can use up the broker's memory or its file descriptors.
Next door: what is counted (engine/metrics/series.py), whether clients should come (readiness.py).
Never here: what a client can change.
"""

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping
from http import HTTPStatus
from typing import Any, Final, NamedTuple, cast

import structlog

from kafscale.gateways.tls import HANDSHAKE_WITHIN_S, Tls
from kafscale.model.meters import CONTENT_TYPE
from kafscale.tasks import Tasks

logger = structlog.get_logger()

MOST_CONNECTIONS: Final = 64
MOST_HEAD_BYTES: Final = 8 << 10
DEADLINE_S: Final = 10.0  # for the whole connection: request, answer, and the client's reading
_GRACE_S: Final = 1.0  # for answers in flight when we stop
_GRACE_CHECKS: Final = 20
_END_OF_HEAD: Final = b"\r\n\r\n"
_JSON: Final = "application/json; charset=utf-8"


class _Answer(NamedTuple):
    status: HTTPStatus
    body: bytes
    content_type: str = _JSON


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
        self.deadline_s = deadline_s
        self._pages: dict[str, Callable[[], Awaitable[_Answer]]] = {
            "/health": self._health,
            "/ready": self._ready,
            "/metrics": self._show_metrics,
        }
        self._server: asyncio.Server | None = None
        self._visits: dict[_Visit, None] = {}  # the oldest first
        self._tasks = Tasks()

    def __len__(self) -> int:
        """Count the open connections."""
        return len(self._visits)

    async def start(self, host: str, port: int, tls: Tls | None = None) -> int:
        """Listen; gives the port (0: the system chooses one). OSError if it is taken."""
        loop = asyncio.get_running_loop()
        encrypted: dict[str, Any] = {}
        if tls is not None:
            encrypted = {"ssl": tls.context, "ssl_handshake_timeout": HANDSHAKE_WITHIN_S}
            self._tasks.spawn(tls.keep_reread(), "certificates")
        self._server = await loop.create_server(lambda: _Visit(self), host, port, **encrypted)
        return int(self._server.sockets[0].getsockname()[1])

    async def stop(self) -> None:
        """Stop listening. Harmless when never started."""
        if self._server is None:
            return
        self._server.close()
        for _ in range(_GRACE_CHECKS):
            await asyncio.sleep(_GRACE_S / _GRACE_CHECKS if self._visits else 0)
        for visit in list(self._visits):
            visit.end()
        await self._tasks.aclose()
        await self._server.wait_closed()

    # -- called by visits --------------------------------------------------------------------

    def admit(self, visit: "_Visit") -> bool:
        """Count a new connection. If there are too many, the oldest that asks nothing must go."""
        if len(self._visits) >= MOST_CONNECTIONS:
            silent = next((other for other in self._visits if not other.has_asked), None)
            if silent is None:
                return False
            silent.end()
        self._visits[visit] = None
        return True

    def dismiss(self, visit: "_Visit") -> None:
        """Forget a connection that has ended."""
        self._visits.pop(visit, None)

    def answer(self, visit: "_Visit", method: str, path: str) -> None:
        """Have a request answered."""
        self._tasks.spawn(self._answer(visit, method, path), "operators' page")

    async def _answer(self, visit: "_Visit", method: str, path: str) -> None:
        page = self._pages.get(path)
        if page is None:
            answer = _refusal(HTTPStatus.NOT_FOUND)
        elif method not in ("GET", "HEAD"):
            answer = _refusal(HTTPStatus.METHOD_NOT_ALLOWED)
        else:
            try:
                answer = await page()
            except Exception:
                logger.exception("page_failed", path=path)
                answer = _refusal(HTTPStatus.INTERNAL_SERVER_ERROR)
        visit.send(answer, with_body=method != "HEAD")

    # -- the pages ---------------------------------------------------------------------------

    async def _health(self) -> _Answer:
        # The process answers, so it lives. An unavailable store is no reason to restart it.
        return _as_json(HTTPStatus.OK, {"alive": True})

    async def _ready(self) -> _Answer:
        said = await self._checks()
        reasons = [f"{name}: {reason}" for name, reason in said.items() if reason is not None]
        checks = {name: reason or "ok" for name, reason in said.items()}
        return _as_json(
            HTTPStatus.SERVICE_UNAVAILABLE if reasons else HTTPStatus.OK,
            {"ready": not reasons, "reasons": reasons, "checks": checks},
        )

    async def _show_metrics(self) -> _Answer:
        return _Answer(HTTPStatus.OK, await self._metrics(), CONTENT_TYPE)


class _Visit(asyncio.Protocol):
    """One connection: one request, one answer."""

    def __init__(self, server: OpsServer) -> None:
        self._server = server
        self._transport: asyncio.Transport | None = None
        self._deadline: asyncio.TimerHandle | None = None
        self._head = b""
        self.has_asked = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin the time that the client has, or end the connection if there are too many."""
        self._transport = cast(asyncio.Transport, transport)  # uvloop's is one in all but name
        if not self._server.admit(self):
            self._transport.abort()
            return
        loop = asyncio.get_running_loop()
        self._deadline = loop.call_later(self._server.deadline_s, self.end)

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the connection."""
        if self._deadline is not None:
            self._deadline.cancel()
        self._server.dismiss(self)
        self._transport = None

    def data_received(self, data: bytes) -> None:
        """Gather the head of the request; what comes after it is not read."""
        if self.has_asked:
            return
        self._head += data[: MOST_HEAD_BYTES + 1 - len(self._head)]
        end = self._head.find(_END_OF_HEAD)
        if end < 0 and len(self._head) <= MOST_HEAD_BYTES:
            return
        self.has_asked = True
        line = self._head.partition(b"\r\n")[0].decode("latin-1").split(" ")
        if end < 0:
            self.send(_refusal(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE))
        elif len(line) != 3 or not line[2].startswith("HTTP/1."):
            self.send(_refusal(HTTPStatus.BAD_REQUEST))
        else:
            self._server.answer(self, line[0], line[1].partition("?")[0])

    def send(self, answer: _Answer, *, with_body: bool = True) -> None:
        """Answer, then close: once the client has read it, or at the deadline."""
        if self._transport is None:
            return
        head = (
            f"HTTP/1.1 {answer.status.value} {answer.status.phrase}\r\n"
            f"Content-Type: {answer.content_type}\r\n"
            f"Content-Length: {len(answer.body)}\r\n"
            "Allow: GET, HEAD\r\n"
            "Connection: close\r\n\r\n"
        )
        self._transport.write(head.encode("ascii") + (answer.body if with_body else b""))
        self._transport.close()

    def end(self) -> None:
        """End the connection at once."""
        self._server.dismiss(self)
        if self._transport is not None:
            self._transport.abort()


def _as_json(status: HTTPStatus, body: dict[str, object]) -> _Answer:
    return _Answer(status, json.dumps(body).encode())


def _refusal(status: HTTPStatus) -> _Answer:
    return _as_json(status, {"error": status.phrase})
