"""Bytes that are wrong in one way each, with nothing but struct."""

import struct
import time

import crc32c

from tests.support.wire import batch, string, varint

NOW_MS = int(time.time() * 1000)
PRODUCE, FETCH, LIST_OFFSETS, METADATA = 0, 1, 2, 3
API_VERSIONS, CREATE_TOPICS, DELETE_TOPICS, INIT_PRODUCER_ID = 18, 19, 20, 22

_SIGNED = struct.Struct(">hiqqqhii")
_FIELDS = (
    "attributes",
    "last_offset_delta",
    "base_ms",
    "max_ms",
    "producer_id",
    "producer_epoch",
    "base_sequence",
    "record_count",
)


def record(
    delta: int = 0, key: bytes | None = None, value: bytes = b"v", headers: bytes = b"\0"
) -> bytes:
    """One record; `headers` is everything after the value."""
    keyed = varint(-1) if key is None else varint(len(key)) + key
    body = b"\0\0" + varint(delta) + keyed + varint(len(value)) + value + headers
    return varint(len(body)) + body


def forged(payload: bytes, count: int = 1, **changed: int) -> bytes:
    """A batch of these record bytes with a right checksum and any header one likes."""
    fields = dict(zip(_FIELDS, (0, count - 1, NOW_MS, NOW_MS, -1, -1, -1, count), strict=True))
    magic, length = changed.pop("magic", 2), changed.pop("length", None)
    fields |= changed
    signed = _SIGNED.pack(*fields.values()) + payload
    crc = crc32c.crc32c(signed)
    size = len(signed) + 9 if length is None else length
    return struct.pack(">qiibI", 0, size, -1, magic, crc) + signed


def good(*values: bytes) -> bytes:
    return batch(list(values) or [b"v"], NOW_MS)


def produce_body(
    rows: list[tuple[str, int, bytes | None]],
    *,
    acks: int = -1,
    timeout_ms: int = 10_000,
    transactional_id: str | None = None,
    version: int = 7,
) -> bytes:
    """A produce request, versions 0 to 8, each row its own topic entry."""
    out = string(transactional_id) if version >= 3 else b""
    out += struct.pack(">hii", acks, timeout_ms, len(rows))
    for topic, partition, records in rows:
        out += string(topic) + struct.pack(">ii", 1, partition)
        out += struct.pack(">i", -1) if records is None else struct.pack(">i", len(records))
        out += records or b""
    return out


def fetch_body(
    topic: str,
    offset: int,
    *,
    partition: int = 0,
    max_bytes: int = 1 << 20,
    partition_bytes: int = 1 << 20,
    max_wait_ms: int = 100,
    min_bytes: int = 1,
    session: tuple[int, int] = (0, -1),
    leader_epoch: int = -1,
) -> bytes:
    """A fetch request, version 11."""
    return (
        struct.pack(">iiiib", -1, max_wait_ms, min_bytes, max_bytes, 0)
        + struct.pack(">ii", *session)
        + struct.pack(">i", 1)
        + string(topic)
        + struct.pack(">iiiqqi", 1, partition, leader_epoch, offset, -1, partition_bytes)
        + struct.pack(">i", 0)
        + string("")
    )


def create_body(
    name: str,
    *,
    partitions: int = 1,
    replication: int = 1,
    configs: dict[str, str] | None = None,
) -> bytes:
    """A request to create one topic, version 1."""
    rows = (configs or {}).items()
    return (
        struct.pack(">i", 1)
        + string(name)
        + struct.pack(">ihi", partitions, replication, 0)
        + struct.pack(">i", len(rows))
        + b"".join(string(key) + string(value) for key, value in rows)
        + struct.pack(">ib", 10_000, 0)
    )


def created(body: bytes) -> tuple[int, str]:
    """Error code and message of an answer that names one topic, version 1."""
    (name,) = struct.unpack_from(">h", body, 4)
    code, length = struct.unpack_from(">hh", body, 6 + name)
    return int(code), body[10 + name : 10 + name + max(length, 0)].decode()
