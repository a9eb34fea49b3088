"""Work that goes on until the user stops it.

After the first SIGTERM or Ctrl-C the job finishes what is under way, up to its next commit. The
second one interrupts it. Next door: the jobs that follow a topic (export.py).
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
    """Whether the user asked to stop."""

    def __init__(self) -> None:
        self.asked = False

    def sleep(self, seconds: float) -> None:
        """Wait so long, or until the user asks to stop."""
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
    """Handle signals meanwhile, where that is possible; an interrupt ends the work, too.

    Spark handles Ctrl-C itself: it cancels its tasks and interrupts. No result of them counts.
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
