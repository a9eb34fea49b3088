"""Work that goes on until somebody says stop.

The first SIGTERM or Ctrl-C asks: what is under way is brought to its next commit. The second one
interrupts. Next door: the jobs that follow a topic (export.py).
"""

import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Final

_LOOK_S: Final = 0.2  # a sleep goes on after a signal: it is taken in pieces


class Stop:
    """Whether somebody said so."""

    def __init__(self) -> None:
        self.asked = False

    def sleep(self, seconds: float) -> None:
        """Wait so long, or until somebody says stop."""
        rest = seconds
        while rest > 0 and not self.asked:
            time.sleep(min(rest, _LOOK_S))
            rest -= _LOOK_S

    def _hear(self, _number: int, _frame: FrameType | None) -> None:
        if self.asked:
            raise KeyboardInterrupt
        self.asked = True


@contextmanager
def stoppable() -> Iterator[Stop]:
    """Listen to signals meanwhile, where that can be done; an interrupt ends it too.

    Spark takes Ctrl-C for itself, cancels its tasks and interrupts: nothing of them counts.
    """
    stop = Stop()
    listens = threading.current_thread() is threading.main_thread()
    kinds = (signal.SIGINT, signal.SIGTERM) if listens else ()
    before = {kind: signal.signal(kind, stop._hear) for kind in kinds}
    try:
        yield stop
    except KeyboardInterrupt:
        stop.asked = True
    finally:
        for kind, handler in before.items():
            signal.signal(kind, handler)
