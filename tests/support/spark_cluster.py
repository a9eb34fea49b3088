"""A standalone Spark cluster on this machine: a master and workers, each a process of its own.

In this room: starting them from the jars of the installed pyspark, on free ports of loopback, with
little memory. Executors are children of the workers and go with them.
The workers' environment is bare: what executors need, a job must say (`spark.executorEnv.*`).
Next door: sessions in the test's own process (tests/spark/conftest.py).
"""

import os
import re
import shutil
import subprocess
import tempfile
import time
from pathlib import Path
from types import TracebackType
from typing import Self

import psutil
import pyspark

from tests.support.maven import Unavailable
from tests.support.ports import free_port
from tests.support.process import dying_with_us

HOME = Path(pyspark.__file__).parent
SOURCES = Path(__file__).resolve().parents[2] / "src"
EXECUTOR = "org.apache.spark.executor.CoarseGrainedExecutorBackend"


class SparkCluster:
    """One master, `workers` workers of one core; to be used as a context."""

    start_deadline_s = 120.0

    def __init__(self, workers: int = 2) -> None:
        java = shutil.which("java")
        if java is None:
            raise Unavailable("java is not installed")
        self._java = java
        self.folder = Path(tempfile.mkdtemp(prefix="spark-cluster-"))
        self._scratch = self.folder / "scratch"
        self._scratch.mkdir()
        self.port = free_port()
        self._count = workers
        self._processes: dict[str, subprocess.Popen[bytes]] = {}

    @property
    def url(self) -> str:
        """What goes after --master."""
        return f"spark://127.0.0.1:{self.port}"

    def conf(self, **executor_env: str) -> dict[str, str]:
        """The settings of an application here: loopback, small executors, their environment."""
        return {
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.driver.memory": "1g",
            "spark.executor.memory": "600m",
            "spark.executor.cores": "1",
            "spark.local.dir": str(self._scratch),
            **{f"spark.executorEnv.{name}": value for name, value in executor_env.items()},
        }

    def installed(self) -> str:
        """A folder with our packages as `pip install` would lay them down, for PYTHONPATH."""
        folder = self.folder / "installed"
        if not folder.exists():
            leave = shutil.ignore_patterns("__pycache__", "*.egg-info")
            shutil.copytree(SOURCES, folder, ignore=leave)
        return str(folder)

    def executors(self) -> list[psutil.Process]:
        """The executors' JVMs that run now."""
        found = []
        for process in self._children():
            try:
                if EXECUTOR in process.cmdline():
                    found.append(process)
            except psutil.Error:
                continue  # it has just ended
        return found

    def applications(self) -> int:
        """How many applications have had executors here so far."""
        return len({path.name for path in self.folder.glob("worker-*/app-*")})

    def start(self) -> Self:
        try:
            master = ["master.Master", "--host", "127.0.0.1", "--port", str(self.port)]
            self._launch("master", [*master, "--webui-port", "0"])
            self._wait_for("master", r"New state: ALIVE")
            for number in range(self._count):
                name = f"worker-{number}"
                words = ["worker.Worker", "--host", "127.0.0.1", "--webui-port", "0"]
                words += ["--cores", "1", "--memory", "700m", "--work-dir", str(self.folder / name)]
                self._launch(name, [*words, self.url])
            for number in range(self._count):
                self._wait_for(f"worker-{number}", r"Successfully registered with master")
        except BaseException:
            self.close()
            raise
        return self

    def close(self) -> None:
        """End everything that was started, executors included."""
        family = self._children()
        for process in self._processes.values():
            process.kill()
            process.wait()
        for one in family:
            try:
                one.kill()
            except psutil.NoSuchProcess:
                continue  # it went with its worker
        psutil.wait_procs(family, timeout=20)
        shutil.rmtree(self.folder, ignore_errors=True)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _children(self) -> list[psutil.Process]:
        found: list[psutil.Process] = []
        for process in self._processes.values():
            try:
                found += psutil.Process(process.pid).children(recursive=True)
            except psutil.NoSuchProcess:
                continue
        return found

    def _launch(self, name: str, words: list[str]) -> None:
        kind, *rest = words
        quick = ["-Xmx256m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"]
        command = [self._java, *quick, "-cp", f"{HOME}/jars/*"]
        env = {
            "PATH": os.environ["PATH"],
            "SPARK_HOME": str(HOME),
            "SPARK_SCALA_VERSION": "2.13",  # else workers look for a build of Spark
            "SPARK_LOCAL_IP": "127.0.0.1",
            "SPARK_LOCAL_DIRS": str(self._scratch),
        }
        with (self.folder / f"{name}.txt").open("wb") as output:
            self._processes[name] = subprocess.Popen(
                dying_with_us([*command, f"org.apache.spark.deploy.{kind}", *rest]),
                cwd=self.folder,
                env=env,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
            )

    def _wait_for(self, name: str, words: str) -> None:
        deadline = time.monotonic() + self.start_deadline_s
        output = self.folder / f"{name}.txt"
        while not re.search(words, text := output.read_text(errors="replace")):
            if self._processes[name].poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"{name} did not come up:\n{text[-2000:]}")
            time.sleep(0.05)
