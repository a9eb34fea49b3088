"""What Fluvio's producers send becomes a batch for the log, or a clear refusal.

Here: a record set cut into batches, and one batch as the log stores it: with Kafka's records,
packed by the topic's codec or else by the producer's.
Next door: single records (splice.py), the rules about a batch (records/validation.py), the API
(data/produce.py).
Never here: which of the batches are stored where.
"""

import struct
from collections.abc import Generator, Iterator
from dataclasses import replace
from typing import Final, NamedTuple

import cramjam
from crc32c import crc32c

from kafscale.gateways.fluvio.records import splice
from kafscale.model.errors import (
    BatchTooLarge,
    CorruptBatch,
    InvalidRecord,
    InvalidRequest,
    UnsupportedCompression,
)
from kafscale.records import record
from kafscale.records.batch import (
    CODEC_MASK,
    HEADER,
    HEADER_SIZE,
    LENGTH_PREFIX,
    SIGNED_FROM,
    BatchHeader,
    sign,
)
from kafscale.records.compression import Codec, decompress
from kafscale.records.validation import NO_LIMIT, BatchLimits, validate

# The fields up to the producer's sequence stand where Kafka has them. In Fluvio's batch the number
# of records comes behind them in the packed part.
HEAD: Final = struct.Struct(">qiibIhiqqqhi")
HAS_SCHEMA: Final = 0x10
_COUNT: Final = struct.Struct(">i")
_SMALLEST_RECORD: Final = 7
_RECORDS_PER_STEP: Final = 2048
_BUFFER_FULL: Final = "failed to write whole buffer"
_MOST_SNAPPY_RATIO: Final = 22
assert HEAD.size == HEADER_SIZE - _COUNT.size


class FluvioBatch(NamedTuple):
    """A batch as a producer sent it: the fields that count, and the packed part."""

    codec: Codec
    last_offset_delta: int
    first_ms: int
    max_ms: int
    packed: memoryview


def each_batch(records: memoryview) -> Iterator[memoryview]:
    """The batches of a record set; raises CorruptBatch at one that is not whole."""
    at = 0
    while at < len(records):
        if len(records) - at < HEAD.size:
            raise CorruptBatch(f"{len(records) - at} bytes are no batch")
        size = _COUNT.unpack_from(records, at + 8)[0] + LENGTH_PREFIX
        if not HEAD.size <= size <= len(records) - at:
            raise CorruptBatch(f"a batch of {size} bytes in {len(records) - at}")
        yield records[at : at + size]
        at += size


def read_batch(data: memoryview) -> FluvioBatch:
    """Check the header of one whole batch."""
    _, _, _, magic, crc, attributes, last_delta, first_ms, max_ms, *_ = HEAD.unpack_from(data)
    if magic != 2:
        raise CorruptBatch(f"message format {magic} does not exist")
    if crc32c(data[SIGNED_FROM:]) != crc:
        raise CorruptBatch("the checksum is wrong")
    if attributes & HAS_SCHEMA:
        raise InvalidRequest("schemas of records are not supported")
    if attributes & CODEC_MASK > Codec.ZSTD:
        raise UnsupportedCompression(f"codec {attributes & CODEC_MASK} does not exist")
    codec = Codec(attributes & CODEC_MASK)
    return FluvioBatch(codec, last_delta, first_ms, max_ms, data[HEAD.size :])


def unpack(sent: FluvioBatch, limit: int) -> bytes:
    """Count and records of a batch; may run on any thread."""
    if sent.codec is Codec.SNAPPY:
        return _unpack_snappy_frames(sent.packed, limit)
    return bytes(decompress(sent.codec, sent.packed, limit))


def _unpack_snappy_frames(data: memoryview, limit: int) -> bytes:
    """Fluvio has snappy's own frames, where Kafka has those of snappy-java."""
    room = min(limit, _MOST_SNAPPY_RATIO * len(data))
    out = bytearray(room)
    try:
        size = cramjam.snappy.decompress_into(data, out)
    except cramjam.DecompressionError as failure:
        if str(failure) == _BUFFER_FULL and room == limit:
            raise BatchTooLarge(f"the records unpack to more than {limit} bytes") from failure
        raise CorruptBatch(f"broken snappy stream: {failure}") from failure
    return bytes(memoryview(out)[:size])


def spliced(sent: FluvioBatch, data: bytes) -> Generator[None, None, bytearray]:
    """The batch with Kafka's records, not packed. `data` has count and records unpacked."""
    if len(data) < _COUNT.size:
        raise CorruptBatch("the number of records is missing")
    (count,) = _COUNT.unpack_from(data)
    if not 0 < count <= (len(data) - _COUNT.size) // _SMALLEST_RECORD:
        raise InvalidRecord(f"{count} records cannot be in {len(data) - _COUNT.size} bytes")
    if count != sent.last_offset_delta + 1:
        raise InvalidRecord(f"{count} records up to offset delta {sent.last_offset_delta}")
    out = bytearray()
    pieces = [bytes(HEADER_SIZE)]
    at = _COUNT.size
    for index in range(0, count, _RECORDS_PER_STEP):
        at = splice.to_kafka(data, at, index, min(_RECORDS_PER_STEP, count - index), pieces)
        if at == splice.BROKEN:
            raise InvalidRecord(f"one of the records from {index} on is broken")
        if out:
            out += b"".join(pieces)
        else:
            out = bytearray().join(pieces)
        pieces.clear()
        yield
    if at != len(data):
        raise InvalidRecord(f"{len(data) - at} bytes follow the last of {count} records")
    HEADER.pack_into(out, 0, *_header(sent, count, len(out)))
    sign(out)
    return out


def _header(sent: FluvioBatch, count: int, size: int) -> BatchHeader:
    return BatchHeader(
        base_offset=0,
        batch_length=size - LENGTH_PREFIX,
        leader_epoch=-1,
        magic=2,
        crc=0,
        attributes=Codec.NONE,
        last_offset_delta=count - 1,
        base_timestamp_ms=sent.first_ms,
        max_timestamp_ms=sent.max_ms,
        producer_id=-1,
        producer_epoch=-1,
        base_sequence=-1,
        record_count=count,
    )


def to_store(plain: bytearray, codec: Codec, limits: BatchLimits, now_ms: int) -> memoryview:
    """The batch within the topic's limits, packed; may run on any thread."""
    loose = replace(limits, max_message_bytes=NO_LIMIT, max_segment_bytes=NO_LIMIT)
    validate(memoryview(plain), loose, now_ms)
    stored = plain if codec is Codec.NONE else record.recompress(plain, codec, NO_LIMIT)
    if len(stored) > limits.max_message_bytes:
        raise BatchTooLarge(f"{len(stored)} bytes; {limits.max_message_bytes} are allowed")
    return memoryview(stored)
