"""Opening a log: the newest manifest and the tail, and a second LIST if the first is old.

Here: rule 1 of the log protocol, the same for brokers, jobs and tools. The cost depends on the
tail, which roll-up keeps short, never on the length of history: one LIST, a second one if a page
does not reach from the manifests to the end, the manifest, and the objects of the tail. A caller
that does not know the grace period, or took long, pays one LIST more.
"""

import asyncio
from typing import NamedTuple

from kafscale.log.formats import keys, segment
from kafscale.log.formats.manifest import Manifest, SegmentEntry, flush_entry
from kafscale.log.formats.segment import ContentId, Segment
from kafscale.log.protocol import commits
from kafscale.model.clock import Clock, Moment, age_s, moment
from kafscale.model.errors import CorruptObject, LogEnded, LogStopped, ObjectMissing
from kafscale.objects.store import PAGE, ObjectStore, StoredObject

_READS_AT_ONCE = 32


class TailSegment(NamedTuple):
    """A flush after the manifest's end: what it says, and its bytes."""

    entry: SegmentEntry
    content: Segment
    data: memoryview


class Opened(NamedTuple):
    """A log as it was when all of this was true at once."""

    manifest: Manifest
    tail: list[TailSegment]
    proof: Moment  # when the LIST was issued that found this manifest the newest


class _Moved(Exception):
    """The log changed while it was read: start over."""


async def open_log(
    store: ObjectStore, folder: str, clock: Clock, index_from_bytes: int, fresh_s: float = 0.0
) -> Opened:
    """Read what is committed. Raises LogStopped when the log's objects contradict each other.

    `fresh_s`: for that long after the LIST nothing of what it found is deleted; half of the grace
    period, if it is known.
    """
    while True:
        try:
            return await _attempt(store, folder, clock, index_from_bytes, fresh_s)
        except (_Moved, ObjectMissing):
            await asyncio.sleep(0)
        except CorruptObject as problem:
            raise LogStopped(f"{folder}: {problem}") from problem


async def _attempt(
    store: ObjectStore, folder: str, clock: Clock, index_from_bytes: int, fresh_s: float
) -> Opened:
    issued = moment(clock)
    # Manifests come first, then segments: a page holds all of most logs.
    listed = await store.find(folder, after=keys.manifest(folder, 0), limit=PAGE)
    is_all = len(listed) < PAGE
    generation = max((keys.parse_generation(stored.key) or 0 for stored in listed), default=0)
    if not is_all and listed[-1].key < keys.manifests_before(folder):
        generation = await commits.newest_generation(store, folder, generation)
    past = await commits.read_generation(store, folder, generation)
    if not is_all:
        listed = await store.find(
            folder,
            after=keys.segments_from(folder, past.end),
            before=keys.segments_before(folder),
        )
    bodies = await _read_all(store, _flushes(listed, past.end))
    tail = walk(folder, past, bodies, index_from_bytes)
    if age_s(clock, issued) < fresh_s:
        return Opened(past, tail, issued)
    issued = moment(clock)
    if await commits.newest_generation(store, folder, generation) != generation:
        raise _Moved
    return Opened(past, tail, issued)


def _flushes(listed: list[StoredObject], end: int) -> dict[int, StoredObject]:
    """By base, what may belong to the chain from `end` on."""
    return {
        base: stored
        for stored in listed
        if (base := keys.flush_base(stored.key)) is not None and base >= end
    }


async def _read_all(store: ObjectStore, flushes: dict[int, StoredObject]) -> dict[int, memoryview]:
    waiting = iter(flushes.items())
    bodies: dict[int, memoryview] = {}

    async def read_next() -> None:
        for base, stored in waiting:
            # In a bucket, reading a range is one request less than reading an object of unknown
            # size. One byte more than was listed tells whether it is that object: a name that was
            # deleted can come back.
            data = await store.read(stored.key, 0, stored.size + 1)
            bodies[base] = data if len(data) == stored.size else await store.read(stored.key)

    await asyncio.gather(*(read_next() for _ in range(min(len(flushes), _READS_AT_ONCE))))
    return bodies


def walk(
    folder: str, past: Manifest, bodies: dict[int, memoryview], index_from_bytes: int
) -> list[TailSegment]:
    """Follow the chain from the manifest's end: each segment begins where the last one ended."""
    tail = []
    position = past.end
    before = ContentId._make(past.end_id)
    # A lane without records may begin at any offset: a topic that moves in keeps its offsets.
    next_offsets = {number: mark.next for number, mark in past.lanes.items() if mark.next}
    while (data := bodies.get(position)) is not None:
        key = keys.segment(folder, position)
        if bytes(data[: segment.SMALLEST]) == segment.THE_END:
            # Rule 25: the last manifest came while the log was read.
            raise LogEnded(f"{folder}: the topic has been deleted")
        try:
            content = segment.parse(data)
        except CorruptObject as problem:
            raise LogStopped(f"{key}: {problem}") from problem
        if content.base != position:
            raise LogStopped(f"{key} says it begins at {content.base}")
        # Rule 5. Ordinary segments have no field for it.
        if content.predecessor is not None and content.predecessor != before:
            raise LogStopped(f"{key} was not written after the segment that precedes it")
        _follow(key, content, next_offsets)
        entry = flush_entry(content, index_from_bytes)
        tail.append(TailSegment(entry, content, data))
        position = content.end
        before = content.content_id
    return tail


def _follow(key: str, content: Segment, next_offsets: dict[int, int]) -> None:
    """Every lane goes on where it was; together they fill the segment's positions."""
    for span in content.spans:
        # The manifest may list an empty lane with 0; its first offset may be any.
        expected = next_offsets.get(span.lane) or span.first
        if span.first != expected:
            raise LogStopped(f"{key}: lane {span.lane} goes on at {span.first}, not at {expected}")
        next_offsets[span.lane] = span.last + 1
    if sum(span.last - span.first + 1 for span in content.spans) != content.end - content.base:
        raise LogStopped(f"{key}: its lanes do not fill the positions it claims")
