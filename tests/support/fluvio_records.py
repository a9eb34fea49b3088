"""Fluvio's batches, written and read one field after the other: slow, and nothing of our own."""

import gzip
import struct
from typing import NamedTuple

import cramjam
import lz4.frame
from crc32c import crc32c

NONE, GZIP, SNAPPY, LZ4, ZSTD = range(5)
_PACK = {
    NONE: bytes,
    GZIP: gzip.compress,
    SNAPPY: lambda data: bytes(cramjam.snappy.compress(data)),
    LZ4: lz4.frame.compress,
    ZSTD: lambda data: bytes(cramjam.zstd.compress(data)),
}
_HEAD = struct.Struct(">hiqqqhi")


class FluvioRecord(NamedTuple):
    key: bytes | None
    value: bytes
    time_delta: int = 0


class ReadRecord(NamedTuple):
    """A record as a client sees it: the client counts offsets by itself."""

    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes


def varint(number: int) -> bytes:
    raw = (number << 1) ^ (number >> 63)
    out = bytearray()
    while raw > 0x7F:
        out.append(raw & 0x7F | 0x80)
        raw >>= 7
    out.append(raw)
    return bytes(out)


def write_record(record: FluvioRecord, index: int) -> bytes:
    key = b"\0" if record.key is None else b"\1" + varint(len(record.key)) + record.key
    value = varint(len(record.value)) + record.value
    body = b"\0" + varint(record.time_delta) + varint(index) + key + value + b"\0"
    return varint(len(body)) + body


def write_batch(
    records: list[FluvioRecord],
    codec: int = NONE,
    first_ms: int = 1_700_000_000_000,
    *,
    attributes: int | None = None,
    payload: bytes | None = None,
    last_delta: int | None = None,
) -> bytes:
    """A batch as a client writes it, or wrong in one respect."""
    if payload is None:
        plain = struct.pack(">i", len(records))
        plain += b"".join(write_record(one, at) for at, one in enumerate(records))
        payload = _PACK[codec](plain)
    newest = first_ms + max((one.time_delta for one in records), default=0)
    signed = _HEAD.pack(
        codec if attributes is None else attributes,
        len(records) - 1 if last_delta is None else last_delta,
        first_ms, newest, -1, -1, -1,
    ) + payload  # fmt: skip
    rest = struct.pack(">ibI", -1, 2, crc32c(signed)) + signed
    return struct.pack(">qi", len(records) - 1, len(rest)) + rest


def _read_varint(data: bytes, at: int) -> tuple[int, int]:
    raw = shift = 0
    while True:
        byte = data[at]
        at += 1
        raw |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return (raw >> 1) ^ -(raw & 1), at


def read_set(data: bytes) -> tuple[list[ReadRecord], int]:
    """The records of a set as a client reads them, and the offset that it asks for next."""
    at, following = 0, -1
    found: list[ReadRecord] = []
    while at < len(data):
        base, length, _, magic, crc = struct.unpack_from(">qiibI", data, at)
        end = at + 12 + length
        assert magic == 2
        assert crc == crc32c(data[at + 21 : end])
        attributes, last_delta, first_ms, *_ = _HEAD.unpack_from(data, at + 21)
        assert attributes == 0
        assert base == following or following == -1, "a client would miss offsets"
        following = base + last_delta + 1
        at += 21 + _HEAD.size
        (count,) = struct.unpack_from(">i", data, at)
        at += 4
        for index in range(count):
            record, at = _read_record(data, at, base + index, first_ms, index)
            found.append(record)
        assert at == end
    return found, following


def _read_record(
    data: bytes, at: int, offset: int, first_ms: int, index: int
) -> tuple[ReadRecord, int]:
    size, at = _read_varint(data, at)
    end = at + size
    time_delta, at = _read_varint(data, at + 1)
    delta, at = _read_varint(data, at)
    assert delta == index
    key = None
    tag, at = data[at], at + 1
    assert tag in (0, 1)
    if tag:
        size, at = _read_varint(data, at)
        key, at = data[at : at + size], at + size
    size, at = _read_varint(data, at)
    assert size >= 0
    value, at = data[at : at + size], at + size
    assert data[at] == 0
    assert at + 1 == end
    return ReadRecord(offset, first_ms + time_delta, key, value), end
