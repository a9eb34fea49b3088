"""A standalone Spark cluster on this machine: a master and workers, each a process of its own.

In this room: starting them from the jars of the installed pyspark, on free ports of loopback, with
little memory. Executors are children of the workers and go with them.
The workers' environment is bare: what executors need, a job must say (`spark.executorEnv.*`).
Next door: sessions in the test's own process (tests/spark/conftest.py).
"""

import os
import shutil
import tempfile
from functools import partial
from pathlib import Path
from typing import Self

import psutil
import pyspark

from tests.support.maven import Unavailable
from tests.support.ports import free_port
from tests.support.program import Program, Service

HOME = Path(pyspark.__file__).parent
SOURCES = Path(__file__).resolve().parents[2] / "src"
EXECUTOR = "org.apache.spark.executor.CoarseGrainedExecutorBackend"


class SparkCluster(Service):
    """One master, `workers` workers of one core; to be used as a context."""

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
        self._programs: list[Program] = []

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
            # The first task waits for all of them.
            "spark.cores.max": str(self._count),
            "spark.scheduler.minRegisteredResourcesRatio": "1.0",
            "spark.scheduler.maxRegisteredResourcesWaitingTime": "120s",
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
        words = ["master.Master", "--host", "127.0.0.1", "--port", str(self.port)]
        master = self._launch("master", [*words, "--webui-port", "0"])
        master.wait_until(lambda: "New state: ALIVE" in master.output.read_text(errors="replace"))
        for number in range(self._count):
            name = f"worker-{number}"
            words = ["worker.Worker", "--host", "127.0.0.1", "--webui-port", "0"]
            words += ["--cores", "1", "--memory", "700m", "--work-dir", str(self.folder / name)]
            self._launch(name, [*words, self.url])
        for worker in self._programs[1:]:
            worker.wait_until(partial(_is_registered, worker))
        return self

    def kill(self) -> None:
        """End everything that was started, executors included."""
        family = self._children()
        for program in self._programs:
            program.kill()
        for one in family:
            try:
                one.kill()
            except psutil.NoSuchProcess:
                continue  # it went with its worker
        psutil.wait_procs(family, timeout=60)

    def _children(self) -> list[psutil.Process]:
        found: list[psutil.Process] = []
        for program in self._programs:
            try:
                found += psutil.Process(program.pid).children(recursive=True)
            except psutil.NoSuchProcess:
                continue
        return found

    def _launch(self, name: str, words: list[str]) -> Program:
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
        program = Program(self.folder, f"{name}.txt")
        program.launch([*command, f"org.apache.spark.deploy.{kind}", *rest], env)
        self._programs.append(program)
        return program


def _is_registered(worker: Program) -> bool:
    return "Successfully registered with master" in worker.output.read_text(errors="replace")
