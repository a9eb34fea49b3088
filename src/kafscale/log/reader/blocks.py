"""Bytes of old objects: ranged reads through a cache, and reading ahead.

Blocks are counted from the beginning of a lane's part of an object and end with it, so that
reading one lane loads that lane and nothing else. If readers ask for small pieces of many lanes
that lie in one stretch of an object, the stretch is loaded instead: one request for all. A stretch
is as long as a block and counted from the beginning of the object.

Here: ranged GETs through a cache. Next door: the batches in them (reader.py), the cache (cache.py).
"""

import asyncio
from itertools import islice
from typing import Final, NamedTuple

from kafscale.log.formats.manifest import SegmentEntry
from kafscale.log.formats.segment import Span
from kafscale.log.reader.cache import BoundedCounters, LoadingCache
from kafscale.log.reader.view import LogView
from kafscale.model.errors import CorruptObject
from kafscale.objects.store import ObjectStore
from kafscale.tasks import Tasks

_PIECES: Final = 4  # every 4th small read of the same stretch fetches the whole stretch
_SMALL: Final = 8  # a read is small if at least 8 of its size fit into a block
_REMEMBERED: Final = 10_000


class _Coming(NamedTuple):
    """Bytes that are being loaded, and where they lie in what is loaded."""

    task: asyncio.Task[memoryview]
    start: int
    end: int

    def cut(self) -> memoryview:
        return self.task.result()[self.start : self.end]


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
        """Keep at most `cache_bytes` in memory."""
        self._store = store
        self._block_bytes = block_bytes
        self._read_ahead = read_ahead
        # The key is the object and the start of a lane's block, or ~number of a stretch.
        self.cache: LoadingCache[memoryview] = LoadingCache(cache_bytes, len, tasks)
        self._pieces: BoundedCounters[tuple[str, int]] = BoundedCounters(_REMEMBERED)

    async def read(
        self, view: LogView, entry: SegmentEntry, span: Span, start: int, end: int
    ) -> memoryview:
        """Bytes of a lane's part; within one block they are handed out without copying."""
        key = f"{view.folder}/{entry.name}"
        size = self._block_bytes
        first, last = (start - span.start) // size, (max(start, end - 1) - span.start) // size
        if first == last:
            block_start = span.start + first * size
            block = await self._block(view, key, span, first)
            piece = block[start - block_start : end - block_start]
        else:
            blocks = await asyncio.gather(
                *(self._block(view, key, span, number) for number in range(first, last + 1))
            )
            blocks[0] = blocks[0][start - span.start - first * size :]
            blocks[-1] = blocks[-1][: end - span.start - last * size]
            piece = memoryview(b"".join(blocks))
        return _checked(entry, piece, end - start)

    async def read_whole(
        self, view: LogView, wanted: list[tuple[Span, SegmentEntry]]
    ) -> list[memoryview]:
        """Whole parts of one block at most, read side by side. Many may wait for the same load."""
        loads: list[memoryview | _Coming] = []
        for span, entry in wanted:
            key, end = f"{view.folder}/{entry.name}", span.start + span.length
            loads.append(
                self._here(key, span.start, end) or self._coming(view, key, span.start, end)
            )
        coming = {load.task for load in loads if isinstance(load, _Coming)}
        if coming:
            await asyncio.wait(coming)
        return [
            _checked(entry, load.cut() if isinstance(load, _Coming) else load, span.length)
            for load, (span, entry) in zip(loads, wanted, strict=True)
        ]

    def _here(self, key: str, start: int, end: int) -> memoryview | None:
        """Bytes from memory: a lane's own block, or the stretch they lie in."""
        origin = start
        block = self.cache.peek((key, start))
        if block is None:
            number = start // self._block_bytes
            origin = number * self._block_bytes
            block = self.cache.peek((key, ~number))
        if block is None or end - origin > len(block):
            return None
        self.cache.hits += 1
        return block[start - origin : end - origin]

    async def _block(self, view: LogView, key: str, span: Span, number: int) -> memoryview:
        start = span.start + number * self._block_bytes
        end = min(start + self._block_bytes, span.start + span.length)
        block = self._here(key, start, end)
        if block is not None:
            return block
        coming = self._coming(view, key, start, end)
        # Shielded: one reader giving up must not fail the others.
        await asyncio.shield(coming.task)
        return coming.cut()

    def _coming(self, view: LogView, key: str, start: int, end: int) -> "_Coming":
        """The load that will bring these bytes: of their own, or of the stretch they lie in."""
        name, origin, length = start, start, end - start
        stretch = start // self._block_bytes
        if (key, start) not in self.cache and self._is_worth_a_stretch(key, stretch, start, end):
            name, origin, length = ~stretch, stretch * self._block_bytes, self._block_bytes
        self.cache.misses += 1
        task = self.cache.load((key, name), lambda: self._load(view, key, origin, length))
        return _Coming(task, start - origin, end - origin)

    async def _load(self, view: LogView, key: str, start: int, length: int) -> memoryview:
        """Read a range; what the cache keeps was in the log when it was read (rule 26)."""
        data = await self._store.read(key, start, length)
        await view.require_newest(key)
        return data

    def _is_worth_a_stretch(self, key: str, stretch: int, start: int, end: int) -> bool:
        """Whether one request for the stretch is cheaper than many small reads of it."""
        size = self._block_bytes
        if (end - start) * _SMALL > size or (end - 1) // size != stretch:
            return False
        if size > self.cache.budget_bytes:
            return False  # the cache would not keep it for the other readers
        if (key, ~stretch) in self.cache:
            return True  # on its way
        asked = (self._pieces.get((key, stretch)) or 0) + 1
        self._pieces.put((key, stretch), asked % _PIECES)
        return asked == _PIECES

    def look_ahead(
        self,
        view: LogView,
        entry: SegmentEntry,
        span: Span,
        stop: int,
        later: list[tuple[Span, SegmentEntry]],
    ) -> None:
        """Load the blocks a sequential reader will want next, unless they are here."""
        size = self._block_bytes
        here = [(entry, -(-(stop - span.start) // size), span)]  # the block of `stop` is here
        ahead = (
            (segment, number, part)
            for segment, first, part in here + [(segment, 0, part) for part, segment in later]
            for number in range(first, -(-part.length // size))
        )
        for segment, number, part in islice(ahead, self._read_ahead):
            self._prefetch(view, f"{view.folder}/{segment.name}", part, number)

    def _prefetch(self, view: LogView, key: str, span: Span, number: int) -> None:
        start = span.start + number * self._block_bytes
        end = min(start + self._block_bytes, span.start + span.length)
        if (key, start) not in self.cache and self._here(key, start, end) is None:
            # Nothing waits for it. A reader that needs the block meets its error and reports it.
            self._coming(view, key, start, end)


def _checked(entry: SegmentEntry, piece: memoryview, size: int) -> memoryview:
    if len(piece) != size:
        raise CorruptObject(f"{entry.name} is shorter than the {entry.size} bytes it had")
    return piece
