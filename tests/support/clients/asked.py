"""A program that is asked by lines and answers by lines.

A question is one line of words; bytes are "." and Base64, null is "~". Answers are lines, then
"OK", or one line "ERR" with the reason.
"""

import base64
import queue
import subprocess
import threading
from collections.abc import Iterator

from tests.support.clients.base import ANSWER_WITHIN_S, ClientError


class AskedProgram:
    """A program that runs until it is closed."""

    def __init__(self, name: str, command: list[str]) -> None:
        self._name = name
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self._lines: queue.Queue[str | None] = queue.Queue()
        threading.Thread(target=self._listen, daemon=True).start()

    def close(self) -> None:
        self._process.kill()
        self._process.wait()
        assert self._process.stdin is not None
        self._process.stdin.close()

    def ask(self, command: str) -> list[str]:
        """The lines of an answer. Raises ClientError."""
        assert self._process.stdin is not None
        self._process.stdin.write(command + "\n")
        self._process.stdin.flush()
        return list(self._answer())

    def _answer(self) -> Iterator[str]:
        while True:
            try:
                # Longer than any patience inside the program, so that its own words come first.
                line = self._lines.get(timeout=2 * ANSWER_WITHIN_S)
            except queue.Empty:
                raise ClientError(f"{self._name} hangs") from None
            if line is None:
                raise ClientError(f"{self._name} ended with {self._process.wait()}")
            if line == "OK":
                return
            if line.startswith("ERR "):
                raise ClientError(line[4:])
            yield line

    def _listen(self) -> None:
        assert self._process.stdout is not None
        with self._process.stdout as lines:
            for line in lines:
                self._lines.put(line.rstrip("\n"))
        self._lines.put(None)


def word(raw: bytes | None) -> str:
    return "~" if raw is None else "." + base64.b64encode(raw).decode()


def bytes_of(text: str) -> bytes | None:
    return None if text == "~" else base64.b64decode(text[1:])
