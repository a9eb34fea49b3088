"""Control batches of our own: offsets that are taken and hold nothing for anybody.

Here: one kind, shaped like the end of a transaction, which every client has learnt to pass over.
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
