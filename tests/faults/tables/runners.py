"""Runners of the pipeline as processes, each behind a door to the bucket of its own."""

import os
import signal
import subprocess
import sys
from pathlib import Path

from tests.faults.cluster import NAMESPACE, Cluster
from tests.faults.s3_proxy import S3Proxy
from tests.support.program import Program
from tests.support.seaweed import BUCKET

STORE = f"s3://{BUCKET}/{NAMESPACE}"
LEASE_S = 3
# Little work is done in the runner's own process: no JVM is started for it.
WORK = ("--look", "1", "--lease", str(LEASE_S), "--parallel", "3", "--table-upkeep-every", "4s",
        "--compact-every", "never", "--retain-every", "never", "--audit-every", "never",
        "--compact-by-key-every", "never")  # fmt: skip


class RunnerProcess(Program):
    """`kafscale pipeline run`."""

    label = "runner"

    def __init__(self, cluster: Cluster, number: int) -> None:
        folder = cluster.folder / f"runner-{number}"
        folder.mkdir(parents=True)
        super().__init__(folder)
        self.name = f"runner-{number}"
        self.s3 = S3Proxy(cluster.wires, cluster.s3.port, self.name, cluster.history, cluster.seed)
        self._environment = {
            **os.environ,
            **cluster.s3.broker_environment(NAMESPACE),
            "KAFSCALE_S3_ENDPOINT": self.s3.endpoint,
        }

    def start(self) -> None:
        self.launch(self._command(), self._environment)

    def once(self, within_s: float = 240.0) -> int:
        """Do what is due, in a process of its own; its exit code."""
        with self.output.open("ab") as output:
            return subprocess.run(
                [*self._command(), "--once"], env=self._environment, cwd=self.folder,
                stdin=subprocess.DEVNULL, stdout=output, stderr=output, timeout=within_s,
                check=False,
            ).returncode  # fmt: skip

    def stop(self, within_s: float = 120.0) -> int:
        """Ask it to end, as an operator does; its exit code."""
        self.send(signal.SIGTERM)
        return self.process.wait(within_s)

    def close(self) -> None:
        self.kill()
        self.s3.close()

    def _command(self) -> list[str]:
        return [sys.executable, "-m", "kafscale.cli.main", "pipeline", "run",
                "--store", STORE, *WORK]  # fmt: skip


def said(folder: Path) -> str:
    """What runners printed, for who looks at a finding."""
    return "\n".join(path.read_text(errors="replace") for path in folder.glob("runner-*/output*"))
