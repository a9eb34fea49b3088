"""Waiting for news of many partitions at once.

Here: one watcher of many lanes, which knows which of them had news. A fetch that waits for a
thousand partitions needs one of these, where it would need a thousand subscriptions.
Next door: the readers that wait (reads.py), one partition (subscriptions.py), the commits that
wake (log/writer/lane.py).
"""

import asyncio
from collections.abc import Sequence
from typing import Final, Self

from kafscale.log.writer.lane import Lane

# An answer takes time for every partition that the client named, and each partition's news may come
# at another moment: after the first news a poll waits about that time for more of them.
_MANY: Final = 100
_EACH_S: Final = 3e-6


class LongPoll:
    """Waits for news of any of some lanes. Use with `with`."""

    def __init__(self, lanes: Sequence[Lane | None]) -> None:
        """Watch the lanes; None holds the place of a partition that cannot have news."""
        self._lanes = list(lanes)
        self._watched: set[Lane] = set()  # of those, what `watch` has added
        self._news: set[Lane] = set()
        self._woken: asyncio.Future[None] | None = None

    def __enter__(self) -> Self:
        for lane in self._lanes:
            if lane is not None:
                lane.watchers.add(self)
        return self

    def __exit__(self, *_: object) -> None:
        for lane in self._lanes:
            if lane is not None:
                lane.watchers.discard(self)

    def watch(self, lanes: Sequence[Lane | None]) -> None:
        """Watch further lanes, too. Those that are watched already may be among them."""
        for lane in lanes:
            if lane is not None and lane not in self._watched:
                self._watched.add(lane)
                lane.watchers.add(self)
                self._lanes.append(lane)

    def __call__(self, lane: Lane) -> None:
        self._news.add(lane)
        if self._woken is not None and not self._woken.done():
            self._woken.set_result(None)

    async def wait(self, timeout_s: float) -> list[int]:
        """Which of the lanes have had news since the last call; none if nothing came in time."""
        if not self._news:
            self._woken = asyncio.get_running_loop().create_future()
            await asyncio.wait((self._woken,), timeout=timeout_s)
            if self._news and len(self._lanes) >= _MANY:
                await asyncio.sleep(min(timeout_s, len(self._lanes) * _EACH_S))
        news, self._news = self._news, set()
        return [number for number, lane in enumerate(self._lanes) if lane in news]
