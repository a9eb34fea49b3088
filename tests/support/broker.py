"""The broker of this project as a child process.

Next door: the life of the process (process.py), the other broker (apache_kafka.py).
"""

import signal
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar

from tests.support.ports import free_port
from tests.support.process import BrokerProcess


class KafscaleProcess(BrokerProcess):
    """`kafscale serve` on free ports of loopback, its data in a temporary folder."""

    label = "kafscale"
    start_deadline_s = 30.0
    config: ClassVar[str] = ""  # what its file says, if it has one

    def __init__(self, folder: Path | None = None, env: Mapping[str, str] | None = None) -> None:
        super().__init__(folder, env)
        self.metrics_port = free_port()
        self.data = self.folder / "data"

    def send(self, number: signal.Signals) -> None:
        """SIGSTOP and SIGCONT, mostly."""
        assert self._process is not None
        self._process.send_signal(number)

    def command(self) -> list[str]:
        return [sys.executable, "-m", "kafscale.cli.main", "serve"]

    def environment(self) -> dict[str, str]:
        return {
            "KAFSCALE_BROKER_HOST": "127.0.0.1",
            "KAFSCALE_BROKER_PORT": str(self.port),
            "KAFSCALE_METRICS_PORT": str(self.metrics_port),
            "KAFSCALE_DATA_DIR": str(self.data),
        }


class ConfiguredKafscaleProcess(KafscaleProcess):
    """The same with a configuration file of its own."""

    def environment(self) -> dict[str, str]:
        file = self.folder / "kafscale.yaml"
        file.write_text(self.config, encoding="utf-8")
        return {**super().environment(), "KAFSCALE_CONFIG": str(file)}


class VirtualKafscaleProcess(ConfiguredKafscaleProcess):
    """Every topic is virtual: its partitions share two logs."""

    label = "kafscale, virtual topics"
    config = "mapping:\n  physical_partitions: 2\n"


class SharedKafscaleProcess(ConfiguredKafscaleProcess):
    """All partitions of all topics share two logs."""

    label = "kafscale, shared topics"
    config = "storage:\n  placement: shared\n  sharedLogs: 2\n"
