"""A physical partition's state as bytes, so that it need not be read from the log's beginning.

A checkpoint says how far it has read. What came later is read from the log; what went away before
that is known from here alone. So a checkpoint is never older than the oldest record.
Next door: the state (lanes.py), where checkpoints are kept (upstream/ledger.py).
"""

import zlib
from typing import Final

import msgspec

from kafscale.log.formats.producers import ProducerSnapshot, ProducerTable
from kafscale.model.errors import KafscaleError
from kafscale.proxy.state.lanes import PhysicalLog, VirtualLane
from kafscale.proxy.state.tags import TaggedProducer

VERSION: Final = 1
_MOST_BYTES: Final = 64 << 20
PRODUCER_LIFE_MS: Final = 24 * 3600 * 1000  # as Kafka's producer.id.expiration.ms


class UnreadableCheckpoint(KafscaleError):
    """The bytes are no checkpoint of a version that is known here."""


class LaneState(msgspec.Struct, array_like=True):
    """One lane."""

    number: int
    start: int
    next: int
    marks: list[tuple[int, int, int, int]]
    producers: list[ProducerSnapshot]


class LaneCheckpoint(msgspec.Struct, array_like=True):
    """All lanes of a physical partition."""

    version: int
    start_place: int
    next_place: int
    lanes: list[LaneState]
    numbers: list[tuple[int, int, int]]


def write_checkpoint(log: PhysicalLog, now_ms: int) -> bytes:
    """What must be kept of a state; producers that were silent for a day are left out."""
    rows = []
    for number, lane in log.lanes.items():
        if lane.producers is not None:
            lane.producers.expire(now_ms - PRODUCER_LIFE_MS)
        producers = [] if lane.producers is None else lane.producers.snapshot(lane.next)
        rows.append(LaneState(number, lane.start, lane.next, lane.marks, producers))
    numbers = [(number, *producer) for number, producer in log.numbers.items()]
    checkpoint = LaneCheckpoint(VERSION, log.start_place, log.next_place, rows, numbers)
    return zlib.compress(msgspec.msgpack.encode(checkpoint), 1)


def read_checkpoint(data: bytes) -> PhysicalLog:
    """The state that a checkpoint describes. Raises UnreadableCheckpoint."""
    try:
        unpacking = zlib.decompressobj()
        packed = unpacking.decompress(data, _MOST_BYTES)
        if not unpacking.eof:
            raise UnreadableCheckpoint("not a whole checkpoint")
        found = msgspec.msgpack.decode(packed, type=LaneCheckpoint)
    except (zlib.error, msgspec.DecodeError, msgspec.ValidationError) as problem:
        raise UnreadableCheckpoint(f"not a checkpoint: {problem}") from None
    if found.version != VERSION:
        raise UnreadableCheckpoint(f"a checkpoint of version {found.version}")
    log = PhysicalLog()
    for row in found.lanes:
        lane = log.lanes[row.number] = VirtualLane(row.next)
        lane.start = row.start
        for mark in row.marks:
            lane.put(*mark)
        if row.producers:
            lane.producers = ProducerTable()
            lane.producers.restore(row.producers)
    for number, producer_id, epoch in found.numbers:
        log.define(number, TaggedProducer(producer_id, epoch))
    log.go_on(found.start_place, found.next_place)
    return log
