"""Where clients fetch tokens: the part of an issuer that OIDC calls the token endpoint.

Three addresses: one gives tokens that count, one gives some that have expired, one gives none.
Next door: the tokens (certificates.py).
"""

import json
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Self
from urllib.parse import parse_qs, urlsplit

from tests.support.certificates import TokenIssuer


class TokenEndpoint:
    """Serves on loopback between entering and leaving."""

    def __init__(self, issuer: TokenIssuer, user: str) -> None:
        tokens: dict[str, Callable[[], str]] = {
            "/valid": lambda: issuer.token(user, client_id=user),
            "/expired": lambda: issuer.token(user, -3600),
            "/invalid": lambda: "no.token",
        }

        class Answers(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                """As a machine's own service gives tokens: everything stands in the address."""
                asked = parse_qs(urlsplit(self.path).query)
                if {"api-version", "resource", "client_id"} <= asked.keys():
                    self._give(urlsplit(self.path).path)
                else:
                    self.send_error(400)

            def do_POST(self) -> None:
                self.rfile.read(int(self.headers.get("Content-Length", "0")))
                self._give(self.path)

            def _give(self, path: str) -> None:
                answer = {"access_token": tokens[path](), "token_type": "Bearer"}
                body = json.dumps(answer | {"expires_in": 3600}).encode()
                self.send_response(200)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *words: object) -> None:
                """Say nothing: the lines would stand among those of tests."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Answers)
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)

    def url(self, path: str = "valid") -> str:
        return f"http://127.0.0.1:{self._server.server_port}/{path}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
