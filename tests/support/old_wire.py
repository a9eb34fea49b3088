"""Message sets of formats 0 and 1 by hand, with nothing but struct.

In this room: messages, wrappers, Produce v0-2 and Fetch v0-3, independent of the code under test.
Next door: the same for format 2 (wire.py).
"""

import gzip
import struct
import zlib
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import cramjam
import lz4.frame

from tests.support import wire

NONE, GZIP, SNAPPY, LZ4 = range(4)
CODECS = {"none": NONE, "gzip": GZIP, "snappy": SNAPPY, "lz4": LZ4}
APPEND_TIME = 8


class Old(NamedTuple):
    """A message as a consumer of old sees it."""

    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None


def sized(data: bytes | None) -> bytes:
    return struct.pack(">i", -1) if data is None else struct.pack(">i", len(data)) + data


def message(
    magic: int,
    key: bytes | None = b"k",
    value: bytes | None = b"v",
    *,
    offset: int = 0,
    timestamp_ms: int = -1,
    attributes: int = 0,
) -> bytes:
    signed = struct.pack(">bb", magic, attributes)
    if magic:
        signed += struct.pack(">q", timestamp_ms)
    return forged(signed + sized(key) + sized(value), offset)


def forged(signed: bytes, offset: int = 0, size: int | None = None) -> bytes:
    """A message of these bytes from the magic on, with the right checksum and any size."""
    length = len(signed) + 4 if size is None else size
    return struct.pack(">qiI", offset, length, zlib.crc32(signed)) + signed


def plain(rows: Sequence[Old], magic: int) -> bytes:
    return b"".join(
        message(magic, row.key, row.value, offset=row.offset, timestamp_ms=row.timestamp_ms)
        for row in rows
    )


def pack(codec: int, data: bytes) -> bytes:
    """Not the way the broker packs: its own ways are not to be tested by themselves."""
    if codec == GZIP:
        return gzip.compress(data, 1)
    if codec == SNAPPY:
        return bytes(memoryview(cramjam.snappy.compress_raw(data)))  # as librdkafka: no framing
    if codec == LZ4:
        return bytes(lz4.frame.compress(data))
    return data


def wrapper(
    magic: int,
    inside: bytes,
    codec: int,
    *,
    offset: int = 0,
    timestamp_ms: int = -1,
    attributes: int = 0,
) -> bytes:
    return message(
        magic,
        None,
        pack(codec, inside),
        offset=offset,
        timestamp_ms=timestamp_ms,
        attributes=attributes | codec,
    )


# -- requests --------------------------------------------------------------------------------


def produce(topic: str, records: bytes, version: int, correlation_id: int = 1) -> bytes:
    body = struct.pack(">hii", -1, 30_000, 1) + wire.string(topic)
    body += struct.pack(">iii", 1, 0, len(records)) + records
    return wire.frame(wire.PRODUCE, version, correlation_id, body)


def fetch(
    topic: str, offset: int, version: int, correlation_id: int = 1, max_bytes: int = 1 << 20
) -> bytes:
    body = struct.pack(">iii", -1, 500, 1)
    if version == 3:
        body += struct.pack(">i", 50 << 20)
    body += struct.pack(">i", 1) + wire.string(topic)
    body += struct.pack(">iiqi", 1, 0, offset, max_bytes)
    return wire.frame(wire.FETCH, version, correlation_id, body)


def fetched(body: bytes | memoryview, version: int) -> tuple[int, int, memoryview]:
    """Error code, high watermark and message set of an answer that names one partition."""
    at = 4 if version else 0
    (name,) = struct.unpack_from(">h", body, at + 4)
    at += 6 + name + 4
    _, error, high, size = struct.unpack_from(">ihqi", body, at)
    return int(error), int(high), memoryview(body)[at + 18 : at + 18 + size]


def shallow(records: bytes | memoryview) -> Iterator[tuple[int, int, int]]:
    """Offset, magic and codec of each message, without looking into wrappers."""
    at = 0
    while at < len(records):
        offset, size = struct.unpack_from(">qi", records, at)
        yield offset, records[at + 16], records[at + 17] & 7
        at += 12 + size
