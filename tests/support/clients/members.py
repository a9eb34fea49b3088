"""Members of a group that are programs: what they print is what they have read."""

import queue
import signal
import subprocess
import threading
from collections.abc import Callable

from tests.support.clients.base import ANSWER_WITHIN_S, ClientError, Member, Stored

POLL_FOR_S = 0.2


class ProgramMember(Member):
    """It reads and commits by itself; asked to end, it leaves its group."""

    def __init__(self, command: list[str], parse: Callable[[str], Stored]) -> None:
        self._parse = parse
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        self._lines: queue.Queue[str] = queue.Queue()
        self._listener = threading.Thread(target=self._listen, daemon=True)
        self._listener.start()

    def poll(self) -> list[Stored]:
        if self._process.poll() is not None:
            raise ClientError(f"{self._process.args!r} ended with {self._process.returncode}")
        found: list[Stored] = []
        try:
            found.append(self._parse(self._lines.get(timeout=POLL_FOR_S)))
            while True:
                found.append(self._parse(self._lines.get_nowait()))
        except queue.Empty:
            return found

    def leave(self) -> None:
        self._process.send_signal(signal.SIGTERM)
        try:
            self._process.wait(ANSWER_WITHIN_S)
        finally:
            self._process.kill()
            self._process.wait()
            self._listener.join(ANSWER_WITHIN_S)

    def _listen(self) -> None:
        assert self._process.stdout is not None
        with self._process.stdout as lines:
            for line in lines:
                self._lines.put(line.rstrip("\n"))
