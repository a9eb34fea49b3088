"""The broker of this project as a child process.

Next door: the life of the process (process.py), the other broker (apache_kafka.py).
"""

import os
import sys
import sysconfig
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.support.maven import ROOT
from tests.support.ports import free_port
from tests.support.process import BrokerProcess


class KafscaleProcess(BrokerProcess):
    """`kafscale serve` on free ports of loopback, its data in a temporary folder."""

    label = "kafscale"
    settings: Sequence[str] = ()  # KEY=VALUE, as after --set

    def __init__(
        self,
        folder: Path | None = None,
        env: Mapping[str, str] | None = None,
        settings: Sequence[str] = (),
        python: str = sys.executable,
    ) -> None:
        """`python`: another interpreter of the same version, which uses this one's packages."""
        super().__init__(folder, env)
        self._python = python
        self.settings = (*self.settings, *settings)
        self.metrics_port = free_port()
        self.pulsar_port = free_port()
        self.data = self.folder / "data"

    def command(self) -> list[str]:
        more = (word for one in self.settings for word in ("--set", one))
        return [self._python, "-m", "kafscale.cli.main", "serve", *more]

    def environment(self) -> dict[str, str]:
        packages = {"PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{sysconfig.get_path('purelib')}"}
        return {
            **(packages if self._python != sys.executable else {}),
            # Empty: keep the compiled modules, as an installed broker has them. Compiling takes
            # longer than the rest of a start.
            "PYTHONDONTWRITEBYTECODE": "",
            "KAFSCALE_BROKER_HOST": "127.0.0.1",
            "KAFSCALE_BROKER_PORT": str(self.port),
            "KAFSCALE_METRICS_PORT": str(self.metrics_port),
            "KAFSCALE_PULSAR_PORT": str(self.pulsar_port),
            "KAFSCALE_DATA_DIR": str(self.data),
            "KAFSCALE_CONSOLE_ENABLED": "false",
            "KAFSCALE_FLUVIO_ENABLED": "false",  # its default ports are the same for all brokers
        }


class VirtualKafscaleProcess(KafscaleProcess):
    """Every topic is virtual: its partitions share two logs."""

    label = "kafscale, virtual topics"
    settings = ("mapping.physical_partitions=2",)


class SharedKafscaleProcess(KafscaleProcess):
    """All partitions of all topics share two logs."""

    label = "kafscale, shared topics"
    settings = ("storage.placement=shared", "storage.sharedLogs=2")
