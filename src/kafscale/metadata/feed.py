"""News of commits for watchers in the same process.

Here: one bounded queue per watcher. Next door: the store that publishes (embedded.py).
"""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Final

from kafscale.metadata.store import Change, Listing, Watch

_MOST_WAITING: Final = 10_000  # changes a watcher may be behind before it is given a listing


class Feed:
    """Hands every change to every watcher whose prefix it touches."""

    def __init__(self) -> None:
        self._watchers: dict[_Watcher, None] = {}  # in the order they came

    def publish(self, change: Change) -> None:
        """Tell the watchers. Changes must come in the order of their versions."""
        for watcher in self._watchers:
            watcher.take(change)

    async def watch(self, prefix: str, read: Callable[[], Listing]) -> Watch:
        """Follow a prefix; `read` gives all that is there, without waiting."""
        watcher = _Watcher(prefix)
        self._watchers[watcher] = None
        try:
            while True:
                watcher.is_behind = False
                listing = read()
                yield listing
                while (change := await watcher.next()) is not None:
                    if change.version > listing.version:
                        yield change
        finally:
            self._watchers.pop(watcher, None)


class _Watcher:
    def __init__(self, prefix: str) -> None:
        self._prefix = prefix
        self._waiting: deque[Change] = deque()
        self._news = asyncio.Event()
        self.is_behind = False

    def take(self, change: Change) -> None:
        written = [entry for entry in change.written if entry.key.startswith(self._prefix)]
        removed = [key for key in change.removed if key.startswith(self._prefix)]
        if self.is_behind or not (written or removed):
            return
        self._waiting.append(Change(change.version, written, removed))
        if len(self._waiting) > _MOST_WAITING:
            self._waiting.clear()
            self.is_behind = True
        self._news.set()

    async def next(self) -> Change | None:
        """The next change; None when too many were missed."""
        while not self._waiting and not self.is_behind:
            self._news.clear()
            await self._news.wait()
        return None if self.is_behind else self._waiting.popleft()
