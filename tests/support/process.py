"""A broker as a child process: start, stop, kill, start again on the same port and data.

In this room: what every broker under test has in common.
Next door: which command to run (broker.py, apache_kafka.py), the bytes of the first
question (wire.py).
"""

import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.support import wire
from tests.support.ports import free_port


class BrokerDied(Exception):
    """The broker ended or never answered; the text carries the end of its output."""


class BrokerProcess:
    """One broker on loopback, in its own temporary folder unless told otherwise."""

    label = "broker"
    start_deadline_s = 120.0
    stop_deadline_s = 90.0

    def __init__(self, folder: Path | None = None, env: Mapping[str, str] | None = None) -> None:
        self._owns_folder = folder is None
        self.folder = folder or Path(tempfile.mkdtemp(prefix=f"{self.label}-"))
        self.folder.mkdir(parents=True, exist_ok=True)
        self.port = free_port()
        self.extra_env = dict(env or {})
        self.output = self.folder / "output.txt"
        self.started_in_s = 0.0
        self._process: subprocess.Popen[bytes] | None = None

    # What a kind of broker says about itself.

    def command(self) -> list[str]:
        raise NotImplementedError

    def environment(self) -> dict[str, str]:
        return {}

    def prepare(self) -> None:
        """Whatever must be on disk before the first start."""

    # The life of the process.

    @property
    def bootstrap(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def pid(self) -> int:
        assert self._process is not None, "not started"
        return self._process.pid

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def start(self) -> Self:
        assert not self.running, "already started"
        self.prepare()
        env = {**os.environ, **self.environment(), **self.extra_env}
        with self.output.open("ab") as output:
            began = time.monotonic()
            self._process = subprocess.Popen(
                dying_with_us(self.command()),
                env=env,
                cwd=self.folder,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
            )
        try:
            self._wait_until_it_answers(began)
        except BaseException:
            self.kill()
            raise
        self.started_in_s = time.monotonic() - began
        return self

    def stop(self) -> int:
        """Ask politely; the exit status. One that does not end in time is killed and reported."""
        process = self._process
        if process is None:
            return 0
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
        try:
            return process.wait(self.stop_deadline_s)
        except subprocess.TimeoutExpired:
            self.kill()
            raise BrokerDied(
                self._story(f"did not stop within {self.stop_deadline_s:.0f} s")
            ) from None

    def kill(self) -> None:
        """SIGKILL: nothing is flushed, nothing is said."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def restart(self) -> Self:
        self.stop()
        return self.start()

    def close(self) -> None:
        """Kill whatever is left, remove the folder if it is ours."""
        self.kill()
        if self._owns_folder:
            shutil.rmtree(self.folder, ignore_errors=True)

    def tail(self, lines: int = 40) -> str:
        """The end of what the broker printed."""
        if not self.output.exists():
            return ""
        return "\n".join(self.output.read_text(errors="replace").splitlines()[-lines:])

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            if error is None:
                self.stop()
        finally:
            self.close()

    def _wait_until_it_answers(self, began: float) -> None:
        while True:
            if not self.running:
                assert self._process is not None
                raise BrokerDied(self._story(f"exited with {self._process.returncode}"))
            if wire.answers(self.port):
                return
            if time.monotonic() - began > self.start_deadline_s:
                raise BrokerDied(self._story(f"no answer within {self.start_deadline_s:.0f} s"))
            time.sleep(0.01)

    def _story(self, what: str) -> str:
        return f"{self.label} {what}; its last words:\n{self.tail()}"


def dying_with_us(command: list[str]) -> list[str]:
    """Have the kernel kill the broker when this process goes, however it goes."""
    setpriv = shutil.which("setpriv")
    return [setpriv, "--pdeathsig", "KILL", *command] if setpriv else command


def wait_until_stopped(pid: int) -> None:
    """Wait for SIGSTOP to reach every thread: kill(2) returns while some still run."""
    while any(_state(task) not in "TtX" for task in Path(f"/proc/{pid}/task").iterdir()):
        time.sleep(0.01)


def _state(task: Path) -> str:
    """What the kernel says a thread does; one that has ended counts as dead."""
    try:
        return (task / "stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return "X"
