"""What the old message formats cost: records per CPU-second of the broker, both ways.

In this room: the conversion by itself, and whole requests of old versions over one socket.
Next door: format 2, which no broker converts (raw.py).
"""

import socket
import time
from collections.abc import Iterator

from benchmarks import clients, run
from benchmarks.meter import Cost, Meter
from benchmarks.workloads import Figure
from kafscale.records import legacy_down, legacy_up
from kafscale.records.validation import BatchLimits
from tests.support import old_wire, wire
from tests.support.broker import KafscaleProcess

PER_SET = 500
VALUE_BYTES = 100
IN_FLIGHT = 4
UNIT = "records/CPU-s"
NAME = "old formats"
SETTINGS = (
    f"{NAME}: sets of {PER_SET} messages of {VALUE_BYTES} bytes with keys; rates are records per "
    "CPU-second of the broker: conversion alone, then whole requests on one socket, "
    f"{IN_FLIGHT} produce requests in flight"
)
_LARGEST = 1 << 27
# Request version and message format, as clients of 0.9 and of 0.10 pair them.
_PRODUCE, _FETCH = ((1, 0), (2, 1)), ((1, 0), (3, 1))


def figures(count: int) -> Iterator[Figure]:
    """Each figure over about `count` records."""
    for magic in (0, 1):
        for codec in ("none", "gzip", "lz4"):
            yield from _alone(magic, codec, count)
    with KafscaleProcess() as broker:
        for codec in ("none", "gzip"):
            for version, magic in _PRODUCE:
                cost = _produce(broker, version, magic, codec, count)
                yield _figure(f"produce v{version}, format {magic}, {codec}", cost, count)
            for version, magic in _FETCH:
                cost = _fetch(broker, version, magic, codec, count)
                yield _figure(f"fetch v{version}, format {magic}, {codec}", cost, count)


def _set(magic: int, codec: str) -> bytes:
    rows = [
        old_wire.Old(
            n, run.NOW_MS + n // 10, b"key %04d" % n, (b"value %d " % n).ljust(VALUE_BYTES)
        )
        for n in range(PER_SET)
    ]
    messages = old_wire.plain(rows, magic)
    number = old_wire.CODECS[codec]
    return old_wire.wrapper(magic, messages, number) if number else messages


def _alone(magic: int, codec: str, count: int) -> Iterator[Figure]:
    limits = BatchLimits(1 << 20, 1 << 30, _LARGEST)
    records, rounds = _set(magic, codec), max(1, count // PER_SET)
    began = time.process_time()
    for _ in range(rounds):
        (batch,) = legacy_up.to_batches(records, limits, run.NOW_MS)
    up_s = time.process_time() - began
    began = time.process_time()
    for _ in range(rounds):
        list(legacy_down.to_messages(batch, magic, 0, _LARGEST))
    down_s = time.process_time() - began
    done = rounds * PER_SET
    yield Figure(f"{NAME} up from {magic}, {codec}", UNIT, done / up_s)
    yield Figure(f"{NAME} down to {magic}, {codec}", UNIT, done / down_s)


def _produce(broker: KafscaleProcess, version: int, magic: int, codec: str, count: int) -> Cost:
    topic, records = f"old-{codec}-{magic}", _set(magic, codec)
    frame, total = old_wire.produce(topic, records, version), -(-count // PER_SET)
    clients.create_topic(broker.bootstrap, topic, 1)
    meter = Meter(broker)
    with _connect(broker.port) as sock, meter:
        for number in range(total + IN_FLIGHT):
            if number >= IN_FLIGHT:
                error, _ = wire.produce_error(wire.read_answer(sock)[1])
                if error:
                    raise RuntimeError(f"produce answered error {error}")
            if number < total:
                sock.sendall(frame)
    return meter.cost


def _fetch(broker: KafscaleProcess, version: int, magic: int, codec: str, count: int) -> Cost:
    topic, at = f"old-{codec}-{magic}", 0
    meter = Meter(broker)
    with _connect(broker.port) as sock, meter:
        while at < count:
            sock.sendall(old_wire.fetch(topic, at, version))
            error, _, records = old_wire.fetched(wire.read_answer(sock)[1], version)
            if error:
                raise RuntimeError(f"fetch answered error {error}")
            at = max(offset for offset, _, _ in old_wire.shallow(records)) + 1
    return meter.cost


def _figure(name: str, cost: Cost, count: int) -> Figure:
    return Figure(
        f"{NAME} {name}",
        UNIT,
        count / cost.broker_cpu_s,
        cpu_s_per_gb=cost.broker_cpu_s / (count * VALUE_BYTES / 1e9),
        peak_rss_mb=cost.peak_rss_mb,
        client_cpu_share=cost.client_cpu_s / cost.wall_s,
    )


def _connect(port: int) -> socket.socket:
    sock = socket.create_connection(("127.0.0.1", port), 30)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return sock
