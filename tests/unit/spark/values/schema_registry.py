"""A schema registry in a thread: what Confluent's clients ask of one, over real HTTP."""

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import unquote, urlsplit


class FakeSchemaRegistry:
    """Keeps schemas by number and by subject, as Protobuf's are sent: compiled, in base64."""

    def __init__(self) -> None:
        self.schemas: dict[int, dict[str, Any]] = {}
        self.subjects: dict[str, list[int]] = {}
        self.asked: list[str] = []
        self.broken = False
        registry = self

        class Answer(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self._answer(registry.get(urlsplit(self.path).path))

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                self._answer(registry.post(urlsplit(self.path).path, body))

            def _answer(self, found: Any) -> None:
                code = 500 if registry.broken else 404 if found is None else 200
                body = json.dumps(
                    found if code == 200 else {"error_code": code * 100, "message": "no"}
                )
                self.send_response(code)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body.encode())

            def log_message(self, *_: object) -> None:
                """No test reads it."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Answer)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,))
        self._thread.start()
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def close(self) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def register(self, subject: str, schema: str, **more: Any) -> int:
        """The number of a schema, the same for the same."""
        row = {"schema": schema, "schemaType": "AVRO", "references": [], **more}
        number = next((at for at, old in self.schemas.items() if old == row), 0)
        number = number or len(self.schemas) + 1
        self.schemas[number] = row
        versions = self.subjects.setdefault(subject, [])
        if number not in versions:
            versions.append(number)
        return number

    def get(self, path: str) -> Any:
        self.asked.append(path)
        match [unquote(part) for part in path.strip("/").split("/")]:
            case ["schemas", "ids", number]:
                return self.schemas.get(int(number))
            case ["subjects", subject, "versions"] if subject in self.subjects:
                return list(range(1, len(self.subjects[subject]) + 1))
            case ["subjects", subject, "versions", version] if subject in self.subjects:
                known = self.subjects[subject]
                at = len(known) if version == "latest" else int(version)
                return self._version(subject, at) if at <= len(known) else None
        return None

    def post(self, path: str, body: dict[str, Any]) -> Any:
        row = {"schema": body["schema"], "schemaType": body.get("schemaType") or "AVRO"}
        row["references"] = body.get("references") or []
        match [unquote(part) for part in path.strip("/").split("/")]:
            case ["subjects", subject, "versions"]:
                return {"id": self.register(subject, **row)}
            case ["subjects", subject]:
                for at, number in enumerate(self.subjects.get(subject, []), 1):
                    if self.schemas[number] == row:
                        return self._version(subject, at)
        return None

    def _version(self, subject: str, at: int) -> dict[str, Any]:
        number = self.subjects[subject][at - 1]
        return {"subject": subject, "version": at, "id": number, **self.schemas[number]}
