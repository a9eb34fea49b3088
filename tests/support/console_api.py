"""A browser's part of a talk with the console, without the page.

Next door: the console as a child process (console.py).
"""

import http.client
import json
from collections.abc import Iterator
from typing import Any

from tests.support.console import PASSWORD, USERNAME


class Visit:
    """A browser that stays logged in."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.cookie = ""

    def headers(self) -> dict[str, str]:
        found = {"X-Kafscale": "1", "Origin": f"http://127.0.0.1:{self.port}"}
        return found | ({"Cookie": self.cookie} if self.cookie else {})

    def request(self, method: str, path: str, body: Any = None) -> tuple[int, bytes]:
        """Give status and body of an answer; status 0 if nothing answers."""
        headers = self.headers()
        raw: bytes | None = None
        if body is not None:
            raw, headers["Content-Type"] = json.dumps(body).encode(), "application/json"
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=120)
        try:
            connection.request(method, path, raw, headers)
            answer = connection.getresponse()
            if (cookie := answer.getheader("Set-Cookie")) is not None:
                self.cookie = cookie.partition(";")[0]
            return answer.status, answer.read()
        except OSError:
            return 0, b""
        finally:
            connection.close()

    def api(self, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        """Ask the API; gives status and JSON."""
        status, raw = self.request(method, f"/api/v1/{path}", body)
        return status, json.loads(raw) if raw else None

    def get(self, path: str) -> Any:
        """What a GET answers; it must succeed."""
        status, answer = self.api("GET", path)
        assert status == 200, answer
        return answer

    def log_in(self, password: str = PASSWORD) -> int:
        return self.api("POST", "session", {"username": USERNAME, "password": password})[0]

    def events(self, path: str, body: Any) -> Iterator[tuple[str, Any]]:
        """The events of a stream that ends by itself."""
        status, raw = self.request("POST", f"/api/v1/{path}", body)
        assert status == 200, raw
        for frame in raw.decode().split("\n\n"):
            lines = [line for line in frame.splitlines() if not line.startswith(":")]
            if lines:
                name, data = (line.partition(": ")[2] for line in lines)
                yield name, json.loads(data)
