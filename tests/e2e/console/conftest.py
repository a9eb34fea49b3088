"""One broker, one console and one browser for the journeys of a worker."""

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser

from tests.support import browser as chromium
from tests.support import ui
from tests.support.broker import KafscaleProcess
from tests.support.console import CREDENTIALS, ConsoleProcess, has_console
from tests.support.maven import Unavailable


@pytest.fixture(scope="session")
def static() -> Path:
    """The folder with the built page."""
    try:
        return ui.built()
    except Unavailable as problem:
        pytest.skip(f"the page cannot be built here: {problem}")


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    try:
        with chromium.started() as started:
            yield started
    except Unavailable as problem:
        pytest.skip(f"there is no browser here: {problem}")


@pytest.fixture(scope="session")
def console_broker() -> Iterator[KafscaleProcess]:
    if not has_console():
        pytest.skip("this kafscale has no command `console`")
    with KafscaleProcess(env={"KAFSCALE_CONSOLE_ENABLED": "false"}) as broker:
        yield broker


SCHEMA_NUMBER = 41
AVRO = {
    "type": "record",
    "name": "Place",
    "fields": [{"name": "id", "type": "long"}, {"name": "city", "type": "string"}],
}


class _Registry(BaseHTTPRequestHandler):
    """A schema registry with one schema."""

    def do_GET(self) -> None:
        found = self.path.partition("?")[0] == f"/schemas/ids/{SCHEMA_NUMBER}"
        body = json.dumps({"schema": json.dumps(AVRO)}).encode()
        self.send_response(200 if found else 404)
        self.end_headers()
        self.wfile.write(body if found else b"{}")

    def log_message(self, *_: Any) -> None:
        """Nothing."""


@pytest.fixture(scope="session")
def registry() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Registry)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


@pytest.fixture(scope="session")
def console(
    console_broker: KafscaleProcess,
    static: Path,
    registry: str,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[ConsoleProcess]:
    settings = {"KAFSCALE_CONSOLE_SCHEMA_REGISTRY": registry}
    folder = tmp_path_factory.mktemp("console")
    process = ConsoleProcess(console_broker, folder, {**CREDENTIALS, **settings})
    try:
        yield process.start()
    finally:
        process.kill()
