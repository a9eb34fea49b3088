"""A few Kafka frames by hand, with nothing but struct.

In this room: requests a test or benchmark sends over its own socket, independent of the codec
under test: ApiVersions v0, Produce v7, Fetch v11, record batches.
Never here: a client with retries, metadata or state.
"""

import socket
import struct
from collections.abc import Iterator
from typing import NamedTuple

import crc32c

PRODUCE, FETCH, API_VERSIONS = 0, 1, 18
PRODUCE_VERSION, FETCH_VERSION = 7, 11


def string(text: str | None) -> bytes:
    if text is None:
        return b"\xff\xff"
    raw = text.encode()
    return struct.pack(">h", len(raw)) + raw


def frame(api: int, version: int, correlation_id: int, body: bytes, client: str = "raw") -> bytes:
    """A whole request with the non-flexible header (v1)."""
    head = struct.pack(">hhi", api, version, correlation_id) + string(client)
    return struct.pack(">i", len(head) + len(body)) + head + body


def read_exactly(sock: socket.socket, count: int) -> bytes:
    parts = bytearray()
    while len(parts) < count:
        part = sock.recv(min(count - len(parts), 1 << 20))
        if not part:
            raise ConnectionError("the broker closed the connection")
        parts += part
    return bytes(parts)


def read_answer(sock: socket.socket) -> tuple[int, bytes]:
    """The next answer: correlation id and body."""
    (size,) = struct.unpack(">i", read_exactly(sock, 4))
    answer = read_exactly(sock, size)
    return struct.unpack_from(">i", answer)[0], answer[4:]


def answers(port: int, timeout_s: float = 2.0) -> bool:
    """Whether a broker on this port answers ApiVersions without an error."""
    try:
        with socket.create_connection(("127.0.0.1", port), timeout_s) as sock:
            sock.settimeout(timeout_s)
            sock.sendall(frame(API_VERSIONS, 0, 1, b""))
            _, body = read_answer(sock)
    except OSError:
        return False
    return bool(struct.unpack_from(">h", body)[0] == 0)


def varint(number: int) -> bytes:
    number = (number << 1) ^ (number >> 63)
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def batch(values: list[bytes], timestamp_ms: int) -> bytes:
    """One uncompressed v2 batch without keys and headers, from no particular producer."""
    records = bytearray()
    for delta, value in enumerate(values):
        body = b"\0\0" + varint(delta) + varint(-1) + varint(len(value)) + value + b"\0"
        records += varint(len(body)) + body
    signed = struct.pack(
        ">hiqqqhii", 0, len(values) - 1, timestamp_ms, timestamp_ms, -1, -1, -1, len(values)
    ) + bytes(records)
    crc = crc32c.crc32c(signed)
    return struct.pack(">qiibI", 0, len(signed) + 9, -1, 2, crc) + signed


def produce(topic: str, partition: int, records: bytes, acks: int, correlation_id: int) -> bytes:
    body = (
        string(None)
        + struct.pack(">hi", acks, 30_000)
        + struct.pack(">i", 1)
        + string(topic)
        + struct.pack(">iii", 1, partition, len(records))
        + records
    )
    return frame(PRODUCE, PRODUCE_VERSION, correlation_id, body)


def produce_error(body: bytes) -> tuple[int, int]:
    """Error code and base offset of an answer that names one partition."""
    (name,) = struct.unpack_from(">h", body, 4)
    _, error, base = struct.unpack_from(">ihq", body, 4 + 2 + name + 4)
    return int(error), int(base)


def fetch(
    topic: str,
    partition: int,
    offset: int,
    correlation_id: int,
    max_bytes: int = 1 << 20,
    *,
    isolation: int = 0,
) -> bytes:
    body = (
        struct.pack(">iiiib", -1, 500, 1, 50 << 20, isolation)
        + struct.pack(">ii", 0, -1)  # no fetch session
        + struct.pack(">i", 1)
        + string(topic)
        + struct.pack(">iiiqqi", 1, partition, -1, offset, -1, max_bytes)
        + struct.pack(">i", 0)  # nothing forgotten
        + string("")
    )
    return frame(FETCH, FETCH_VERSION, correlation_id, body)


def fetched(body: bytes | memoryview) -> tuple[int, int, memoryview]:
    """Error code, high watermark and record bytes of an answer that names one partition."""
    error, _, topics = struct.unpack_from(">hii", body, 4)
    if error or not topics:
        return int(error), -1, memoryview(b"")
    (name,) = struct.unpack_from(">h", body, 14)
    at = 16 + name + 4
    _, error, high, _, _, aborted = struct.unpack_from(">ihqqqi", body, at)
    at += 34 + max(aborted, 0) * 16 + 4  # preferred read replica
    (size,) = struct.unpack_from(">i", body, at)
    return int(error), int(high), memoryview(body)[at + 4 : at + 4 + max(size, 0)]


def last_stable(body: bytes) -> int:
    """Up to where outcomes are known, of an answer without an error that names one partition."""
    (name,) = struct.unpack_from(">h", body, 14)
    return int(struct.unpack_from(">q", body, 16 + name + 4 + 14)[0])


class Batch(NamedTuple):
    base_offset: int
    next_offset: int
    codec: int
    size_bytes: int
    producer_id: int
    base_sequence: int


def batches(records: memoryview) -> Iterator[Batch]:
    """The whole batches in fetched bytes; a piece of one at the end is left out."""
    at = 0
    while at + 61 <= len(records):
        base, length = struct.unpack_from(">qi", records, at)
        if at + 12 + length > len(records):
            return
        attributes, last_delta = struct.unpack_from(">hi", records, at + 21)
        producer_id, _, sequence = struct.unpack_from(">qhi", records, at + 43)
        next_offset = base + last_delta + 1
        yield Batch(base, next_offset, attributes & 7, 12 + length, producer_id, sequence)
        at += 12 + length
