"""What a producer may send: one whole, sound batch of magic 2.

Here: every rule about a batch, each with its own error; nothing is allocated on the word of a
length or a count.
Next door: the order inside the records (framing.py, at speed strides.py).
Never here: sequences of idempotent producers (they need the log), acks and topics.
"""

from dataclasses import dataclass
from typing import Final

from crc32c import crc32c

from kafscale.model.errors import (
    BadBatch,
    BatchTooLarge,
    CorruptBatch,
    InvalidRecord,
    InvalidTimestamp,
    RecordListTooLarge,
    UnsupportedCompression,
)
from kafscale.records.batch import (
    CONTROL,
    HEADER,
    HEADER_SIZE,
    LENGTH_PREFIX,
    MIN_BATCH_LENGTH,
    SIGNED_FROM,
    TRANSACTIONAL,
    BatchHeader,
)
from kafscale.records.compression import Codec, UnpackBudget, decompress
from kafscale.records.framing import MIN_RECORD_SIZE, keyless
from kafscale.records.strides import check_records

MAGIC: Final = 2
MAGIC_AT: Final = 16  # the same place in all three formats
_ATTRIBUTES_AT: Final = 22  # of the attributes' lower byte
MIN_MESSAGE_LENGTH: Final = 14  # of the oldest format: nothing can be shorter
NO_LIMIT: Final = 2**63 - 1
MAX_PRODUCER_ID: Final = 2**62 - 1
NO_PRODUCER: Final = -1


@dataclass(frozen=True, slots=True)
class BatchLimits:
    """What a topic allows."""

    max_message_bytes: int
    max_segment_bytes: int
    max_decompressed_bytes: int
    allow_zstd: bool = True
    require_key: bool = False
    timestamp_before_max_ms: int = NO_LIMIT
    timestamp_after_max_ms: int = NO_LIMIT
    walk_records: bool = True  # False: trust the batch header about the records


def peek_magic(records: memoryview | None) -> int | None:
    """The format of the first batch or message, when there is enough of it to tell."""
    if records is None or len(records) <= MAGIC_AT:
        return None
    magic: int = records[MAGIC_AT]
    return magic - 256 if magic > 127 else magic


def is_transactional(records: memoryview | None) -> bool:
    """Whether the first batch says that it is part of a transaction; it may still be a bad one."""
    return (
        records is not None
        and len(records) >= HEADER_SIZE
        and records[_ATTRIBUTES_AT] & TRANSACTIONAL != 0
        and records[MAGIC_AT] == MAGIC
    )


def validate(
    records: memoryview | None,
    limits: BatchLimits,
    now_ms: int,
    budget: UnpackBudget | None = None,
) -> BatchHeader:
    """Check all of what a producer sent for one partition, and give its header.

    `budget`: what the batches of the request may unpack to together; None: only `limits` count.
    """
    if not records:
        raise InvalidRecord("no records")
    if len(records) < HEADER_SIZE:
        raise _why_no_batch(records)
    header = BatchHeader._make(HEADER.unpack_from(records))
    if header.magic != MAGIC or header.batch_length + LENGTH_PREFIX != len(records):
        raise _why_no_batch(records)
    if len(records) > limits.max_message_bytes:
        raise BatchTooLarge(f"{len(records)} bytes; {limits.max_message_bytes} are allowed")
    if len(records) > limits.max_segment_bytes:
        raise RecordListTooLarge(f"{len(records)} bytes are more than a segment may hold")
    if crc32c(records[SIGNED_FROM:]) != header.crc:
        raise CorruptBatch("the checksum is wrong")
    _check_claims(header)
    check_times(header, limits, now_ms)
    _check_inside(records, header, limits, budget)
    return header


def _why_no_batch(records: memoryview) -> BadBatch:
    """What is wrong with bytes that are not exactly one batch of magic 2."""
    size = len(records)
    if size < LENGTH_PREFIX:
        return InvalidRecord(f"{size} bytes are no batch")
    length = int.from_bytes(records[8:LENGTH_PREFIX], signed=True)
    if length < MIN_MESSAGE_LENGTH:
        return CorruptBatch(f"batch length {length}")
    magic = peek_magic(records)
    if magic in (0, 1):
        return InvalidRecord(f"message format {magic} is not accepted here")
    if magic not in (None, MAGIC):
        return CorruptBatch(f"message format {magic} does not exist")
    if length < MIN_BATCH_LENGTH:
        return CorruptBatch(f"batch length {length}")
    if length + LENGTH_PREFIX > size:
        return InvalidRecord(f"the batch claims {length + LENGTH_PREFIX} bytes, {size} came")
    return InvalidRecord("more than one batch, or bytes after it")


def _check_claims(header: BatchHeader) -> None:
    """The header's fields agree with each other."""
    if header.attributes & CONTROL:
        raise InvalidRecord("a control batch from a client")
    count = header.record_count
    if count <= 0 or count != header.last_offset_delta + 1:
        raise InvalidRecord(f"{count} records up to offset delta {header.last_offset_delta}")
    producer = header.producer_id
    if not NO_PRODUCER <= producer <= MAX_PRODUCER_ID:
        raise InvalidRecord(f"producer id {producer}")
    if producer != NO_PRODUCER and (header.producer_epoch < 0 or header.base_sequence < 0):
        raise InvalidRecord(
            f"producer {producer} with epoch {header.producer_epoch}"
            f" and sequence {header.base_sequence}"
        )


def check_times(header: BatchHeader, limits: BatchLimits, now_ms: int) -> None:
    """Neither end of the batch lies too far from now."""
    if limits.timestamp_before_max_ms == limits.timestamp_after_max_ms == NO_LIMIT:
        return
    earliest = now_ms - limits.timestamp_before_max_ms
    latest = now_ms + limits.timestamp_after_max_ms
    for time_ms in (header.base_timestamp_ms, header.max_timestamp_ms):
        if not earliest <= time_ms <= latest:
            raise InvalidTimestamp(f"{time_ms} is not between {earliest} and {latest}")


def _check_inside(
    records: memoryview, header: BatchHeader, limits: BatchLimits, budget: UnpackBudget | None
) -> None:
    """The records, unpacked if need be, are in order."""
    codec = header.attributes & 7
    if codec > Codec.ZSTD or (codec == Codec.ZSTD and not limits.allow_zstd):
        raise UnsupportedCompression(f"codec {codec} is not accepted here")
    if not limits.walk_records:
        return
    if codec == Codec.NONE:
        data, at = bytes(records), HEADER_SIZE
    else:
        unpack = decompress if budget is None else budget.unpack
        payload = records[HEADER_SIZE:]
        data, at = bytes(unpack(Codec(codec), payload, limits.max_decompressed_bytes)), 0
    if header.record_count > (len(data) - at) // MIN_RECORD_SIZE:
        raise InvalidRecord(f"{header.record_count} records cannot be in {len(data) - at} bytes")
    try:
        check_records(data, at, header.record_count, limits.require_key)
    except InvalidRecord:
        missing = keyless(data, at, header.record_count) if limits.require_key else ()
        if not missing:
            raise
        raise InvalidRecord("a compacted topic takes no record without a key", missing) from None
