"""Log lines about what clients do wrong: a few per client and minute; the rest is counted.

Here: which of these lines an operator sees, so that no client can fill the log. At level debug
every line is logged.
Next door: what is wrong with a connection (connections.py) or a request (kafka/client_errors.py).
"""

import re
from collections import OrderedDict
from functools import cache
from typing import Final

import structlog

from kafscale.model.clock import Clock

logger = structlog.get_logger()

WINDOW_S: Final = 60.0
LINES_PER_WINDOW: Final = 10
MOST_CLIENTS: Final = 1000  # that are told apart; all others together are like one more
_OTHERS: Final = "others"
_WORD: Final = re.compile(r"(?<!^)(?=[A-Z])")


@cache
def reason_of(problem: type[Exception]) -> str:
    """`CorruptBatch` is counted and logged as `corrupt_batch`."""
    return _WORD.sub("_", problem.__name__).lower()


class _Window:
    """What one client has had logged lately."""

    __slots__ = ("began_s", "left_out", "lines")

    def __init__(self, began_s: float) -> None:
        self.began_s = began_s
        self.lines = 0
        self.left_out = 0


class ClientLog:
    """The lines of all clients of a broker; a client is an address."""

    def __init__(self, clock: Clock) -> None:
        """`clock` says how old a window is."""
        self._clock = clock
        self._windows: OrderedDict[str, _Window] = OrderedDict()  # the oldest first

    def write(self, event: str, peer: str, reason: str, **facts: object) -> None:
        """Log a line, or count it if this client has had its lines."""
        self.end_windows()
        window = self._window_of(peer)
        if window.lines < LINES_PER_WINDOW:
            window.lines += 1
            logger.info(event, peer=peer, reason=reason, **facts)
        else:
            window.left_out += 1
            logger.debug(event, peer=peer, reason=reason, **facts)

    def _window_of(self, peer: str) -> _Window:
        window = self._windows.get(peer)
        if window is None and len(self._windows) >= MOST_CLIENTS:
            peer = _OTHERS
            window = self._windows.get(peer)
        if window is None:
            window = self._windows[peer] = _Window(self._clock.elapsed_s())
        return window

    def end_windows(self) -> None:
        """Forget windows that are over; called now and then, so that counts are told in time."""
        oldest_s = self._clock.elapsed_s() - WINDOW_S
        while self._windows and next(iter(self._windows.values())).began_s <= oldest_s:
            self._end_first()

    def aclose(self) -> None:
        """Tell what was left out; no more lines come."""
        while self._windows:
            self._end_first()

    def _end_first(self) -> None:
        peer, window = self._windows.popitem(last=False)
        if window.left_out:
            logger.info("lines_left_out", peer=peer, count=window.left_out)
