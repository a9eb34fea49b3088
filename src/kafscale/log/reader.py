"""Reading what has left memory: ranged GETs through a block cache, with read-ahead.

Here: from (lane, offset) to whole batches, and from a time to an offset. Every batch handed
out from here has had its checksum looked at.
Next door: recent batches (lane.py), the cache (cache.py).
"""

import asyncio
from collections.abc import AsyncIterator
from itertools import islice

from kafscale.log import index, keys
from kafscale.log.cache import LoadingCache
from kafscale.log.index import Index
from kafscale.log.lane import Lane
from kafscale.log.log import Log
from kafscale.log.manifest import Entry
from kafscale.log.segment import Span
from kafscale.log.tasks import Tasks
from kafscale.model.errors import CorruptObject, KafscaleError, ObjectExists, ObjectMissing
from kafscale.objects.store import ObjectStore
from kafscale.records import batch, record
from kafscale.records.batch import BatchHeader

BLOCK_BYTES = 4 << 20
_SMALL_AT_ONCE = 64
_LARGEST_OPENED = 128 << 20


class Reader:
    """Reads old segments of any log of a broker."""

    def __init__(
        self,
        store: ObjectStore,
        *,
        cache_bytes: int,
        index_cache_bytes: int,
        read_ahead: int,
        tasks: Tasks,
        block_bytes: int = BLOCK_BYTES,
    ) -> None:
        """Share one cache between all logs."""
        self._store = store
        self._tasks = tasks
        self._read_ahead = read_ahead
        self._block_bytes = block_bytes
        self.blocks: LoadingCache[memoryview] = LoadingCache(cache_bytes, len, tasks)
        self.indexes: LoadingCache[Index] = LoadingCache(
            index_cache_bytes, lambda found: 64 + 80 * len(found.addresses), tasks
        )

    # -- by offset -------------------------------------------------------------------------

    async def read(
        self, log: Log, lane: Lane, offset: int, max_bytes: int, *, at_least_one: bool
    ) -> list[memoryview]:
        """Whole batches from the one that holds `offset` on, at most `max_bytes` of them."""
        for attempt in (1, 2):
            try:
                return await self._read(log, lane, offset, max_bytes, at_least_one=at_least_one)
            except ObjectMissing:
                # Rewritten and deleted since we last looked: take up the newer manifest.
                if attempt == 2 or not await log.adopt_foreign():
                    raise
        raise AssertionError("unreachable")

    async def _read(
        self, log: Log, lane: Lane, offset: int, max_bytes: int, *, at_least_one: bool
    ) -> list[memoryview]:
        spans = list(islice(lane.spans_at(offset), _SMALL_AT_ONCE))
        if not spans:
            return []
        (span, entry), later = spans[0], spans[1:]
        found = [
            await self._from_span(
                log.folder, entry, span, offset, max_bytes, at_least_one=at_least_one
            )
        ]
        room = max_bytes - len(found[0])
        self._look_ahead(log.folder, entry, span, found[0], later)
        reached_end = self._ends_span(span, found[0])
        if reached_end and found[0]:
            found += await self._whole_small(log.folder, later, room)
        return [piece for piece in found if len(piece)]

    def _ends_span(self, span: Span, piece: memoryview) -> bool:
        last = None
        for _, last in batch.walk(piece):  # noqa: B007
            pass
        return last is not None and last.last_offset >= span.last

    async def _whole_small(
        self, folder: str, later: list[tuple[Span, Entry]], room: int
    ) -> list[memoryview]:
        """Small flush objects that fit as a whole, read side by side."""
        wanted = []
        for span, entry in later:
            room -= span.length
            if room < 0 or entry.size > self._block_bytes:
                break
            wanted.append((span, entry))

        async def one(span: Span, entry: Entry) -> memoryview:
            piece = await self._range(folder, entry, span.start, span.start + span.length)
            self._check(entry, piece)
            return piece

        return list(await asyncio.gather(*(one(span, entry) for span, entry in wanted)))

    async def _from_span(
        self,
        folder: str,
        entry: Entry,
        span: Span,
        offset: int,
        max_bytes: int,
        *,
        at_least_one: bool,
    ) -> memoryview:
        """Batches of one lane in one object, from `offset` on."""
        at = await self._position(folder, entry, span, offset)
        end = span.start + span.length
        window_end = min(end, at + max(max_bytes, batch.HEADER_SIZE) + 64 * 1024)
        window = await self._range(folder, entry, at, window_end)
        begin: int | None = None
        stop = 0
        for position, header in batch.walk(window):
            following = position + header.size
            if begin is None:
                if header.last_offset < offset:
                    stop = following
                    continue
                begin = position
                stop = position
            if following - begin > max_bytes and not (at_least_one and stop == begin):
                break
            stop = following
        else:
            if (begin is None or stop == begin) and at + len(window) < end:
                # The first batch wanted is larger than the window: fetch all of it.
                return await self._from_far(
                    folder, entry, span, offset, at + stop, max_bytes, at_least_one=at_least_one
                )
        if begin is None:
            return memoryview(b"")
        piece = window[begin:stop]
        self._check(entry, piece)
        return piece

    async def _from_far(
        self,
        folder: str,
        entry: Entry,
        span: Span,
        offset: int,
        at: int,
        max_bytes: int,
        *,
        at_least_one: bool,
    ) -> memoryview:
        """Go on batch by batch from `at`, where a short window could not help."""
        end = span.start + span.length
        while at < end:
            head = await self._range(folder, entry, at, at + batch.HEADER_SIZE)
            header = batch.read_header(head)
            if header.last_offset >= offset:
                if header.size > max_bytes and not at_least_one:
                    return memoryview(b"")
                piece = await self._range(folder, entry, at, at + header.size)
                self._check(entry, piece)
                return piece
            at += header.size
        return memoryview(b"")

    def _check(self, entry: Entry, piece: memoryview) -> None:
        for at, header in batch.walk(piece):
            if not batch.check_crc(piece[at : at + header.size]):
                raise CorruptObject(
                    f"{entry.name}: the batch at offset {header.base_offset} fails its checksum"
                )

    # -- bytes -----------------------------------------------------------------------------

    async def _range(self, folder: str, entry: Entry, start: int, end: int) -> memoryview:
        """Bytes of an object; within one block they are handed out without copying."""
        size = self._block_bytes
        first, last = start // size, max(start, end - 1) // size
        if first == last:
            block = await self._block(folder, entry, first)
            piece = block[start - first * size : end - first * size]
        else:
            blocks = await asyncio.gather(
                *(self._block(folder, entry, number) for number in range(first, last + 1))
            )
            blocks[0] = blocks[0][start - first * size :]
            blocks[-1] = blocks[-1][: end - last * size]
            piece = memoryview(b"".join(blocks))
        if len(piece) != end - start:
            raise CorruptObject(f"{entry.name} is shorter than the {entry.size} bytes it had")
        return piece

    async def _block(self, folder: str, entry: Entry, number: int) -> memoryview:
        key = f"{folder}/{entry.name}"
        return await self.blocks.get((key, number), lambda: self._load(key, number))

    async def _load(self, key: str, number: int) -> memoryview:
        return await self._store.read(key, number * self._block_bytes, self._block_bytes)

    def _look_ahead(
        self,
        folder: str,
        entry: Entry,
        span: Span,
        piece: memoryview,
        later: list[tuple[Span, Entry]],
    ) -> None:
        """Load what a sequential reader will want next, unless it is here."""
        if not self._read_ahead or not len(piece):
            return
        last_block = (span.start + span.length - 1) // self._block_bytes
        for number in range(last_block + 1):
            if ((f"{folder}/{entry.name}", number)) in self.blocks:
                continue
            if ((f"{folder}/{entry.name}", number - 1)) in self.blocks:
                self._prefetch(folder, entry, number)
                break
        else:
            for _, following in later[: self._read_ahead]:
                self._prefetch(folder, following, 0)

    def _prefetch(self, folder: str, entry: Entry, number: int) -> None:
        key = f"{folder}/{entry.name}"
        if (key, number) not in self.blocks:
            self._tasks.spawn(self._prefetched(key, number), f"read ahead {key}")

    async def _prefetched(self, key: str, number: int) -> None:
        try:
            await self.blocks.get((key, number), lambda: self._load(key, number))
        except KafscaleError:
            return  # whoever really needs the block will meet the same error and report it

    # -- the index -------------------------------------------------------------------------

    async def _position(self, folder: str, entry: Entry, span: Span, offset: int) -> int:
        """Where to begin looking for an offset: at or before its batch."""
        if not entry.has_index or offset <= span.first or span.length <= self._block_bytes // 4:
            return span.start
        found = await self._index(folder, entry)
        at = found.position(span.lane, offset)
        if at is not None and span.start <= at < span.start + span.length:
            head = await self._range(folder, entry, at, at + batch.HEADER_SIZE)
            header = batch.read_header(head)
            # The index may stem from another attempt: believe it only if the batch agrees.
            if header.magic == 2 and span.first <= header.base_offset <= offset:
                return at
        rebuilt = await self._rebuild_index(folder, entry)
        self.indexes.put(f"{folder}/{entry.name}", rebuilt)
        return rebuilt.position(span.lane, offset) or span.start

    async def _index(self, folder: str, entry: Entry) -> Index:
        key = f"{folder}/{entry.name}"

        async def load() -> Index:
            try:
                return index.decode(await self._store.read(keys.index_of(key)))
            except (ObjectMissing, CorruptObject):
                return await self._rebuild_index(folder, entry)

        return await self.indexes.get(key, load)

    async def _rebuild_index(self, folder: str, entry: Entry) -> Index:
        key = f"{folder}/{entry.name}"
        data = await self._store.read(key)
        lines = [
            (span, list(batch.walk(data, span.start, span.start + span.length)))
            for span in entry.spans()
        ]
        found = index.collect(lines, 4096)
        try:
            await self._store.put_new(keys.index_of(key), [index.encode(found)])
        except ObjectExists:
            pass  # a wrong one lies there; ours in memory is used instead
        return found

    # -- by time ---------------------------------------------------------------------------

    async def find_time(self, log: Log, lane: Lane, timestamp_ms: int) -> tuple[int, int] | None:
        """First record at or after a time: (offset, its timestamp); None if there is none."""
        for span, entry in list(lane.spans_at(lane.start)):
            if span.max_timestamp_ms < timestamp_ms:
                continue
            async for data, header in self._batches(log, lane, entry, span):
                if header.max_timestamp_ms < timestamp_ms or header.last_offset < lane.start:
                    continue
                for one in record.open_batch(data, _LARGEST_OPENED):
                    if one.timestamp_ms >= timestamp_ms and one.offset >= lane.start:
                        return one.offset, one.timestamp_ms
        return None

    async def find_max_time(self, log: Log, lane: Lane) -> tuple[int, int] | None:
        """The record with the greatest timestamp, the first of them if several share it."""
        spans = list(lane.spans_at(lane.start))
        if not spans:
            return None
        newest = max(span.max_timestamp_ms for span, _ in spans)
        return await self.find_time(log, lane, newest)

    async def _batches(
        self, log: Log, lane: Lane, entry: Entry, span: Span
    ) -> AsyncIterator[tuple[memoryview, BatchHeader]]:
        """All batches of a span, from memory where they still are."""
        recent = lane.read_memory(span.first, span.length, at_least_one=True)
        if recent is not None:
            for one in recent:
                header = batch.read_header(one)
                if header.base_offset > span.last:
                    return
                yield one, header
            return
        at, end = span.start, span.start + span.length
        while at < end:
            window = await self._range(log.folder, entry, at, min(end, at + self._block_bytes))
            moved = 0
            for position, header in batch.walk(window):
                moved = position + header.size
                yield window[position:moved], header
            if not moved:
                header = batch.read_header(window)
                yield await self._range(log.folder, entry, at, at + header.size), header
                moved = header.size
            at += moved
