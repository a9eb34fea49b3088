"""Looking at a topic in the bucket without a broker: what counts, and what merely lies there.

Here: one log as a list of pieces, read from its manifest and the names and ends of its tail.
Next door: printing it (segments.py), checking it (verify.py).
Never here: writing. A look costs one LIST, one manifest and 48 bytes per flush of the tail.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final, Literal, NamedTuple, TypeVar

from kafscale.broker.config import Config
from kafscale.cli.errors import CommandError
from kafscale.log import commits, keys
from kafscale.log.manifest import Entry, Manifest
from kafscale.log.segment import END_MAGIC, FOOTER, HEADER, MAGIC
from kafscale.model.errors import CorruptObject, InvalidTopicName, ObjectMissing
from kafscale.model.names import check_topic_name
from kafscale.model.topics import TopicDescriptor
from kafscale.objects.store import ObjectStore, StoredObject

_READS_AT_ONCE: Final = 32
_T = TypeVar("_T")


class Piece(NamedTuple):
    """One segment that counts."""

    key: str
    kind: Literal["history", "flush"]
    base: int
    end: int
    records: int
    size: int
    modified_ms: int | None  # None: the manifest names it and the bucket does not have it
    entry: Entry | None  # what the manifest says about it


class LogView(NamedTuple):
    """One log as the bucket shows it."""

    number: int
    folder: str
    manifest: Manifest
    pieces: list[Piece]
    indexes: frozenset[str]  # keys of the index objects
    leftovers: list[StoredObject]  # replaced, abandoned or waiting to be deleted
    problems: list[str]


@asynccontextmanager
async def opened(config: Config) -> AsyncIterator[ObjectStore]:
    """Open the configured store for looking, and close it."""
    if config.store_kind == "memory":
        raise CommandError("objects in a broker's memory cannot be seen from outside")
    if config.store_kind == "files" and not Path(config.broker.data_dir).exists():
        raise CommandError(f"{config.broker.data_dir}: no such data folder (see --data-dir)")
    from kafscale.broker.wiring import open_store

    store = open_store(config)
    try:
        yield store
    finally:
        await store.aclose()


async def find_topic(store: ObjectStore, namespace: str, name: str) -> TopicDescriptor:
    """Read the newest descriptor of a topic."""
    try:
        check_topic_name(name)
    except InvalidTopicName as bad:
        raise CommandError(f"{name}: {bad}") from bad
    folder = keys.descriptor_folder(namespace, name)
    found = await store.find(
        folder, after=keys.descriptor(folder, 0), before=keys.descriptors_before(folder)
    )
    if not found:
        raise CommandError(f"{name}: no such topic in namespace {namespace}")
    descriptor = TopicDescriptor.decode(await store.read(found[-1].key))
    if descriptor.deleted:
        raise CommandError(f"{name}: the topic was deleted")
    return descriptor


def log_numbers(descriptor: TopicDescriptor, partition: int | None) -> list[int]:
    """The logs to look at: all, or the one that holds a partition."""
    if partition is None:
        return list(range(descriptor.logs))
    if not 0 <= partition < descriptor.partitions:
        raise CommandError(
            f"{descriptor.name}: no partition {partition}, only 0 to {descriptor.partitions - 1}"
        )
    return [partition % descriptor.logs]


async def look_at(store: ObjectStore, descriptor: TopicDescriptor, number: int) -> LogView:
    """Read one log's manifest and follow its tail."""
    folder = keys.log_folder(descriptor.folder, number)
    listing = {row.key: row for row in await store.find(folder)}
    generation = max((keys.parse_generation(key) or 0 for key in listing), default=0)
    past = await commits.read_generation(store, folder, generation)
    history = [_past_piece(f"{folder}/{entry.name}", entry, listing) for entry in past.segments]
    tail, problems = await _tail(store, folder, past.end, listing)
    pieces = history + tail
    counting = {piece.key for piece in pieces} | {keys.manifest(folder, generation)}
    indexes = {keys.index_of(piece.key) for piece in pieces} & set(listing)
    leftovers = [row for key, row in listing.items() if key not in counting | indexes]
    return LogView(number, folder, past, pieces, frozenset(indexes), leftovers, problems)


def _past_piece(key: str, entry: Entry, listing: dict[str, StoredObject]) -> Piece:
    row = listing.get(key)
    modified_ms = row.modified_ms if row else None
    return Piece(
        key, "history", entry.base, entry.end, entry.records, entry.size, modified_ms, entry
    )


async def _tail(
    store: ObjectStore, folder: str, start: int, listing: dict[str, StoredObject]
) -> tuple[list[Piece], list[str]]:
    """Follow the chain of flushes by their headers and footers."""
    flushes = {
        name.base: row
        for key, row in listing.items()
        if (name := keys.parse_segment(key))
        and name.generation is None
        and not name.is_index
        and name.base >= start
    }
    ends = await gathered(_ends(store, row) for row in flushes.values())
    found = dict(zip(flushes, ends, strict=True))
    pieces: list[Piece] = []
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


async def _ends(store: ObjectStore, row: StoredObject) -> Piece | str:
    """Read what a flush says about itself at both ends; in words if it makes no sense."""
    try:
        head = await store.read(row.key, 0, HEADER.size)
        foot = await store.read(row.key, max(0, row.size - FOOTER.size))
    except ObjectMissing:
        return f"{row.key}: gone since it was listed"
    if len(head) < HEADER.size or len(foot) < FOOTER.size:
        return f"{row.key}: too short to be a segment"
    magic, _, _, base, records, _, _ = HEADER.unpack(head)
    _, last, end_magic = FOOTER.unpack(foot)
    named = keys.parse_segment(row.key)
    if (magic, end_magic) != (MAGIC, END_MAGIC) or last < base:
        return f"{row.key}: not a whole segment"
    if named is None or named.base != base:
        return f"{row.key}: says it begins at {base}"
    return Piece(row.key, "flush", base, last + 1, records, row.size, row.modified_ms, None)


async def gathered(work: Iterable[Awaitable[_T]]) -> list[_T]:
    """Await many reads, a few at a time, in order."""
    gate = asyncio.Semaphore(_READS_AT_ONCE)

    async def one(job: Awaitable[_T]) -> _T:
        async with gate:
            return await job

    return await asyncio.gather(*map(one, work))


def in_words(key: str, bad: CorruptObject) -> str:
    """Name the object a complaint is about."""
    text = str(bad)
    return text if text.startswith(key) else f"{key}: {text}"
