"""A small HTTP server for pages that people and tools ask.

Here: one request per connection, a bounded head and a bounded body, a deadline, few connections, so
that no client can use up the broker's memory or its file descriptors.
Next door: the operators' page (gateways/ops_http.py), Pulsar's administration
(pulsar/admin).
Never here: what a path means.
"""

import asyncio
from collections.abc import Awaitable, Callable
from http import HTTPStatus
from typing import Any, Final, NamedTuple, cast
from urllib.parse import unquote

import orjson
import structlog

from kafscale.gateways.tls import Tls
from kafscale.gateways.tls_server import TlsServer, open_server
from kafscale.tasks import Tasks

logger = structlog.get_logger()

MOST_CONNECTIONS: Final = 64
MOST_HEAD_BYTES: Final = 16 << 10
MOST_BODY_BYTES: Final = 64 << 10
DEADLINE_S: Final = 30.0  # for the whole connection: request, answer, and the client's reading
_GRACE_S: Final = 1.0  # for answers in flight when the server stops
_GRACE_CHECKS: Final = 20
_END_OF_HEAD: Final = b"\r\n\r\n"


class HttpRequest(NamedTuple):
    """What a client asks."""

    method: str
    parts: tuple[str, ...]  # of the path, decoded
    query: str
    body: bytes
    peer: str
    authorization: str = ""  # the header of that name
    certificate: dict[str, Any] | None = None  # the client's, if it has shown one


class HttpAnswer(NamedTuple):
    """What it is answered."""

    status: int
    body: bytes = b""
    content_type: str = "application/json"
    headers: tuple[str, ...] = ()  # further lines of the head


def as_json(value: object, status: int = HTTPStatus.OK) -> HttpAnswer:
    """An answer in JSON."""
    return HttpAnswer(status, orjson.dumps(value))


HttpHandler = Callable[[HttpRequest], Awaitable[HttpAnswer]]


class HttpServer:
    """Serves until it is closed."""

    def __init__(self, handler: HttpHandler, tasks: Tasks, deadline_s: float = DEADLINE_S) -> None:
        """`handler` answers; what it raises is answered with 500."""
        self._handler = handler
        self._tasks = tasks
        self.deadline_s = deadline_s
        self._server: asyncio.Server | TlsServer | None = None
        self._visits: dict[_Visit, None] = {}  # the oldest first

    def __len__(self) -> int:
        """Count the open connections."""
        return len(self._visits)

    @property
    def is_open(self) -> bool:
        """Whether it listens."""
        return self._server is not None and self._server.is_serving()

    async def open(self, host: str, port: int, tls: Tls | None = None) -> int:
        """Listen; gives the port. OSError if it is taken. With `tls` requests are encrypted."""
        self._server = await open_server(lambda: _Visit(self), host, port, tls, MOST_CONNECTIONS)
        return int(self._server.sockets[0].getsockname()[1])

    def close(self) -> None:
        """Accept no more connections and end those that have asked nothing."""
        if self._server is not None:
            self._server.close()
        for visit in list(self._visits):
            if not visit.has_asked:
                visit.end()

    async def aclose(self) -> None:
        """Close, after answers in flight have had a moment. Harmless when never opened."""
        if self._server is None:
            return
        self.close()
        for _ in range(_GRACE_CHECKS):
            await asyncio.sleep(_GRACE_S / _GRACE_CHECKS if self._visits else 0)
        for visit in list(self._visits):
            visit.end()
        await self._server.wait_closed()

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

    def answer(self, visit: "_Visit", request: HttpRequest) -> None:
        """Have a request answered."""
        self._tasks.spawn(self._answer(visit, request), "HTTP request")

    async def _answer(self, visit: "_Visit", request: HttpRequest) -> None:
        try:
            answer = await self._handler(request)
        except Exception:
            logger.exception("http_request_failed", path="/".join(request.parts))
            answer = as_json({"reason": "internal error"}, HTTPStatus.INTERNAL_SERVER_ERROR)
        visit.send(answer, with_body=request.method != "HEAD")


class _Visit(asyncio.Protocol):
    """One connection: one request, one answer."""

    def __init__(self, server: HttpServer) -> None:
        self._server = server
        self._transport: asyncio.Transport | None = None
        self._deadline: asyncio.TimerHandle | None = None
        self._data = bytearray()
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
        """Gather the request; its sizes are checked before more of it is kept."""
        if self.has_asked:
            return
        self._data += data[: MOST_HEAD_BYTES + MOST_BODY_BYTES + 1 - len(self._data)]
        end = self._data.find(_END_OF_HEAD)
        if end < 0 or end > MOST_HEAD_BYTES:
            if len(self._data) > MOST_HEAD_BYTES:
                self._refuse(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE)
            return
        line, *fields = self._data[:end].decode("latin-1").split("\r\n")
        headers = {
            name.strip().lower(): value.strip()
            for name, _, value in (field.partition(":") for field in fields)
        }
        length = headers.get("content-length", "0")
        words = line.split(" ")
        is_sound = len(words) == 3 and words[2].startswith("HTTP/1.") and line.isprintable()
        if not is_sound or not length.isdecimal():
            self._refuse(HTTPStatus.BAD_REQUEST)
        elif "transfer-encoding" in headers:
            self._refuse(HTTPStatus.LENGTH_REQUIRED)
        elif len(length) > 9 or int(length) > MOST_BODY_BYTES:
            self._refuse(HTTPStatus.REQUEST_ENTITY_TOO_LARGE)
        else:
            body = self._data[end + len(_END_OF_HEAD) :]
            if len(body) >= int(length):
                authorization = headers.get("authorization", "")
                self._ask(words[0], words[1], bytes(body[: int(length)]), authorization)
            elif headers.get("expect", "").lower() == "100-continue" and not body:
                assert self._transport is not None
                self._transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")

    def _ask(self, method: str, target: str, body: bytes, authorization: str) -> None:
        assert self._transport is not None
        self.has_asked = True
        path, _, query = target.partition("?")
        parts = tuple(unquote(part) for part in path.strip("/").split("/"))
        peer = self._transport.get_extra_info("peername")
        certificate = self._transport.get_extra_info("peercert")
        asked = HttpRequest(method, parts, query, body, str(peer[0]), authorization, certificate)
        self._server.answer(self, asked)

    def _refuse(self, status: HTTPStatus) -> None:
        self.has_asked = True
        self.send(as_json({"reason": status.phrase}, status))

    def send(self, answer: HttpAnswer, *, with_body: bool = True) -> None:
        """Answer, then close."""
        if self._transport is None:
            return
        status = HTTPStatus(answer.status)
        further = "".join(f"{line}\r\n" for line in answer.headers)
        head = (
            f"HTTP/1.1 {status.value} {status.phrase}\r\n"
            f"Content-Type: {answer.content_type}\r\n"
            f"Content-Length: {len(answer.body)}\r\n"
            f"{further}Connection: close\r\n\r\n"
        )
        self._transport.write(head.encode("latin-1") + (answer.body if with_body else b""))
        self._transport.close()

    def end(self) -> None:
        """End the connection at once."""
        self._server.dismiss(self)
        if self._transport is not None:
            self._transport.abort()
