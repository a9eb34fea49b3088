"""How often something happened per second, over about the last minute.

Next door: where it is shown (series.py). Never here: timers; a rate is computed when it is asked
for, from what was counted when it was asked for before.
"""

from collections import deque
from collections.abc import Callable
from typing import Final

from kafscale.model.clock import Clock

WINDOW_S: Final = 60.0
_APART_S: Final = 1.0  # two remembered counts lie at least so far apart


class MeanRate:
    """The mean rate since the oldest remembered count.

    That count is up to a minute old. Without a question for longer than that, it is the count at
    the last question.
    """

    def __init__(self, clock: Clock, count: Callable[[], float]) -> None:
        self._clock = clock
        self._count = count
        self._seen = deque([(clock.elapsed_s(), count())])

    def __call__(self) -> float:
        """Give the rate now, per second."""
        now_s, count = self._clock.elapsed_s(), self._count()
        while len(self._seen) > 1 and self._seen[1][0] <= now_s - WINDOW_S:
            self._seen.popleft()
        since_s, before = self._seen[0]
        if now_s - self._seen[-1][0] >= _APART_S:
            self._seen.append((now_s, count))
        return (count - before) / (now_s - since_s) if now_s > since_s else 0.0
