"""Waiting for the first of three: a signal to stop, the end of a child, a time."""

import contextlib
import select
import signal
import socket
from collections.abc import Iterator
from types import FrameType
from typing import Final

_LEAVE: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Wakeup:
    """Counts signals to stop; the second one means at once."""

    def __init__(self, receiver: socket.socket) -> None:
        self.asked_to_leave = 0
        self._receiver = receiver

    def wait(self, seconds: float) -> None:
        """Sleep until the time is over or a signal comes."""
        ready, _, _ = select.select([self._receiver], [], [], seconds)
        if ready:
            self._receiver.recv(4096)

    def handle(self, number: int, frame: FrameType | None) -> None:
        """Handle a signal; one that is not to stop only ends a wait."""
        self.asked_to_leave += number in _LEAVE


@contextlib.contextmanager
def listening() -> Iterator[Wakeup]:
    """Handle signals inside the block. Only for the main thread."""
    receiver, sender = socket.socketpair()
    with receiver, sender:
        receiver.setblocking(False)
        sender.setblocking(False)
        wakeup = Wakeup(receiver)
        # A process started by nohup ignores SIGHUP.
        ignores_hangup = signal.getsignal(signal.SIGHUP) == signal.SIG_IGN
        signals = (*_LEAVE, signal.SIGCHLD)
        numbers = [number for number in signals if number != signal.SIGHUP or not ignores_hangup]
        before = {number: signal.signal(number, wakeup.handle) for number in numbers}
        former = signal.set_wakeup_fd(sender.fileno(), warn_on_full_buffer=False)
        try:
            yield wakeup
        finally:
            signal.set_wakeup_fd(former)
            for number, handler in before.items():
                signal.signal(number, handler)
