"""Batches that the broker writes itself: they take offsets and hold no records for readers.

Here: control batches, shaped like the end of a transaction; markers, which are the end of one; and
batches without a record, as key compaction leaves them. Every client has learnt to pass over all.
Next door: ordinary batches (record.py).
"""

import struct
from typing import Final, NamedTuple

from kafscale.model.errors import CorruptBatch
from kafscale.records import batch
from kafscale.records.record import Record, build_batch

_KEY: Final = b"\0\0\0\1"  # version 0, the end of a transaction
_VALUE: Final = b"\0\0\0\0\0\0"  # version 0, coordinator epoch 0
_ATTRIBUTES_AT: Final = batch.SIGNED_FROM
_MARKER: Final = batch.CONTROL | batch.TRANSACTIONAL
_MARKER_KEY: Final = struct.Struct(">hh")  # version, type
_MARKER_VALUE: Final = struct.Struct(">hi")  # version, coordinator epoch
_ABORT, _COMMIT = 0, 1
# Of a marker's one record: length, attributes, two deltas and the length of the key take a byte
# each. After the key comes a byte with the length of the value.
_MARKER_KEY_AT: Final = batch.HEADER_SIZE + 5
_MARKER_VALUE_AT: Final = _MARKER_KEY_AT + _MARKER_KEY.size + 1
_MARKER_SIZE: Final = _MARKER_VALUE_AT + _MARKER_VALUE.size + 1


def control_batch(timestamp_ms: int, producer_id: int = -1) -> bytearray:
    """A batch of one control record, the first and only one of its producer if there is one."""
    record = Record(0, timestamp_ms, _KEY, _VALUE)
    number = -1 if producer_id < 0 else 0
    made = bytearray(
        build_batch(
            [record],
            base_offset=0,
            producer_id=producer_id,
            producer_epoch=number,
            base_sequence=number,
        )
    )
    made[_ATTRIBUTES_AT : _ATTRIBUTES_AT + 2] = batch.CONTROL.to_bytes(2, "big")
    batch.sign(made)
    return made


class Marker(NamedTuple):
    """What the marker of a transaction says: how it ended, and the transaction's number."""

    committed: bool
    turn: int


def marker_batch(
    producer_id: int, epoch: int, turn: int, timestamp_ms: int, *, committed: bool
) -> bytearray:
    """The end of a producer's transaction. `turn` takes the place of Kafka's coordinator epoch."""
    key = _MARKER_KEY.pack(0, _COMMIT if committed else _ABORT)
    record = Record(0, timestamp_ms, key, _MARKER_VALUE.pack(0, turn))
    made = bytearray(
        build_batch(
            [record],
            base_offset=0,
            producer_id=producer_id,
            producer_epoch=epoch,
            base_sequence=-1,
        )
    )
    made[_ATTRIBUTES_AT : _ATTRIBUTES_AT + 2] = _MARKER.to_bytes(2, "big")
    batch.sign(made)
    return made


def is_marker(header: batch.BatchHeader) -> bool:
    """Whether a batch is the end of a transaction."""
    return header.attributes & _MARKER == _MARKER


def read_marker(data: bytes | bytearray | memoryview, at: int = 0) -> Marker:
    """What the marker at `at` says."""
    if len(data) - at < _MARKER_SIZE:
        raise CorruptBatch("a marker is cut off")
    _, kind = _MARKER_KEY.unpack_from(data, at + _MARKER_KEY_AT)
    _, turn = _MARKER_VALUE.unpack_from(data, at + _MARKER_VALUE_AT)
    if kind not in (_ABORT, _COMMIT):
        raise CorruptBatch(f"a marker of the unknown type {kind}")
    return Marker(kind == _COMMIT, turn)


def empty_batch(first: int, last: int, timestamp_ms: int, leader_epoch: int) -> bytearray:
    """A batch without records for the offsets from `first` to `last`, 2^31 of them at most."""
    header = batch.BatchHeader(
        base_offset=first,
        batch_length=batch.MIN_BATCH_LENGTH,
        leader_epoch=leader_epoch,
        magic=2,
        crc=0,
        attributes=0,
        last_offset_delta=last - first,
        base_timestamp_ms=timestamp_ms,
        max_timestamp_ms=timestamp_ms,
        producer_id=-1,
        producer_epoch=-1,
        base_sequence=-1,
        record_count=0,
    )
    made = bytearray(batch.HEADER.pack(*header))
    batch.sign(made)
    return made
