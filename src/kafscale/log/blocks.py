"""Bytes of old objects: what is loaded for whom, kept for a while, and loaded ahead.

Blocks are counted from the beginning of a lane's part of an object and end with it, so that
reading one lane loads that lane and nothing else. Where many lanes of one stretch of an object
are asked for, each for a small piece, the stretch is loaded instead: one request for all.

Here: ranged GETs through a cache. Next door: the batches in them (reader.py), the cache (cache.py).
"""

import asyncio
from itertools import islice
from typing import Final

from kafscale.log.cache import LoadingCache, Recent
from kafscale.log.manifest import Entry
from kafscale.log.segment import Span
from kafscale.log.tasks import Tasks
from kafscale.model.errors import CorruptObject, KafscaleError
from kafscale.objects.store import ObjectStore

_PIECES: Final = 8  # so many requests for pieces of a stretch, then one for the stretch
_REMEMBERED: Final = 10_000


class Blocks:
    """One cache for all logs of a broker."""

    def __init__(
        self,
        store: ObjectStore,
        *,
        cache_bytes: int,
        block_bytes: int,
        read_ahead: int,
        tasks: Tasks,
    ) -> None:
        """Keep at most `cache_bytes`."""
        self._store = store
        self._tasks = tasks
        self._block_bytes = block_bytes
        self._read_ahead = read_ahead
        # By object, and where a lane's block begins; or ~number of a stretch.
        self.cache: LoadingCache[memoryview] = LoadingCache(cache_bytes, len, tasks)
        self._pieces: Recent[tuple[str, int]] = Recent(_REMEMBERED)

    async def read(self, folder: str, entry: Entry, span: Span, start: int, end: int) -> memoryview:
        """Bytes of a lane's part; within one block they are handed out without copying."""
        key = f"{folder}/{entry.name}"
        size = self._block_bytes
        first, last = (start - span.start) // size, (max(start, end - 1) - span.start) // size
        if first == last:
            block_start = span.start + first * size
            block = await self._block(key, span, first)
            piece = block[start - block_start : end - block_start]
        else:
            blocks = await asyncio.gather(
                *(self._block(key, span, number) for number in range(first, last + 1))
            )
            blocks[0] = blocks[0][start - span.start - first * size :]
            blocks[-1] = blocks[-1][: end - span.start - last * size]
            piece = memoryview(b"".join(blocks))
        if len(piece) != end - start:
            raise CorruptObject(f"{entry.name} is shorter than the {entry.size} bytes it had")
        return piece

    def here(self, key: str, start: int, end: int) -> memoryview | None:
        """Bytes from memory: a lane's own block, or the stretch they lie in."""
        block = self.cache.peek((key, start))
        if block is not None:
            return block[: end - start] if len(block) >= end - start else None
        number = start // self._block_bytes
        stretch = self.cache.peek((key, ~number))
        if stretch is None:
            return None
        begin = number * self._block_bytes
        return stretch[start - begin : end - begin] if end - begin <= len(stretch) else None

    async def _block(self, key: str, span: Span, number: int) -> memoryview:
        start = span.start + number * self._block_bytes
        end = min(start + self._block_bytes, span.start + span.length)
        found = self.here(key, start, end)
        if found is not None:
            self.cache.hits += 1
            return found
        stretch = start // self._block_bytes
        is_coming = (key, start) in self.cache
        if not is_coming and self._is_worth_a_stretch(key, stretch, start, end):
            begin = stretch * self._block_bytes
            block = await self._load(key, ~stretch, begin, self._block_bytes)
            return block[start - begin : end - begin]
        return await self._load(key, start, start, end - start)

    def _is_worth_a_stretch(self, key: str, stretch: int, start: int, end: int) -> bool:
        """Whether so many small pieces of a stretch were asked for that one request is cheaper."""
        size = self._block_bytes
        if (end - start) * _PIECES > size or (end - 1) // size != stretch:
            return False
        if (key, ~stretch) in self.cache:
            return True  # on its way
        asked = (self._pieces.get((key, stretch)) or 0) + 1
        self._pieces.put((key, stretch), asked % _PIECES)
        return asked == _PIECES

    async def _load(self, key: str, name: int, start: int, length: int) -> memoryview:
        return await self.cache.get((key, name), lambda: self._store.read(key, start, length))

    def look_ahead(
        self, folder: str, entry: Entry, span: Span, stop: int, later: list[tuple[Span, Entry]]
    ) -> None:
        """Load the blocks a sequential reader will want next, unless they are here."""
        size = self._block_bytes
        here = [(entry, -(-(stop - span.start) // size), span)]  # the block of `stop` is here
        ahead = (
            (one, number, part)
            for one, first, part in here + [(one, 0, part) for part, one in later]
            for number in range(first, -(-part.length // size))
        )
        for one, number, part in islice(ahead, self._read_ahead):
            self._prefetch(f"{folder}/{one.name}", part, number)

    def _prefetch(self, key: str, span: Span, number: int) -> None:
        start = span.start + number * self._block_bytes
        end = min(start + self._block_bytes, span.start + span.length)
        if (key, start) not in self.cache and self.here(key, start, end) is None:
            self._tasks.spawn(self._prefetched(key, span, number), f"read ahead {key}")

    async def _prefetched(self, key: str, span: Span, number: int) -> None:
        try:
            await self._block(key, span, number)
        except KafscaleError:
            return  # whoever really needs the block will meet the same error and report it
