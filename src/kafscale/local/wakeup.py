"""Waiting for whatever comes first: a signal to leave, the end of a child, or time."""

import contextlib
import select
import signal
import socket
from collections.abc import Iterator
from types import FrameType
from typing import Final

_LEAVE: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Wakeup:
    """Counts requests to leave; the second one means at once."""

    def __init__(self, ear: socket.socket) -> None:
        self.asked_to_leave = 0
        self._ear = ear

    def wait(self, seconds: float) -> None:
        """Sleep, unless a signal comes."""
        ready, _, _ = select.select([self._ear], [], [], seconds)
        if ready:
            self._ear.recv(4096)

    def heard(self, number: int, frame: FrameType | None) -> None:
        """Take a signal: the others only end a wait."""
        self.asked_to_leave += number in _LEAVE


@contextlib.contextmanager
def listening() -> Iterator[Wakeup]:
    """Hear signals until left. Only for the main thread."""
    ear, mouth = socket.socketpair()
    with ear, mouth:
        ear.setblocking(False)
        mouth.setblocking(False)
        wakeup = Wakeup(ear)
        # Somebody who started us with nohup wants SIGHUP to be ignored.
        deaf = signal.getsignal(signal.SIGHUP) == signal.SIG_IGN
        numbers = [one for one in (*_LEAVE, signal.SIGCHLD) if one != signal.SIGHUP or not deaf]
        before = {number: signal.signal(number, wakeup.heard) for number in numbers}
        former = signal.set_wakeup_fd(mouth.fileno(), warn_on_full_buffer=False)
        try:
            yield wakeup
        finally:
            signal.set_wakeup_fd(former)
            for number, handler in before.items():
                signal.signal(number, handler)
