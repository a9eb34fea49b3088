"""The catalog on a socket.

Here: connections, who may ask, TLS. A connection has a deadline, a request a bounded head and body,
and there are few connections at once. Next door: what is answered (rest.py).
"""

import hmac
import ssl
import threading
from collections.abc import Sequence
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final

import structlog

from kafscale.model.errors import KafscaleError
from kafscale.spark.catalog.rest import RestAnswer, Tables, answer, refused

logger = structlog.get_logger()

MOST_CONNECTIONS: Final = 64
MOST_BODY_BYTES: Final = 1 << 20
REQUEST_WITHIN_S: Final = 30


class CatalogServer:
    """Serves tables until it is closed. With tokens, a client must send one of them."""

    def __init__(
        self,
        tables: Tables,
        host: str,
        port: int,
        tokens: Sequence[str] = (),
        tls: ssl.SSLContext | None = None,
    ) -> None:
        """Listen. OSError if the port is taken."""
        self._tables = tables
        self._tokens = [token.encode() for token in tokens]
        self._free = threading.BoundedSemaphore(MOST_CONNECTIONS)
        self._server = _Server((host, port), _handler_of(self), self._free)
        if tls is not None:
            self._server.tls = tls
        self.port = self._server.server_address[1]
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop listening."""
        self._server.shutdown()
        self._server.server_close()

    def answer(self, method: str, target: str, authorization: str) -> RestAnswer:
        """Answer a client, if it may ask."""
        if not self._is_known(authorization):
            return refused(HTTPStatus.UNAUTHORIZED, "send a token: Authorization: Bearer ...")
        try:
            return answer(self._tables, method, target)
        except KafscaleError as problem:
            logger.warning("catalog_request_failed", path=target[:200], error=str(problem))
            return refused(HTTPStatus.SERVICE_UNAVAILABLE, str(problem))

    def _is_known(self, authorization: str) -> bool:
        if not self._tokens:
            return True
        scheme, _, token = authorization.partition(" ")
        given = token.strip().encode("utf-8", "replace")
        # Each is compared: how long it takes tells nothing about which is near.
        matches = [hmac.compare_digest(given, known) for known in self._tokens]
        return scheme.lower() == "bearer" and any(matches)


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    tls: ssl.SSLContext | None = None

    def __init__(self, address: Any, handler: Any, free: threading.BoundedSemaphore) -> None:
        self._free = free
        super().__init__(address, handler)

    def process_request(self, request: Any, client_address: Any) -> None:
        if not self._free.acquire(blocking=False):
            self.shutdown_request(request)
            return
        super().process_request(request, client_address)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            request.settimeout(REQUEST_WITHIN_S)
            if self.tls is not None:
                try:
                    request = self.tls.wrap_socket(request, server_side=True)
                except (OSError, ssl.SSLError):
                    self.shutdown_request(request)
                    return
            super().process_request_thread(request, client_address)
        finally:
            self._free.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that goes away is no error."""


def _handler_of(server: CatalogServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        timeout = REQUEST_WITHIN_S

        def _serve(self) -> None:
            length = self.headers.get("Content-Length", "0")
            if not length.isdecimal() or int(length) > MOST_BODY_BYTES:
                self.close_connection = True
                self._send(refused(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "the body is too large"))
                return
            self.rfile.read(int(length))
            authorization = self.headers.get("Authorization", "")
            self._send(server.answer(self.command, self.path, authorization))

        def _send(self, found: RestAnswer) -> None:
            self.send_response(found.status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(found.body)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(found.body)

        do_GET = do_HEAD = do_POST = do_PUT = do_DELETE = _serve  # noqa: N815

        def log_message(self, *_: Any) -> None:
            """Requests are not logged."""

    return Handler
