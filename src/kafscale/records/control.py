"""Batches that the broker writes itself: they take offsets and hold no records for readers.

Here: control batches, shaped like the end of a transaction, and batches without a record, as key
compaction leaves them. Every client has learnt to pass over both.
Next door: ordinary batches (record.py).
"""

from typing import Final

from kafscale.records import batch
from kafscale.records.record import Record, build_batch

_KEY: Final = b"\0\0\0\1"  # version 0, the end of a transaction
_VALUE: Final = b"\0\0\0\0\0\0"  # version 0, coordinator epoch 0
_ATTRIBUTES_AT: Final = batch.SIGNED_FROM


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
