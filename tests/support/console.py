"""The console as a child process, beside a broker of the tests.

Next door: the page it serves (ui.py), the browser that looks at it (browser.py).
"""

import http.client
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from tests.support.broker import KafscaleProcess
from tests.support.ports import free_port
from tests.support.program import Program

USERNAME = "admin"
PASSWORD = "correct horse"
CREDENTIALS = {"KAFSCALE_UI_USERNAME": USERNAME, "KAFSCALE_UI_PASSWORD": PASSWORD}


def has_console() -> bool:
    """Whether this kafscale can be started as a console."""
    command = [sys.executable, "-m", "kafscale.cli.main", "console", "--help"]
    return subprocess.run(command, capture_output=True, timeout=60, check=False).returncode == 0


class ConsoleProcess(Program):
    """`kafscale console` on a free port of loopback."""

    label = "console"

    def __init__(
        self, broker: KafscaleProcess, folder: Path, env: Mapping[str, str] = CREDENTIALS
    ) -> None:
        """`env`: what it is started with besides the broker's address and its store."""
        super().__init__(folder)
        self.port = free_port()
        self._broker = broker
        self._env = dict(env)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> "ConsoleProcess":
        self.folder.mkdir(parents=True, exist_ok=True)
        own = {
            "KAFSCALE_CONSOLE_PORT": str(self.port),
            "KAFSCALE_CONSOLE_BOOTSTRAP": self._broker.bootstrap,
            "KAFSCALE_DATA_DIR": str(self._broker.data),
            "PYTHONDONTWRITEBYTECODE": "",
        }
        without = {name: value for name, value in os.environ.items() if name not in CREDENTIALS}
        command = [sys.executable, "-m", "kafscale.cli.main", "console"]
        self.launch(command, {**without, **own, **self._env})
        self.wait_until(self.answers)
        return self

    def answers(self) -> bool:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=2)
        try:
            connection.request("GET", "/health")
            return connection.getresponse().status == 200
        except OSError:
            return False
        finally:
            connection.close()
