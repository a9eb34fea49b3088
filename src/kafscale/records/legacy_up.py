"""Message sets of formats 0 and 1 become batches of format 2, or a clear refusal.

Here: every rule about a set that a producer sent, and the records of the batches. Offsets that
producers wrote are passed over: clients leave them blank in many ways, the log gives its own.
Nothing is allocated on the word of a size; what is packed unpacks under a hard cap.
Next door: the layout (legacy.py), the other direction (legacy_down.py).
Never here: which of the batches are stored where.
"""

import struct
from typing import Final, NamedTuple
from zlib import crc32

from kafscale.model.errors import (
    BadBatch,
    BatchTooLarge,
    CorruptBatch,
    InvalidRecord,
    InvalidTimestamp,
    RecordListTooLarge,
    UnsupportedCompression,
)
from kafscale.records import legacy, varint
from kafscale.records.batch import (
    CODEC_MASK,
    HEADER,
    HEADER_SIZE,
    LENGTH_PREFIX,
    LOG_APPEND_TIME,
    sign,
)
from kafscale.records.compression import Codec, UnpackBudget, compress, decompress
from kafscale.records.legacy import NO_TIMESTAMP
from kafscale.records.validation import MAGIC, MAGIC_AT, NO_LIMIT, BatchLimits

_ATTRIBUTES_AT: Final = 17
_BLANK_OFFSETS: Final = (0, -1)  # producers write these into a wrapper: its offset is not known yet
_PACKED_AT_ONCE: Final = 4096  # records held as parts before they become one piece of memory

# Numbers of one and two bytes, written: most lengths, and the deltas of most batches.
_WRITTEN: Final = [bytes([n << 1]) for n in range(64)] + [
    bytes([(n << 1) & 0x7F | 0x80, n >> 6]) for n in range(64, 8192)
]
_FEW: Final = len(_WRITTEN)
_NULL: Final = b"\x01"
_NO_HEADERS: Final = b"\x00"


class _Span(NamedTuple):
    """Some records in the form of format 2, and what the header says about them."""

    payload: bytearray
    record_count: int
    base_ms: int
    max_ms: int


class _Times(NamedTuple):
    """Which timestamps are taken; `all_ms` is the wrapper's word for everything in it."""

    earliest: int
    latest: int
    all_ms: int | None = None


def to_batches(
    records: bytes | memoryview,
    limits: BatchLimits,
    now_ms: int,
    codec: Codec | None = None,
    budget: UnpackBudget | None = None,
) -> list[bytearray]:
    """The batches of a set, in order; packed by `codec`, or as the producer packed them.

    `budget`: what the sets of the request may unpack to together; None: only `limits` count.

    A packed set becomes one batch; messages in a row become as few as the size limit allows.
    Everything that could be refused is refused here, before any of them is stored.
    """
    data = bytes(records)
    if len(data) <= _ATTRIBUTES_AT:
        raise InvalidRecord(f"{len(data)} bytes are no message")
    magic = data[MAGIC_AT]
    if magic not in (0, 1):
        raise InvalidRecord(f"message format {magic} is none of the old ones")
    times = _times(limits, now_ms)
    packed_by = _codec_of(data[_ATTRIBUTES_AT])
    if packed_by is Codec.NONE:
        spans = _spans(data, magic, limits, times, limits.max_message_bytes - HEADER_SIZE)[0]
    else:
        spans = [_unwrapped(data, magic, packed_by, limits, times, budget)]
    return [_batch(span, packed_by if codec is None else codec, limits) for span in spans]


def _times(limits: BatchLimits, now_ms: int) -> _Times:
    """The timestamps to accept: none before 1970, unless the topic accepts every timestamp."""
    before_ms, after_ms = limits.timestamp_before_max_ms, limits.timestamp_after_max_ms
    if before_ms == after_ms == NO_LIMIT:
        return _Times(-(2**63), 2**63 - 1)
    return _Times(max(0, now_ms - before_ms), now_ms + after_ms)


def _codec_of(attributes: int) -> Codec:
    number = attributes & CODEC_MASK
    if number > Codec.LZ4:
        raise UnsupportedCompression(f"codec {number} does not exist in the old formats")
    return Codec(number)


def _unwrapped(
    data: bytes,
    magic: int,
    codec: Codec,
    limits: BatchLimits,
    times: _Times,
    budget: UnpackBudget | None,
) -> _Span:
    """The records of a packed set, which must be alone."""
    wrapper, time_ms, value = _open_wrapper(data, magic, limits)
    if magic and data[_ATTRIBUTES_AT] & LOG_APPEND_TIME:
        _check_time(time_ms, times)
        times = times._replace(all_ms=time_ms)
    if codec is Codec.LZ4 and magic == 0:
        value = legacy.with_right_lz4_checksum(value)
    unpack = decompress if budget is None else budget.unpack
    inside = bytes(unpack(codec, value, limits.max_decompressed_bytes))
    if not inside:
        raise InvalidRecord("a compressed message with nothing in it")
    spans, last = _spans(inside, magic, limits, times, None)
    if magic and wrapper < last and wrapper not in _BLANK_OFFSETS:
        raise InvalidRecord(f"a compressed message at offset {wrapper} ends at {last}")
    return spans[0]


def _open_wrapper(data: bytes, magic: int, limits: BatchLimits) -> tuple[int, int, bytes]:
    """Offset, time and value of the one message that fills `data`."""
    head = legacy.HEADS[magic]
    if len(data) < head.size:
        raise _why_no_message(data, 0, magic)
    offset, size, crc, *rest = head.unpack_from(data)
    end = legacy.PREFIX + size
    if size < legacy.MIN_SIZES[magic] or end > len(data):
        raise _why_no_message(data, 0, magic)
    if end != len(data):
        raise InvalidRecord("a compressed message is not alone")
    if end > limits.max_message_bytes:
        raise BatchTooLarge(f"{end} bytes; {limits.max_message_bytes} are allowed")
    if crc32(data[legacy.SIGNED_FROM :]) != crc:
        raise CorruptBatch("the checksum is wrong")
    time_ms: int = rest[2] if magic else NO_TIMESTAMP
    value_at = head.size + max(0, rest[-1])
    if rest[-1] < -1 or value_at + legacy.VALUE_SIZE.size > end:
        raise InvalidRecord(f"a key of {rest[-1]} bytes in a message of {end}")
    (value_size,) = legacy.VALUE_SIZE.unpack_from(data, value_at)
    value_at += legacy.VALUE_SIZE.size
    if value_size < 0 or value_at + value_size != end:
        raise InvalidRecord(f"a compressed message with {value_size} bytes in {end - value_at}")
    return offset, time_ms, data[value_at:]


def _spans(
    data: bytes, magic: int, limits: BatchLimits, times: _Times, most_bytes: int | None
) -> tuple[list[_Span], int]:
    """The messages that fill `data`, in spans of `most_bytes`; the last one's own offset.

    The one loop that every old record passes. Between reading a size and using it, it is compared
    with what is there; a value that does not end where its message ends is found whichever of the
    two sizes was wrong. Records of format 2 are never larger than messages, so that a span keeps
    its limit, unless it is a single message.
    """
    read_head = legacy.HEADS[magic].unpack_from
    read_size = legacy.VALUE_SIZE.unpack_from
    head_size, min_size = legacy.HEADS[magic].size, legacy.MIN_SIZES[magic]
    written, few, encode = _WRITTEN, _FEW, varint.encode
    require_key = limits.require_key
    most_message = limits.max_message_bytes if most_bytes is not None else len(data)
    all_ms = NO_TIMESTAMP if not magic else times.all_ms
    spans: list[_Span] = []
    payload = bytearray()
    parts: list[bytes] = []
    begin = at = index = offset = 0
    base_ms = max_ms = seen_ms = time_ms = NO_TIMESTAMP
    time = b"\x00\x00"  # the record's attributes, none, and its time delta
    try:
        while at < len(data):
            if magic:
                offset, size, crc, kind, attributes, time_ms, key_size = read_head(data, at)
            else:
                offset, size, crc, kind, attributes, key_size = read_head(data, at)
            end = at + 12 + size
            if size < min_size or end > len(data) or kind != magic or attributes & 7:
                raise _why_no_message(data, at, magic)
            if crc32(data[at + 16 : end]) != crc:
                raise CorruptBatch("the checksum is wrong")
            if most_bytes is not None and end - begin > most_bytes and index:
                payload += b"".join(parts)
                spans.append(_Span(payload, index, base_ms, max_ms))
                payload, parts = bytearray(), []
                begin, index = at, 0
            if end - at > most_message:
                raise BatchTooLarge(f"{end - at} bytes; {most_message} are allowed")
            if all_ms is not None:
                time_ms = all_ms
            if not index:
                _check_time(time_ms, times)
                base_ms = max_ms = seen_ms = time_ms
                time = b"\x00\x00"
            elif time_ms != seen_ms:
                _check_time(time_ms, times)
                max_ms = max(max_ms, time_ms)
                seen_ms = time_ms
                delta = time_ms - base_ms
                time = b"\x00" + (written[delta] if 0 <= delta < few else _encode_time(delta))

            value_at = at + head_size
            if key_size >= 0:
                key = data[value_at : value_at + key_size]
                value_at += key_size
                key = (written[key_size] if key_size < few else encode(key_size)) + key
            elif key_size == -1 and not require_key:
                key = _NULL
            else:
                raise InvalidRecord("a message lacks a key, or has one of a negative size")
            (value_size,) = read_size(data, value_at)
            value_at += 4
            if value_size >= 0:
                value = data[value_at:end]
                value_at += value_size
                value_head = written[value_size] if value_size < few else encode(value_size)
            elif value_size == -1:
                value, value_head = b"", _NULL
            else:
                raise InvalidRecord(f"a value of {value_size} bytes")
            if value_at != end:
                raise InvalidRecord(f"a message ends at byte {value_at}, by its size at {end}")

            place = written[index] if index < few else encode(index)
            length = len(time) + len(place) + len(key) + len(value_head) + len(value) + 1
            parts += (
                written[length] if length < few else encode(length),
                time, place, key, value_head, value, _NO_HEADERS,
            )  # fmt: skip
            index += 1
            if not index % _PACKED_AT_ONCE:
                payload += b"".join(parts)
                parts = []
            at = end
    except struct.error:
        raise _why_no_message(data, at, magic) from None
    payload += b"".join(parts)
    spans.append(_Span(payload, index, base_ms, max_ms))
    return spans, offset


def _check_time(time_ms: int, times: _Times) -> None:
    if not times.earliest <= time_ms <= times.latest and time_ms != NO_TIMESTAMP:
        raise InvalidTimestamp(f"{time_ms} is not between {times.earliest} and {times.latest}")


def _encode_time(delta: int) -> bytes:
    """A delta of two 64-bit times may need 65 bits; readers add it within 64."""
    return varint.encode((delta + 2**63) % 2**64 - 2**63)


def _why_no_message(data: bytes, at: int, magic: int) -> BadBatch:
    """What is wrong with bytes that are no plain message of this format."""
    left = len(data) - at
    if left < legacy.PREFIX:
        return InvalidRecord(f"{left} bytes follow the last message")
    size: int = legacy.VALUE_SIZE.unpack_from(data, at + 8)[0]
    if size < legacy.MIN_SIZES[0]:
        return CorruptBatch(f"message size {size}")
    if left <= _ATTRIBUTES_AT:
        return InvalidRecord("the last message is cut off")
    kind = data[at + MAGIC_AT]
    if kind > MAGIC:
        return CorruptBatch(f"message format {kind} does not exist")
    if kind != magic:
        return InvalidRecord(f"a message of format {kind} in a set of format {magic}")
    if size < legacy.MIN_SIZES[magic]:
        return CorruptBatch(f"message size {size}")
    if size + legacy.PREFIX > left:
        return InvalidRecord(f"the message claims {size + legacy.PREFIX} bytes, {left} are left")
    if data[at + _ATTRIBUTES_AT] & CODEC_MASK:
        return InvalidRecord("a compressed message is not alone, or within another")
    return InvalidRecord("a message ends within a size")


def _batch(span: _Span, codec: Codec, limits: BatchLimits) -> bytearray:
    payload = span.payload if codec is Codec.NONE else compress(codec, span.payload)
    size = HEADER_SIZE + len(payload)
    if size > limits.max_message_bytes:
        raise BatchTooLarge(f"{size} bytes as a batch; {limits.max_message_bytes} are allowed")
    if size > limits.max_segment_bytes:
        raise RecordListTooLarge(f"{size} bytes are more than a segment may hold")
    batch = bytearray(
        HEADER.pack(
            0,  # base_offset
            size - LENGTH_PREFIX,
            -1,  # leader_epoch
            MAGIC,
            0,  # crc
            codec,
            span.record_count - 1,
            span.base_ms,
            span.max_ms,
            -1,  # producer_id
            -1,  # producer_epoch
            -1,  # base_sequence
            span.record_count,
        )
    )
    batch += payload
    sign(batch)
    return batch
