"""Reading batches that have left memory, by offset.

Here: from (lane, offset) to whole batches. `read` checks the checksum of every batch it gives.
Next door: recent batches (writer/lane.py), which bytes are loaded and kept (blocks.py), from a
time to an offset (time_lookup.py).
"""

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Final, TypeVar

import structlog

from kafscale.log.formats import index, keys
from kafscale.log.formats.index import Index
from kafscale.log.formats.manifest import SegmentEntry
from kafscale.log.formats.segment import ContentId, Span
from kafscale.log.reader.blocks import Blocks
from kafscale.log.reader.cache import BoundedCounters, LoadingCache
from kafscale.log.reader.view import LogView, view_of
from kafscale.log.writer.lane import Lane
from kafscale.log.writer.log import Log
from kafscale.model.errors import (
    CorruptBatch,
    CorruptObject,
    ObjectMissing,
    StoreError,
)
from kafscale.objects.store import ObjectStore
from kafscale.records import batch
from kafscale.records.batch import BatchHeader
from kafscale.tasks import Tasks
from kafscale.turns import Turns

BLOCK_BYTES: Final = 4 << 20
SPANS_AT_ONCE: Final = 64  # that one read looks at
_REBUILT_INTERVAL: Final = 4096
_ALL: Final = 1 << 62
_REMEMBERED: Final = 10_000

T = TypeVar("T")

logger = structlog.get_logger()


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
        turns: Turns,
        block_bytes: int = BLOCK_BYTES,
    ) -> None:
        """One cache for all logs."""
        self.turns = turns
        self._store = store
        self._block_bytes = block_bytes
        self._blocks = Blocks(
            store,
            cache_bytes=cache_bytes,
            block_bytes=block_bytes,
            read_ahead=read_ahead,
            tasks=tasks,
        )
        self.block_cache = self._blocks.cache
        self._bookmarks: BoundedCounters[tuple[ContentId, int, int]] = BoundedCounters(_REMEMBERED)
        self.index_cache: LoadingCache[Index] = LoadingCache(
            index_cache_bytes, lambda found: 64 + 80 * len(found.addresses), tasks
        )

    # -- by offset -------------------------------------------------------------------------

    async def read(
        self, log: Log, lane: Lane, offset: int, max_bytes: int, *, at_least_one: bool
    ) -> list[memoryview]:
        """Whole batches from the one that holds `offset` on, at most `max_bytes` of them."""
        return await on_newest(
            log, lambda: self._read(log, lane, offset, max_bytes, at_least_one=at_least_one)
        )

    async def _read(
        self, log: Log, lane: Lane, offset: int, max_bytes: int, *, at_least_one: bool
    ) -> list[memoryview]:
        view = view_of(log)
        spans = lane.spans_at(offset, SPANS_AT_ONCE)
        for number, (span, entry) in enumerate(spans):
            piece, stop = await self._from_span(
                view, entry, span, offset, max_bytes, at_least_one=at_least_one
            )
            ended = stop >= span.start + span.length
            if not len(piece) and ended:
                continue  # key compaction removed the span's last records: read the next span
            later = spans[number + 1 :] if len(piece) else []
            pieces = [piece]
            if ended:
                pieces += await self._whole_small(view, later, max_bytes - len(piece))
            if len(piece):
                self._blocks.look_ahead(view, entry, span, stop, later[len(pieces) - 1 :])
            return [data for data in pieces if len(data)]
        return []

    async def _whole_small(
        self, view: LogView, later: list[tuple[Span, SegmentEntry]], room: int
    ) -> list[memoryview]:
        """Further parts of the lane that fit into `room` whole, read side by side."""
        wanted = []
        for span, entry in later:
            room -= span.length
            if room < 0 or span.length > self._block_bytes:
                break
            wanted.append((span, entry))
        pieces = await self._blocks.read_whole(view, wanted)
        for (_, entry), piece in zip(wanted, pieces, strict=True):
            self._check(entry, piece)
        return pieces

    async def _from_span(
        self,
        view: LogView,
        entry: SegmentEntry,
        span: Span,
        offset: int,
        max_bytes: int,
        *,
        at_least_one: bool,
    ) -> tuple[memoryview, int]:
        """Batches of one lane in one object, from `offset` on; and where they end in it."""
        at = await self._position(view, entry, span, offset)
        end = span.start + span.length
        # Blocks are loaded whole: looking on to the end of this one costs nothing more.
        block_end = at + self._block_bytes - (at - span.start) % self._block_bytes
        window_end = min(end, max(at + max_bytes, block_end))
        window = await self._blocks.read(view, entry, span, at, window_end)
        begin: int | None = None
        stop = following_offset = 0
        for position, header in batch.walk(window):
            following = position + header.size
            if begin is None and header.last_offset >= offset:
                begin = position
            if begin is not None:
                first = stop == begin
                if following - begin > max_bytes and not (at_least_one and first):
                    break
            stop = following
            following_offset = header.last_offset + 1
        if begin is None:
            # All whole batches of the window lie before `offset`; the next one is cut off.
            return await self._one_by_one(
                view, entry, span, offset, at + stop, max_bytes, at_least_one=at_least_one
            )
        piece = window[begin:stop]
        self._check(entry, piece)
        if at + stop < end:
            self._bookmarks.put((entry.content_id, span.lane, following_offset), at + stop)
        return piece, at + stop

    async def _one_by_one(
        self,
        view: LogView,
        entry: SegmentEntry,
        span: Span,
        offset: int,
        at: int,
        max_bytes: int,
        *,
        at_least_one: bool,
    ) -> tuple[memoryview, int]:
        """Go on batch by batch from `at`, where a window could not help, to the first wanted."""
        end = span.start + span.length
        while at < end:
            head = await self._blocks.read(view, entry, span, at, at + batch.HEADER_SIZE)
            header = batch.read_header(head)
            if header.last_offset >= offset:
                if header.size > max_bytes and not at_least_one:
                    return memoryview(b""), at
                piece = await self._blocks.read(view, entry, span, at, at + header.size)
                self._check(entry, piece)
                return piece, at + header.size
            at += header.size
        return memoryview(b""), end

    def _check(self, entry: SegmentEntry, piece: memoryview) -> None:
        for at, header in batch.walk(piece):
            if not batch.check_crc(piece[at : at + header.size]):
                raise CorruptObject(
                    f"{entry.name}: the batch at offset {header.base_offset} fails its checksum"
                )

    # -- the index -------------------------------------------------------------------------

    async def _position(self, view: LogView, entry: SegmentEntry, span: Span, offset: int) -> int:
        """Where to begin looking for an offset: at or before its batch."""
        if offset <= span.first:
            return span.start
        if (at := self._bookmarks.get((entry.content_id, span.lane, offset))) is not None:
            return at
        if not entry.has_index or span.length <= self._block_bytes // 4:
            return span.start
        found = (await self._index(view, entry)).find(span.lane, offset)
        if found is not None and await self._is_right(view, entry, span, *found):
            return found[1]
        rebuilt = await self._rebuild_index(view, entry)
        self.index_cache.put(f"{view.folder}/{entry.name}", rebuilt)
        found = rebuilt.find(span.lane, offset)
        return span.start if found is None else found[1]

    async def _is_right(
        self, view: LogView, entry: SegmentEntry, span: Span, first: int, position: int
    ) -> bool:
        """The index may come from another attempt: use it only if the batch has that offset."""
        if not span.start <= position <= span.start + span.length - batch.HEADER_SIZE:
            return False
        head = await self._blocks.read(view, entry, span, position, position + batch.HEADER_SIZE)
        header = batch.read_header(head)
        return header.magic == 2 and header.base_offset == first

    async def _index(self, view: LogView, entry: SegmentEntry) -> Index:
        key = f"{view.folder}/{entry.name}"

        async def load() -> Index:
            try:
                return index.decode(await self._store.read(keys.index_of(key)))
            except (ObjectMissing, CorruptObject):
                return await self._rebuild_index(view, entry)

        return await self.index_cache.get(key, load)

    async def _rebuild_index(self, view: LogView, entry: SegmentEntry) -> Index:
        key = f"{view.folder}/{entry.name}"
        data = await self._store.read(key)
        spans = entry.spans()
        pieces = [[data[span.start : span.start + span.length]] for span in spans]
        made = index.of_pieces(spans, pieces, _REBUILT_INTERVAL)
        try:
            await self._store.put_new(keys.index_of(key), [index.encode(made)])
        except StoreError as problem:
            # Often a wrong index lies under that name. The one in memory is used instead.
            logger.info("index_not_written", key=key, error=repr(problem))
        return made

    # -- all batches of a span -------------------------------------------------------------

    async def batches(
        self, view: LogView, lane: Lane, entry: SegmentEntry, span: Span
    ) -> AsyncIterator[tuple[memoryview, BatchHeader]]:
        """All batches of a span, from memory where they still are."""
        # Memory has the batches as they were written: key compaction may have made the span
        # shorter since, so its length says nothing about them.
        recent = lane.read_memory(span.first, _ALL, at_least_one=True)
        if recent is not None:
            for one in recent:
                header = batch.read_header(one)
                if header.base_offset > span.last:
                    return
                yield one, header
            return
        at, end = span.start, span.start + span.length
        while at < end:
            window = await self._blocks.read(
                view, entry, span, at, min(end, at + self._block_bytes)
            )
            moved = 0
            for position, header in batch.walk(window):
                moved = position + header.size
                yield window[position:moved], header
            if not moved:
                header = batch.read_header(window)
                yield await self._blocks.read(view, entry, span, at, at + header.size), header
                moved = header.size
            at += moved


async def on_newest(log: Log, read: Callable[[], Awaitable[T]]) -> T:
    """Run `read`; if an object was replaced and deleted, run it again by a newer manifest."""
    known = log.committed.manifest.generation
    again = False
    while True:
        try:
            return await read()
        except ObjectMissing:
            moved = log.committed.manifest.generation != known
            if again or not (moved or await log.adopt_foreign()):
                raise
            again = True
        except CorruptBatch as problem:
            raise CorruptObject(f"{log.folder}: {problem}") from problem
