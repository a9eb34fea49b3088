"""How many lines about one client are written within a minute.

Here: windows of time by client. A client that has used up its lines is counted, and the count is
told when its window ends. So no client can fill a disk, and the others' lines are still written.
Next door: what the lines are about (client_log.py, audit_log.py).
"""

from collections import OrderedDict
from collections.abc import Callable
from typing import Final

from kafscale.model.clock import Clock

WINDOW_S: Final = 60.0
MOST_CLIENTS: Final = 1000  # that are told apart; all others together are like one more
_OTHERS: Final = "others"


class _Window:
    """What one client has had written lately."""

    __slots__ = ("began_s", "left_out", "lines")

    def __init__(self, began_s: float) -> None:
        self.began_s = began_s
        self.lines = 0
        self.left_out = 0


class LineBudget:
    """The lines of all clients; a client is an address."""

    def __init__(self, clock: Clock, most_lines: int, tell: Callable[[str, int], None]) -> None:
        """`most_lines`: per client and window. `tell` gets a client and its lines left out."""
        self._clock = clock
        self._most_lines = most_lines
        self._tell = tell
        self._windows: OrderedDict[str, _Window] = OrderedDict()  # the oldest first

    def take(self, peer: str) -> bool:
        """Whether one more line about this client may be written; counted if not."""
        self.end_windows()
        window = self._window_of(peer)
        if window.lines < self._most_lines:
            window.lines += 1
            return True
        window.left_out += 1
        return False

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
            self._tell(peer, window.left_out)
