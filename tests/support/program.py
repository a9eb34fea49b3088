"""A program as a child process: started, asked until it answers, paused, ended by its pid.

In this room: what all programs of the tests have in common. Their output goes to a file.
Next door: brokers (process.py), etcd (etcd.py), an S3 server (seaweed.py), Spark's
processes (spark_cluster.py).
"""

import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Self


class ProgramDied(Exception):
    """It ended or never answered; the text carries the end of its output."""


class Program:
    """One process in its folder."""

    label = "program"
    start_deadline_s = 120.0

    def __init__(self, folder: Path, output: str = "output.txt") -> None:
        self.folder = folder
        self.output = folder / output
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def process(self) -> subprocess.Popen[bytes]:
        assert self._process is not None, "not started"
        return self._process

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def launch(self, command: list[str], env: Mapping[str, str] | None = None) -> None:
        """Start it; it answers a while later."""
        assert not self.running, "already started"
        with self.output.open("ab") as output:
            self._process = subprocess.Popen(
                dying_with_us(command),
                cwd=self.folder,
                env=env,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
            )

    def wait_until(self, answers: Callable[[], bool], pause_s: float = 0.02) -> None:
        """Until it answers; one that does not, or ends, is killed and reported."""
        deadline = time.monotonic() + self.start_deadline_s
        try:
            while not answers():
                if not self.running:
                    raise ProgramDied(self.story(f"exited with {self.process.returncode}"))
                if time.monotonic() > deadline:
                    raise ProgramDied(self.story(f"no answer in {self.start_deadline_s:.0f} s"))
                time.sleep(pause_s)
        except BaseException:
            self.kill()
            raise

    def send(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def pause(self) -> None:
        """Hang: connections stay open, nothing answers."""
        self.send(signal.SIGSTOP)
        self.wait_until_stopped()

    def wait_until_stopped(self) -> None:
        """Wait for SIGSTOP to reach every thread: kill(2) returns while some still run."""
        tasks = Path(f"/proc/{self.pid}/task")
        while any(_state(task) not in "TtX" for task in tasks.iterdir()):
            time.sleep(0.01)

    def resume(self) -> None:
        self.send(signal.SIGCONT)

    def kill(self) -> None:
        """SIGKILL: nothing is flushed, nothing is said."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def tail(self, lines: int = 40) -> str:
        """The end of what it printed."""
        if not self.output.exists():
            return ""
        return "\n".join(self.output.read_text(errors="replace").splitlines()[-lines:])

    def story(self, what: str) -> str:
        return f"{self.label} {what}; its last words:\n{self.tail()}"


class Service:
    """What is started when entered, and gone without a trace when left."""

    folder: Path

    def start(self) -> Self:
        raise NotImplementedError

    def kill(self) -> None:
        raise NotImplementedError

    def close(self) -> None:
        self.kill()
        shutil.rmtree(self.folder, ignore_errors=True)

    def __enter__(self) -> Self:
        try:
            return self.start()
        except BaseException:
            self.close()
            raise

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def dying_with_us(command: list[str]) -> list[str]:
    """Have the kernel kill the program when this process goes, however it goes."""
    setpriv = shutil.which("setpriv")
    return [setpriv, "--pdeathsig", "KILL", *command] if setpriv else command


def _state(task: Path) -> str:
    """What the kernel says a thread does; one that has ended counts as dead."""
    try:
        return (task / "stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return "X"
