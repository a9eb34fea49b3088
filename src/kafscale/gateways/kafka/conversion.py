"""Old message formats at the door: the log holds format 2 only, so old clients are translated for.

Here: which requests need it, how much at a time, and on which thread. The event loop converts
only what is smaller than the way to a thread is long.
Next door: the formats themselves (records/legacy_up.py, records/legacy_down.py), the two APIs that
ask (apis/produce.py, apis/fetch.py).
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple, TypeVar

from msgspec.structs import replace

from kafscale.engine.partitions.reads import PartitionRead, ReadResult
from kafscale.engine.topics.topic import Topic
from kafscale.model.errors import (
    BadBatch,
    ConversionOff,
    CorruptObject,
    KafscaleError,
    NotConvertible,
)
from kafscale.records import batch, legacy_down, legacy_up
from kafscale.records.compression import Codec
from kafscale.records.validation import BatchLimits, peek_magic

T = TypeVar("T")

NEWEST: Final = 2
_FORMAT_1_FROM: Final = 2  # versions of Fetch
_FORMAT_2_FROM: Final = 4
_SMALL_BYTES: Final = 8 * 1024
# Threads take the interpreter from the event loop in turns: few of them keep its turns short.
_MOST_AT_ONCE: Final = 2
_LARGEST_OPENED_BYTES: Final = 128 << 20
_CODEC_AT: Final = 17

Converted = list[memoryview] | KafscaleError


class Conversions:
    """Converts beside the event loop, a few at a time."""

    def __init__(self) -> None:
        """Begin with all turns free."""
        self._turns = asyncio.Semaphore(_MOST_AT_ONCE)

    async def run(self, work: Callable[[], T]) -> T:
        """Do some work on another thread, when it is its turn."""
        async with self._turns:
            return await asyncio.to_thread(work)


# -- what producers send ---------------------------------------------------------------------


def is_old(records: memoryview | None) -> bool:
    """Whether this is a message set; the magic byte counts, whatever the request's version."""
    return peek_magic(records) in (0, 1)


def are_quick(sets: Sequence[memoryview]) -> bool:
    """Whether message sets are small together, and known to be: packed ones may hold anything."""
    return sum(map(len, sets)) <= _SMALL_BYTES and not any(
        one[_CODEC_AT] & batch.CODEC_MASK for one in sets if len(one) > _CODEC_AT
    )


def to_store(
    records: memoryview, limits: BatchLimits, now_ms: int, compression: str | None
) -> Converted:
    """The batches of a message set, packed as the topic or else the producer wants, or why not."""
    try:
        codec = None if compression is None else Codec.named(compression)
        return [memoryview(one) for one in legacy_up.to_batches(records, limits, now_ms, codec)]
    except KafscaleError as problem:
        # Not the very error: its traceback would keep alive all that was unpacked.
        return type(problem)(str(problem))


# -- what consumers read ---------------------------------------------------------------------


class Handed(NamedTuple):
    """A partition's part as its consumer can read it, and the offset where the next one begins."""

    part: ReadResult
    next_offset: int


def newest_format(want: PartitionRead, version: int) -> int:
    """The newest format a consumer is handed: by its request, and by the topic's wish."""
    asked = NEWEST if version >= _FORMAT_2_FROM else int(version >= _FORMAT_1_FROM)
    if isinstance(want.topic, KafscaleError) or not want.topic.settings.down_conversion:
        return asked
    return min(asked, want.topic.settings.max_magic)


def is_due(wanted: Sequence[PartitionRead], parts: Sequence[ReadResult], version: int) -> bool:
    """Whether any of this must be converted; the usual answer is no, and fast."""
    topic: Topic | KafscaleError | None = None
    for want, part in zip(wanted, parts, strict=True):
        if part.batches and want.topic is not topic:
            topic = want.topic
            if newest_format(want, version) < NEWEST:
                return True
    return False


async def to_hand_out(
    conversions: Conversions,
    wanted: Sequence[PartitionRead],
    parts: Sequence[ReadResult],
    version: int,
    max_bytes: int,
) -> list[Handed]:
    """All parts as this version's consumers can read them."""
    if _are_quick(parts):
        return _hand_out(wanted, parts, version, max_bytes)
    return await conversions.run(lambda: _hand_out(wanted, parts, version, max_bytes))


def _are_quick(parts: Sequence[ReadResult]) -> bool:
    return sum(part.size for part in parts) <= _SMALL_BYTES and not any(
        header.codec for part in parts for piece in part.batches for _, header in batch.walk(piece)
    )


def _hand_out(
    wanted: Sequence[PartitionRead], parts: Sequence[ReadResult], version: int, max_bytes: int
) -> list[Handed]:
    """Messages are larger than records: the room in the answer is shared out anew."""
    handed = []
    room = max_bytes
    for want, part in zip(wanted, parts, strict=True):
        magic = newest_format(want, version)
        if not part.batches or magic == NEWEST:
            handed.append(Handed(part, want.offset))
        elif room <= 0 and room < max_bytes:
            handed.append(Handed(replace(part, batches=[], size=0), want.offset))
        else:
            handed.append(_one(want, part, magic, min(want.max_bytes, room)))
        room -= handed[-1].part.size
    return handed


def _one(want: PartitionRead, part: ReadResult, magic: int, limit: int) -> Handed:
    """As many messages as reach the limit, and at least one piece of them.

    What cannot be converted ends the answer before it; the error is told when it comes first.
    """
    assert not isinstance(want.topic, KafscaleError)  # it would have no batches
    if not want.topic.settings.down_conversion:
        problem = ConversionOff("message.downconversion.enable is false")
        return Handed(replace(part, error=problem, batches=[], size=0), want.offset)
    out: list[memoryview] = []
    size, reached = 0, want.offset
    try:
        for piece in part.batches:
            for at, header in batch.walk(piece):
                one = piece[at : at + header.size]
                for some in legacy_down.to_messages(one, magic, want.offset, _LARGEST_OPENED_BYTES):
                    out.append(memoryview(some))
                    size += len(some)
                    if size >= limit:
                        return Handed(replace(part, batches=out, size=size), reached)
                reached = max(reached, header.next_offset)
    except (NotConvertible, BadBatch) as problem:
        if not out:
            kind = NotConvertible if isinstance(problem, NotConvertible) else CorruptObject
            why = kind(str(problem))
            return Handed(replace(part, error=why, batches=[], size=0), want.offset)
    return Handed(replace(part, batches=out, size=size), reached)
