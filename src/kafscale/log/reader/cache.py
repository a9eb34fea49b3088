"""A bounded cache: a value is loaded once, however many readers ask; the least used leave.

Here: the cache alone. Next door: what to read (blocks.py); the tail has its own memory
(writer/tail_memory.py).
"""

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Hashable
from typing import Generic, TypeVar

from kafscale.tasks import Tasks

T = TypeVar("T")
K = TypeVar("K", bound=Hashable)


class BoundedCounters(Generic[K]):
    """A number for each of the keys that were put last."""

    def __init__(self, most: int) -> None:
        """Remember at most `most`."""
        self._most = most
        self._numbers: OrderedDict[K, int] = OrderedDict()

    def get(self, key: K) -> int | None:
        """The number last put."""
        return self._numbers.get(key)

    def put(self, key: K, number: int) -> None:
        """Remember, forgetting what was put longest ago."""
        self._numbers[key] = number
        self._numbers.move_to_end(key)
        if len(self._numbers) > self._most:
            self._numbers.popitem(last=False)


class LoadingCache(Generic[T]):
    """Least-recently-used values with a byte budget and single-flight loading."""

    def __init__(self, budget_bytes: int, size_of: Callable[[T], int], tasks: Tasks) -> None:
        """Hold at most `budget_bytes`, as told by `size_of`."""
        self.budget_bytes = budget_bytes
        self.used_bytes = 0
        self.hits = 0
        self.misses = 0
        self._size_of = size_of
        self._tasks = tasks
        self._values: OrderedDict[Hashable, T] = OrderedDict()
        self._loading: dict[Hashable, asyncio.Task[T]] = {}

    def __contains__(self, key: Hashable) -> bool:
        """Whether the value is here or on its way."""
        return key in self._values or key in self._loading

    def peek(self, key: Hashable) -> T | None:
        """The value if it is here, without loading."""
        value = self._values.get(key)
        if value is not None:
            self._values.move_to_end(key)
        return value

    async def get(self, key: Hashable, load: Callable[[], Awaitable[T]]) -> T:
        """The value, loaded for the first reader that asks; the others wait for the same load."""
        value = self.peek(key)
        if value is not None:
            self.hits += 1
            return value
        self.misses += 1
        # Shielded: one reader giving up must not fail the others.
        return await asyncio.shield(self.load(key, load))

    def load(self, key: Hashable, load: Callable[[], Awaitable[T]]) -> asyncio.Task[T]:
        """Start loading unless it is under way."""
        task = self._loading.get(key)
        if task is None:
            task = self._tasks.spawn(self._fill(key, load), f"load {key}", awaited=True)
            self._loading[key] = task
        return task

    async def _fill(self, key: Hashable, load: Callable[[], Awaitable[T]]) -> T:
        try:
            value = await load()
        finally:
            self._loading.pop(key, None)
        self.put(key, value)
        return value

    def put(self, key: Hashable, value: T) -> None:
        """Keep a value, making room for it."""
        size = self._size_of(value)
        if size > self.budget_bytes:
            return
        old = self._values.pop(key, None)
        if old is not None:
            self.used_bytes -= self._size_of(old)
        self._values[key] = value
        self.used_bytes += size
        while self.used_bytes > self.budget_bytes:
            _, gone = self._values.popitem(last=False)
            self.used_bytes -= self._size_of(gone)

    def drop(self, key: Hashable) -> None:
        """Forget a value."""
        old = self._values.pop(key, None)
        if old is not None:
            self.used_bytes -= self._size_of(old)
