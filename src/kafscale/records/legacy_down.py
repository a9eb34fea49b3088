"""Batches of format 2 become messages of formats 0 and 1, for consumers that read no other.

Here: one batch at a time, in pieces of bounded size, so that a caller that has enough can stop.
What is packed stays packed, by the same codec. What the old formats have no place for is left
out: headers, producers, epochs, and in format 0 the timestamps.
Next door: the layout (legacy.py), the other direction (legacy_up.py).
Never here: how much a consumer gets.
"""

import struct
from collections.abc import Iterator
from typing import Final
from zlib import crc32

from kafscale.model.errors import CorruptBatch, NotConvertible
from kafscale.records import legacy, varint
from kafscale.records.batch import HEADER_SIZE, LOG_APPEND_TIME, BatchHeader, read_header
from kafscale.records.compression import Codec, compress, decompress

_PIECE_BYTES: Final = 1 << 20  # of messages, before they are packed
_LOWEST: Final = -(2**63)
_HIGHEST: Final = 2**63 - 1
_PLACE: Final = struct.Struct(">qiI")  # offset, size, crc
# What the checksum covers, up to the key or, where there is none, up to the value.
_WITH_KEY: Final = (struct.Struct(">bbi"), struct.Struct(">bbqi"))
_WITHOUT_KEY: Final = (struct.Struct(">bbii"), struct.Struct(">bbqii"))


def to_messages(
    batch: bytes | bytearray | memoryview, magic: int, first_offset: int, limit: int
) -> Iterator[bytes]:
    """Messages of the records from `first_offset` on, unpacking at most `limit` bytes.

    Control batches give nothing. Raises NotConvertible for a codec the old formats do not have.
    """
    header = read_header(batch)
    if header.is_control or header.last_offset < first_offset or not header.record_count:
        return
    if header.codec > Codec.LZ4:
        raise NotConvertible(f"codec {header.codec} does not exist in message format {magic}")
    codec = Codec(header.codec)
    if codec is Codec.NONE:
        data, at = bytes(memoryview(batch)[: header.size]), HEADER_SIZE
    else:
        payload = memoryview(batch)[HEADER_SIZE : header.size]
        data, at = bytes(decompress(codec, payload, limit)), 0
    try:
        yield from _pieces(data, at, header, codec, magic, first_offset)
    except (IndexError, struct.error) as broken:
        raise CorruptBatch(f"a stored record is cut off: {broken}") from broken


def _pieces(
    data: bytes, at: int, header: BatchHeader, codec: Codec, magic: int, first_offset: int
) -> Iterator[bytes]:
    """The one loop that every record passes on its way to an old consumer.

    Numbers of one byte, and the usual ones of two, are read in place: calls would cost more than
    the rest. Each may be read past the record's end, as far as `data` goes: `at` only ever grows,
    so that comparing it with `end` finds every overrun before anything is made of it.
    """
    read, place = varint.read, _PLACE.pack
    with_key, without_key = _WITH_KEY[magic].pack, _WITHOUT_KEY[magic].pack
    value_size_of = legacy.VALUE_SIZE.pack
    packed = codec is not Codec.NONE
    relative = packed and magic == 1
    attributes = header.attributes & LOG_APPEND_TIME if magic else 0
    base_offset, base_ms = header.base_offset, header.base_timestamp_ms
    stamped = header.log_append_time
    time_ms = header.max_timestamp_ms
    parts: list[bytes] = []
    size = first = offset = 0
    max_ms = _LOWEST
    for _ in range(header.record_count):
        raw = data[at]
        if raw < 0x80:
            end = at + 1 + (raw >> 1)
            at += 2
        elif (high := data[at + 1]) < 0x80:
            end = at + 2 + (raw >> 1 & 0x3F | high << 6)
            at += 3
        else:
            length, at = read(data, at, len(data))
            end = at + length
            at += 1
        raw = data[at]
        if raw < 0x80:
            delta = (raw >> 1) ^ -(raw & 1)
            at += 1
        else:
            delta, at = read(data, at, end, varint.MAX_LONG_BYTES)
        if not stamped:
            time_ms = base_ms + delta
            if not _LOWEST <= time_ms <= _HIGHEST:
                time_ms = (time_ms - _LOWEST) % 2**64 + _LOWEST
        raw = data[at]
        if raw < 0x80:
            offset = base_offset + (raw >> 1)
            at += 1
        elif (high := data[at + 1]) < 0x80:
            offset = base_offset + (raw >> 1 & 0x3F | high << 6)
            at += 2
        else:
            delta, at = read(data, at, end)
            offset = base_offset + delta
        if not at < end <= len(data):
            raise CorruptBatch(f"the stored record at offset {offset} has the wrong size")
        if offset < first_offset:
            at = end
            continue

        raw = data[at]
        if raw < 0x80:
            key_size = (raw >> 1) ^ -(raw & 1)
            at += 1
        else:
            key_size, at = read(data, at, end)
        key_at = at
        if key_size > 0:
            at += key_size
        raw = data[at]
        if raw < 0x80:
            value_size = (raw >> 1) ^ -(raw & 1)
            at += 1
        elif (high := data[at + 1]) < 0x80 and not raw & 1:
            value_size = raw >> 1 & 0x3F | high << 6
            at += 2
        else:
            value_size, at = read(data, at, end)
        value = data[at : at + value_size] if value_size > 0 else b""
        if key_size < -1 or value_size < -1 or at + value_size >= end:
            raise CorruptBatch(f"the stored record at offset {offset} has the wrong size")

        if magic:
            if key_size < 0:
                body = without_key(1, attributes, time_ms, -1, value_size) + value
            else:
                body = (
                    with_key(1, attributes, time_ms, key_size)
                    + data[key_at : key_at + key_size]
                    + value_size_of(value_size)
                    + value
                )
            max_ms = max(max_ms, time_ms)
        elif key_size < 0:
            body = without_key(0, 0, -1, value_size) + value
        else:
            body = (
                with_key(0, 0, key_size)
                + data[key_at : key_at + key_size]
                + value_size_of(value_size)
                + value
            )
        if not parts:
            first = offset
        written = offset - first if relative else offset
        parts += (place(written, len(body) + 4, crc32(body)), body)
        size += len(body) + 16
        at = end
        if size >= _PIECE_BYTES:
            yield _piece(parts, offset, max_ms, codec, magic, attributes)
            parts, size, max_ms = [], 0, _LOWEST
    if parts:
        yield _piece(parts, offset, max_ms, codec, magic, attributes)


def _piece(
    parts: list[bytes], last: int, max_ms: int, codec: Codec, magic: int, attributes: int
) -> bytes:
    """The messages as they are, or in a wrapper at the offset of the last one."""
    messages = b"".join(parts)
    if codec is Codec.NONE:
        return messages
    value = compress(codec, messages)
    if magic:
        head = _WITHOUT_KEY[1].pack(1, attributes | codec, max_ms, -1, len(value))
    else:
        if codec is Codec.LZ4:
            value = legacy.with_wrong_lz4_checksum(value)
        head = _WITHOUT_KEY[0].pack(0, codec, -1, len(value))
    crc = crc32(value, crc32(head))
    return _PLACE.pack(last, len(head) + len(value) + 4, crc) + head + value
