"""A queue of keys: each is worked on by one worker at a time, and waits longer when it fails.

Here: a key that is added while it is worked on comes again afterwards; a key that is added twice
comes once. Next door: what puts keys in (informer.py), what is done (loops/clusters.py).
"""

import asyncio
from collections import deque
from collections.abc import Hashable
from typing import Final, Generic, TypeVar

from kafscale.model.clock import Dice
from kafscale.retry import Backoff, RetryPolicy

K = TypeVar("K", bound=Hashable)

RETRY: Final = RetryPolicy(first_s=0.5, longest_s=300.0, jitter=0.5)


class KeyQueue(Generic[K]):
    """Times are those of the event loop."""

    def __init__(self, dice: Dice) -> None:
        self._dice = dice
        self._waiting: deque[K] = deque()
        self._queued: set[K] = set()
        self._working: set[K] = set()
        self._again: set[K] = set()
        self._timers: dict[K, asyncio.TimerHandle] = {}
        self._failures: dict[K, Backoff] = {}
        self._news = asyncio.Event()

    def __len__(self) -> int:
        """Count the keys that wait for a worker."""
        return len(self._waiting)

    def add(self, key: K) -> None:
        """Have a key worked on as soon as a worker is free."""
        if key in self._working:
            self._again.add(key)
        elif key not in self._queued:
            self._queued.add(key)
            self._waiting.append(key)
            self._news.set()

    def add_later(self, key: K, seconds: float) -> None:
        """Have a key worked on after a while; an earlier appointment stays."""
        loop = asyncio.get_running_loop()
        at = loop.time() + seconds
        timer = self._timers.get(key)
        if timer is not None:
            if timer.when() <= at:
                return
            timer.cancel()
        self._timers[key] = loop.call_at(at, self._due, key)

    def _due(self, key: K) -> None:
        self._timers.pop(key, None)
        self.add(key)

    async def take(self) -> K:
        """Wait for the next key. Call `done` or `failed` for it afterwards."""
        while not self._waiting:
            self._news.clear()
            await self._news.wait()
        key = self._waiting.popleft()
        self._queued.discard(key)
        self._working.add(key)
        return key

    def done(self, key: K, again_s: float | None = None) -> None:
        """The key was worked on; `again_s`: look at it again after so long."""
        self._failures.pop(key, None)
        self._release(key)
        if again_s is not None:
            self.add_later(key, again_s)

    def failed(self, key: K) -> float:
        """The key could not be worked on: it comes again, later each time. Gives the pause."""
        backoff = self._failures.setdefault(key, Backoff(RETRY, self._dice))
        pause_s = backoff.next_s()
        self._again.discard(key)  # what changed meanwhile does not shorten the pause
        self._release(key)
        self.add_later(key, pause_s)
        return pause_s

    def _release(self, key: K) -> None:
        self._working.discard(key)
        if key in self._again:
            self._again.discard(key)
            self.add(key)

    def close(self) -> None:
        """Forget all appointments."""
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()
