"""A broker as a child process: start, stop, kill, start again on the same port and data.

In this room: what every broker under test has in common.
Next door: what every program has in common (program.py), which command to run (broker.py,
apache_kafka.py), the bytes of the first question (wire.py).
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
from tests.support.program import Program, ProgramDied


class BrokerProcess(Program):
    """One broker on loopback, in its own temporary folder unless told otherwise."""

    label = "broker"
    stop_deadline_s = 90.0

    def __init__(self, folder: Path | None = None, env: Mapping[str, str] | None = None) -> None:
        super().__init__(folder or Path(tempfile.mkdtemp(prefix=f"{self.label}-")))
        self._owns_folder = folder is None
        self.folder.mkdir(parents=True, exist_ok=True)
        self.port = free_port()
        self.extra_env = dict(env or {})
        self.started_in_s = 0.0

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

    def begin(self) -> None:
        """Start the process; it answers a while later."""
        self.prepare()
        self.launch(self.command(), {**os.environ, **self.environment(), **self.extra_env})

    def start(self) -> Self:
        began = time.monotonic()
        self.begin()
        self.wait_until(lambda: self.running and self.answers(), pause_s=0.01)
        self.started_in_s = time.monotonic() - began
        return self

    def answers(self) -> bool:
        """Whether clients are served."""
        return wire.answers(self.port)

    def stop(self) -> int:
        """Ask politely; the exit status. One that does not end in time is killed and reported."""
        if self._process is None:
            return 0
        if self.running:
            self.send(signal.SIGTERM)
        try:
            return self.process.wait(self.stop_deadline_s)
        except subprocess.TimeoutExpired:
            self.kill()
            raise ProgramDied(
                self.story(f"did not stop within {self.stop_deadline_s:.0f} s")
            ) from None

    def restart(self) -> Self:
        self.stop()
        return self.start()

    def close(self) -> None:
        """Kill whatever is left, remove the folder if it is ours."""
        self.kill()
        if self._owns_folder:
            shutil.rmtree(self.folder, ignore_errors=True)

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
