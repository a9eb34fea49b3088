"""A server of Spark Connect on this machine, and what its clients need besides pyspark.

In this room: starting the server from the jars of the installed pyspark, on a free port of
loopback. Next door: a standalone cluster (spark_cluster.py).
"""

import os
import socket
import sys
from pathlib import Path
from typing import Self

import pyspark

from tests.support.ports import free_port
from tests.support.program import Program, Service
from tests.support.venv import folder_with

HOME = Path(pyspark.__file__).parent
# What `pip install 'pyspark[connect]'` adds to what the tests have.
PACKAGES = ("grpcio-status", "googleapis-common-protos", "zstandard")
SERVER = "org.apache.spark.sql.connect.service.SparkConnectServer"


class SparkConnect(Service):
    """One server; to be used as a context."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        self.folder = folder
        self.packages = folder_with(*PACKAGES)
        self.port = free_port()
        self._program = Program(folder)

    @property
    def url(self) -> str:
        """What goes after --master."""
        return f"sc://127.0.0.1:{self.port}"

    def client_environment(self) -> dict[str, str]:
        """For a process that is a client."""
        return {**os.environ, "PYTHONPATH": self.packages}

    def start(self) -> Self:
        settings = {
            "spark.connect.grpc.binding.port": self.port,
            "spark.connect.grpc.binding.address": "127.0.0.1",
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.ui.enabled": "false",
            "spark.local.dir": self._program.folder,
        }
        words = [word for name, value in settings.items() for word in ("--conf", f"{name}={value}")]
        command = [str(HOME / "bin/spark-submit"), "--master", "local[2]", "--class", SERVER]
        python = {"PYSPARK_PYTHON": sys.executable, "PYSPARK_DRIVER_PYTHON": sys.executable}
        environment = {**os.environ, **python, "SPARK_HOME": str(HOME)}
        self._program.launch([*command, *words, "spark-internal"], environment)
        self._program.wait_until(self._answers, pause_s=0.2)
        return self

    def kill(self) -> None:
        self._program.kill()

    def _answers(self) -> bool:
        with socket.socket() as door:
            return door.connect_ex(("127.0.0.1", self.port)) == 0
