"""Old message formats at the door: logs hold format 2 only, so the broker converts for old clients.

Here: which requests need it, how much at a time, and on which thread. The event loop itself
converts only what takes less time than handing it to a thread.
Next door: the formats themselves (records/legacy_up.py, records/legacy_down.py), what producers
send (record_sets.py), the API that reads (apis/fetch.py), the threads (gateways/workers.py).
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

from msgspec.structs import replace

from kafscale.engine.partitions.reads import PartitionRead, ReadResult
from kafscale.engine.topics.topic import Topic
from kafscale.gateways.workers import WorkQueue
from kafscale.model.errors import (
    BadBatch,
    ConversionOff,
    CorruptObject,
    KafscaleError,
    NotConvertible,
)
from kafscale.records import batch, legacy_down, legacy_up
from kafscale.records.compression import Codec, UnpackBudget
from kafscale.records.validation import BatchLimits, peek_magic

NEWEST: Final = 2
_FORMAT_1_FROM: Final = 2  # versions of Fetch
_FORMAT_2_FROM: Final = 4
_SMALL_BYTES: Final = 8 * 1024
_LARGEST_OPENED_BYTES: Final = 128 << 20
_CODEC_AT: Final = 17

# -- what producers send ---------------------------------------------------------------------


def is_old(records: memoryview | None) -> bool:
    """Whether this is a message set; the magic byte counts, whatever the request's version."""
    return peek_magic(records) in (0, 1)


def is_packed(records: memoryview) -> bool:
    """Whether a message set is compressed, so that it may hold anything."""
    return len(records) > _CODEC_AT and bool(records[_CODEC_AT] & batch.CODEC_MASK)


def to_store(
    records: memoryview,
    limits: BatchLimits,
    now_ms: int,
    compression: str | None,
    budget: UnpackBudget,
) -> list[memoryview]:
    """The batches of a message set, compressed as the topic or else the producer says."""
    codec = None if compression is None else Codec.named(compression)
    batches = legacy_up.to_batches(records, limits, now_ms, codec, budget)
    return [memoryview(one) for one in batches]


# -- what consumers read ---------------------------------------------------------------------


class ConvertedRead(NamedTuple):
    """A partition's result as its consumer can read it, and the offset to go on from."""

    result: ReadResult
    next_offset: int


def newest_format(read: PartitionRead, version: int) -> int:
    """The newest format a consumer is converted: by its request and the topic's setting."""
    asked = NEWEST if version >= _FORMAT_2_FROM else int(version >= _FORMAT_1_FROM)
    if isinstance(read.topic, KafscaleError) or not read.topic.settings.down_conversion:
        return asked
    return min(asked, read.topic.settings.max_magic)


def is_due(reads: Sequence[PartitionRead], results: Sequence[ReadResult], version: int) -> bool:
    """Whether any result must be converted. The usual answer is no, and it comes fast."""
    topic: Topic | KafscaleError | None = None
    for read, result in zip(reads, results, strict=True):
        if result.batches and read.topic is not topic:
            topic = read.topic
            if newest_format(read, version) < NEWEST:
                return True
    return False


async def to_hand_out(
    work: WorkQueue,
    reads: Sequence[PartitionRead],
    results: Sequence[ReadResult],
    version: int,
    max_bytes: int,
) -> list[ConvertedRead]:
    """All results as consumers of this version can read them."""
    if _are_quick(results):
        return _hand_out(reads, results, version, max_bytes)
    return await work.run(lambda: _hand_out(reads, results, version, max_bytes))


def _are_quick(results: Sequence[ReadResult]) -> bool:
    return sum(result.size for result in results) <= _SMALL_BYTES and not any(
        header.codec
        for result in results
        for piece in result.batches
        for _, header in batch.walk(piece)
    )


def _hand_out(
    reads: Sequence[PartitionRead], results: Sequence[ReadResult], version: int, max_bytes: int
) -> list[ConvertedRead]:
    """Messages are larger than records, so the room in the answer is divided again."""
    converted = []
    room = max_bytes
    for read, result in zip(reads, results, strict=True):
        magic = newest_format(read, version)
        if not result.batches or magic == NEWEST:
            converted.append(ConvertedRead(result, read.offset))
        elif room <= 0 and room < max_bytes:
            converted.append(ConvertedRead(replace(result, batches=[], size=0), read.offset))
        else:
            converted.append(_convert(read, result, magic, min(read.max_bytes, room)))
        room -= converted[-1].result.size
    return converted


def _convert(read: PartitionRead, result: ReadResult, magic: int, limit: int) -> ConvertedRead:
    """As many messages as reach the limit, and at least one piece of them.

    The answer ends before a batch that cannot be converted. If that batch comes first, the answer
    is its error.
    """
    assert not isinstance(read.topic, KafscaleError)  # it would have no batches
    if not read.topic.settings.down_conversion:
        problem = ConversionOff("message.downconversion.enable is false")
        return ConvertedRead(replace(result, error=problem, batches=[], size=0), read.offset)
    out: list[memoryview] = []
    size, reached = 0, read.offset
    try:
        for piece in result.batches:
            for at, header in batch.walk(piece):
                one = piece[at : at + header.size]
                for some in legacy_down.to_messages(one, magic, read.offset, _LARGEST_OPENED_BYTES):
                    out.append(memoryview(some))
                    size += len(some)
                    if size >= limit:
                        return ConvertedRead(replace(result, batches=out, size=size), reached)
                reached = max(reached, header.next_offset)
    except (NotConvertible, BadBatch) as problem:
        if not out:
            kind = NotConvertible if isinstance(problem, NotConvertible) else CorruptObject
            why = kind(str(problem))
            return ConvertedRead(replace(result, error=why, batches=[], size=0), read.offset)
    return ConvertedRead(replace(result, batches=out, size=size), reached)
