"""The ceiling: prepared frames over one socket, so that no client library hides the broker.

In this room: pipelined Produce and Fetch, written with struct (tests/support/wire.py).
"""

import socket
import ssl
import struct
from collections.abc import Sequence
from contextlib import AbstractContextManager
from itertools import cycle, islice

from benchmarks import run
from tests.support import wire

BATCH_BYTES = 256 * 1024
IN_FLIGHT = 8
FETCH_BYTES = 1 << 20
SETTINGS = (
    f"raw: one socket, prepared batches of {BATCH_BYTES // 1024} KiB, {IN_FLIGHT} produce requests "
    f"in flight, acks=all; one fetch of {FETCH_BYTES >> 20} MiB in flight per partition"
)


def produce(
    meter: AbstractContextManager[object],
    port: int,
    topic: str,
    partitions: int,
    values: Sequence[bytes],
    count: int,
    tls: ssl.SSLContext | None = None,
) -> int:
    """Write at least `count` records, their values taken in turn; how many it were."""
    mean_bytes = sum(map(len, values)) // len(values)
    batch_values = list(islice(cycle(values), max(1, BATCH_BYTES // mean_bytes)))
    per_batch = len(batch_values)
    records = wire.batch(batch_values, timestamp_ms=run.NOW_MS)
    frames = [wire.produce(topic, p, records, -1, p) for p in range(partitions)]
    total = -(-count // per_batch)
    with _connect(port, tls) as sock, meter:
        for number in range(total + IN_FLIGHT):
            if number >= IN_FLIGHT:
                error, _ = wire.produce_error(wire.read_answer(sock)[1])
                if error:
                    raise RuntimeError(f"produce answered error {error}")
            if number < total:
                sock.sendall(frames[number % partitions])
    return total * per_batch


def fetch(
    meter: AbstractContextManager[object],
    port: int,
    topic: str,
    partitions: int,
    least_bytes: int,
    count: int,
    tls: ssl.SSLContext | None = None,
) -> None:
    """Read until `count` records of `least_bytes` or more have passed by."""
    buffer = bytearray(FETCH_BYTES * 4)
    at, seen_bytes = dict.fromkeys(range(partitions), 0), 0
    with _connect(port, tls) as sock, meter:
        for partition in at:
            sock.sendall(wire.fetch(topic, partition, 0, partition, FETCH_BYTES))
        while sum(at.values()) < count:
            partition, body = _answer(sock, buffer)
            error, high, records = wire.fetched(body)
            if error:
                raise RuntimeError(f"fetch answered error {error}")
            for batch in wire.batches(records):
                at[partition] = batch.next_offset
                seen_bytes += batch.size_bytes
            if at[partition] < high:
                ask = wire.fetch(topic, partition, at[partition], partition, FETCH_BYTES)
                sock.sendall(ask)
    if seen_bytes < count * least_bytes:
        raise RuntimeError(f"{count} records came in {seen_bytes} bytes: something was left out")


def _connect(port: int, tls: ssl.SSLContext | None) -> socket.socket:
    sock = socket.create_connection(("127.0.0.1", port), 30)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return sock if tls is None else tls.wrap_socket(sock, server_hostname="localhost")


def _answer(sock: socket.socket, buffer: bytearray) -> tuple[int, memoryview]:
    """The next answer, read into the one buffer: copies would be the client's cost, not theirs."""
    (size,) = struct.unpack(">i", wire.read_exactly(sock, 4))
    if size > len(buffer):
        raise RuntimeError(f"an answer of {size} bytes to a fetch of {FETCH_BYTES}")
    view = memoryview(buffer)[:size]
    filled = 0
    while filled < size:
        count = sock.recv_into(view[filled:])
        if not count:
            raise ConnectionError("the broker closed the connection")
        filled += count
    return struct.unpack_from(">i", view)[0], view[4:]
