"""Reading a log without owning it: which objects are committed, and which are left over.

Here: a log as a list of segments, read from its manifest and the ends of its tail objects, for
tools and for Spark; the highest numbers that a log has seen. The past costs one manifest, the tail
one or two small reads per flush.
Next door: opening for writing, which reads the tail whole (opening.py). Never here: writing.
"""

import asyncio
from collections.abc import Coroutine, Iterable, Iterator
from typing import Any, Final, Literal, NamedTuple, TypeVar

from kafscale.log.formats import keys, segment
from kafscale.log.formats.manifest import Manifest, SegmentEntry
from kafscale.log.formats.segment import ContentId, Outline, Span
from kafscale.log.formats.transactions import LaneTransactions, TransactionTable
from kafscale.log.protocol import commits
from kafscale.model.errors import CorruptObject, ObjectMissing
from kafscale.objects.store import ObjectStore, StoredObject
from kafscale.records import batch
from kafscale.tasks import Tasks

READS_AT_ONCE: Final = 32
_WHOLE_UP_TO: Final = 64 << 10  # below this one read of everything is cheaper than two of ends
_FOOT: Final = 4 << 10  # room for 84 lanes
# A client may use any producer id below 2^62. An id far above all that were ever given out was
# made up by the client, and must not use up the ids above it.
STRANGE_ID: Final = 1 << 61
_T = TypeVar("_T")


class LiveSegment(NamedTuple):
    """One segment that is committed."""

    key: str
    kind: Literal["history", "flush"]
    base: int
    end: int
    records: int
    size: int
    spans: tuple[Span, ...]  # of a large flush without lanes, times are segment.ANY_TIME
    content_id: ContentId
    modified_ms: int | None  # None: not asked for, or the bucket does not have it
    entry: SegmentEntry | None  # what the manifest says about it
    transactions: TransactionTable | None = None  # of a flush
    created_ms: int = 0  # of a flush


class LogSnapshot(NamedTuple):
    """A log at one moment: the past by its manifest, the tail as far as its chain holds."""

    folder: str
    manifest: Manifest
    tail: list[LiveSegment]
    problems: list[str]

    @property
    def pieces(self) -> list[LiveSegment]:
        """All committed segments, in order."""
        past = [_past_piece(self.folder, entry, None) for entry in self.manifest.segments]
        return past + self.tail

    @property
    def end(self) -> int:
        """The position after the last committed record."""
        return self.tail[-1].end if self.tail else self.manifest.end

    def lanes(self) -> dict[int, tuple[int, int]]:
        """Each lane's log start and next offset."""
        bounds = {lane: (mark.start, mark.next) for lane, mark in self.manifest.lanes.items()}
        for piece in self.tail:
            for span in piece.spans:
                start, end = bounds.get(span.lane, (0, 0))
                bounds[span.lane] = (start if end else span.first, span.last + 1)
        return bounds

    def transactions(self) -> dict[int, LaneTransactions]:
        """What is known of the transactions of each lane that had any."""
        lanes: dict[int, LaneTransactions] = {}
        for number, mark in self.manifest.lanes.items():
            if mark.transactions is not None:
                lanes[number] = LaneTransactions()
                lanes[number].restore(mark.transactions)
        for piece in self.tail:
            for event in piece.transactions.events if piece.transactions else ():
                lane = lanes.setdefault(event.lane, LaneTransactions())
                lane.take(event, piece.created_ms)
        return lanes


class LogSurvey(NamedTuple):
    """One log with everything that lies in its folder."""

    number: int
    folder: str
    manifest: Manifest
    pieces: list[LiveSegment]
    indexes: frozenset[str]  # keys of the index objects
    leftovers: list[StoredObject]  # replaced, abandoned or waiting to be deleted
    problems: list[str]


async def take_snapshot(store: ObjectStore, folder: str) -> LogSnapshot:
    """Read the log as it was at one moment (rule 1)."""
    while True:
        past = await commits.read_newest(store, folder)
        listed = await store.find(
            folder,
            after=keys.segments_from(folder, past.end),
            before=keys.segments_before(folder),
        )
        tail, problems = await _tail(store, past.end, listed)
        if await commits.newest_generation(store, folder, past.generation) == past.generation:
            return LogSnapshot(folder, past, tail, problems)


async def survey_log(store: ObjectStore, folder: str, number: int) -> LogSurvey:
    """List all objects of a log and tell committed ones from leftovers."""
    listing = {stored.key: stored for stored in await store.find(folder)}
    generation = max((keys.parse_generation(key) or 0 for key in listing), default=0)
    past = await commits.read_generation(store, folder, generation)
    history = [
        _past_piece(folder, entry, listing.get(f"{folder}/{entry.name}")) for entry in past.segments
    ]
    tail, problems = await _tail(store, past.end, listing.values())
    pieces = history + tail
    counting = {piece.key for piece in pieces} | {keys.manifest(folder, generation)}
    indexes = {keys.index_of(piece.key) for piece in pieces} & set(listing)
    leftovers = [stored for key, stored in listing.items() if key not in counting | indexes]
    return LogSurvey(number, folder, past, pieces, frozenset(indexes), leftovers, problems)


def _past_piece(folder: str, entry: SegmentEntry, stored: StoredObject | None) -> LiveSegment:
    return LiveSegment(
        f"{folder}/{entry.name}",
        "history",
        entry.base,
        entry.end,
        entry.records,
        entry.size,
        tuple(entry.spans()),
        entry.content_id,
        stored.modified_ms if stored else None,
        entry,
    )


async def _tail(
    store: ObjectStore, start: int, listing: Iterable[StoredObject]
) -> tuple[list[LiveSegment], list[str]]:
    """Follow the chain of flushes by their headers and footers."""
    flushes = {
        base: stored
        for stored in listing
        if (base := keys.flush_base(stored.key)) is not None and base >= start
    }
    ends = await await_limited(_flush_piece(store, row) for row in flushes.values())
    found = dict(zip(flushes, ends, strict=True))
    pieces: list[LiveSegment] = []
    at = start
    while at in found:
        piece = found.pop(at)
        if isinstance(piece, str):
            return pieces, [piece]
        pieces.append(piece)
        at = piece.end
    problems = [
        f"{flushes[base].key}: not reached by the chain, which ends at {at}" for base in found
    ]
    return pieces, problems


async def _flush_piece(store: ObjectStore, stored: StoredObject) -> LiveSegment | str:
    """Read the two ends of a flush; gives a text if they make no sense."""
    try:
        outline = await _outline(store, stored)
    except ObjectMissing:
        return f"{stored.key}: gone since it was listed"
    except CorruptObject as bad:
        return f"{stored.key}: {bad}"
    named = keys.parse_segment(stored.key)
    if named is None or named.base != outline.base:
        return f"{stored.key}: says it begins at {outline.base}"
    return LiveSegment(
        stored.key,
        "flush",
        outline.base,
        outline.end,
        outline.records,
        stored.size,
        outline.spans,
        outline.content_id,
        stored.modified_ms,
        None,
        outline.transactions,
        outline.created_ms,
    )


async def _outline(store: ObjectStore, stored: StoredObject) -> Outline:
    if stored.size <= _WHOLE_UP_TO:
        data = await store.read(stored.key)
        if len(data) < segment.SMALLEST:
            raise CorruptObject("too short to be a segment")
        outline = segment.outline(data, data, len(data))
        return _with_times(data, outline)
    head = await store.read(stored.key, 0, segment.HEADER.size)
    needed = _FOOT
    while True:
        foot = await store.read(stored.key, max(0, stored.size - needed))
        try:
            return segment.outline(head, foot, stored.size)
        except segment.ShortFoot as short:
            needed = short.needed


def _with_times(data: memoryview, outline: Outline) -> Outline:
    """A small object without lanes has been read whole: take the times from its batches."""
    span = outline.spans[0]
    if (span.min_timestamp_ms, span.max_timestamp_ms) != segment.ANY_TIME:
        return outline
    summary = segment.summarize(data, span.start, span.start + span.length)
    times = (summary.min_timestamp_ms, summary.max_timestamp_ms)
    timed = span._replace(min_timestamp_ms=times[0], max_timestamp_ms=times[1])
    return outline._replace(spans=(timed,))


async def await_limited(work: Iterable[Coroutine[Any, Any, _T]]) -> list[_T]:
    """Await many reads, a few at a time, in order."""
    gate, tasks = asyncio.Semaphore(READS_AT_ONCE), Tasks()

    async def run(read: Coroutine[Any, Any, _T]) -> _T:
        async with gate:
            return await read

    def start(read: Coroutine[Any, Any, _T]) -> asyncio.Task[_T]:
        task = tasks.spawn(run(read), "limited_read", awaited=True)
        task.add_done_callback(lambda _: read.close())  # cancelled before its turn
        return task

    return await asyncio.gather(*map(start, work))


def in_words(key: str, bad: CorruptObject) -> str:
    """The problem as a text that names the object."""
    text = str(bad)
    return text if text.startswith(key) else f"{key}: {text}"


# -- the highest numbers -------------------------------------------------------------------------


class HighestNumbers(NamedTuple):
    """The highest producer id and leader epoch that a log has seen; -1: it has seen none.

    New numbers must begin above them.
    """

    producer_id: int
    epoch: int
    lanes: dict[int, tuple[int, int]]  # log start and next offset
    transactions: list[LaneTransactions]
    problems: list[str]


async def read_highest(store: ObjectStore, folder: str) -> HighestNumbers:
    """Read the highest numbers of one log, as far as its chain holds.

    Of the past it reads the manifest's marks alone; they say what producers did there.
    """
    while True:
        snapshot = await take_snapshot(store, folder)
        marks, problems = list(_of_manifest(snapshot)), list(snapshot.problems)
        try:
            for piece in snapshot.tail:
                try:
                    marks.append(await _of_piece(store, piece))
                except CorruptObject as bad:
                    problems.append(in_words(piece.key, bad))
        except ObjectMissing:
            continue  # rolled up and swept meanwhile: the manifest knows it now
        return HighestNumbers(
            max((known for known, _ in marks if known < STRANGE_ID), default=-1),
            max((epoch for _, epoch in marks), default=-1),
            snapshot.lanes(),
            list(snapshot.transactions().values()),
            problems,
        )


def _of_manifest(snapshot: LogSnapshot) -> Iterator[tuple[int, int]]:
    for mark in snapshot.manifest.lanes.values():
        yield from ((-1, epoch) for epoch, _ in mark.epochs)
        yield from ((known.producer_id, -1) for known in mark.producers)


async def _of_piece(store: ObjectStore, piece: LiveSegment) -> tuple[int, int]:
    data = await store.read(piece.key)
    producer_id = epoch = -1
    for span in segment.parse(data).spans:
        for _, header in batch.walk(data, span.start, span.start + span.length):
            if header.producer_id < STRANGE_ID:
                producer_id = max(producer_id, header.producer_id)
            epoch = max(epoch, header.leader_epoch)
    return producer_id, epoch
