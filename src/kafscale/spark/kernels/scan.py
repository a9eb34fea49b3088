"""Batch headers as columns.

Here: stepping through a run of stored batches, and reading all their headers at once.
Next door: the same for one header at a time (records/batch.py).
Never here: what lies behind the headers.
"""

import struct
from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt
from crc32c import crc32c

from kafscale.records import batch
from kafscale.spark.kernels.arrays import BoolArray, ByteArray, LongArray

HeaderTable = npt.NDArray[np.void]

# The header as it lies in the bytes, field by field the struct of records/batch.py.
STORED: Final = np.dtype(
    [
        ("base_offset", ">i8"),
        ("batch_length", ">i4"),
        ("leader_epoch", ">i4"),
        ("magic", "i1"),
        ("crc", ">u4"),
        ("attributes", ">i2"),
        ("last_offset_delta", ">i4"),
        ("base_timestamp_ms", ">i8"),
        ("max_timestamp_ms", ">i8"),
        ("producer_id", ">i8"),
        ("producer_epoch", ">i2"),
        ("base_sequence", ">i4"),
        ("record_count", ">i4"),
    ]
)
assert STORED.itemsize == batch.HEADER_SIZE

_ROW: Final = np.arange(batch.HEADER_SIZE)
_length_at: Final = struct.Struct(">i").unpack_from


class Walk(NamedTuple):
    """Where the whole batches begin, where they stop, and why, if not for want of bytes."""

    positions: list[int]
    stop: int
    problem: str = ""


class BatchHeaders(NamedTuple):
    """The headers of a run of batches, one row each."""

    positions: LongArray
    table: HeaderTable

    def column(self, name: str) -> LongArray:
        """One field of all headers, by its name in records.batch.BatchHeader."""
        return self.table[name].astype(np.int64)

    @property
    def sizes(self) -> LongArray:
        """Bytes of each batch, header included."""
        return self.column("batch_length") + batch.LENGTH_PREFIX

    @property
    def last_offsets(self) -> LongArray:
        """The last offset of each batch, whether or not a record with it is left."""
        return self.column("base_offset") + self.column("last_offset_delta")

    @property
    def codecs(self) -> LongArray:
        """The numbers of the codecs; some may be unknown."""
        return self.column("attributes") & batch.CODEC_MASK

    def flagged(self, mask: int) -> BoolArray:
        """Which batches have this attribute (CONTROL, LOG_APPEND_TIME, ...)."""
        flags: BoolArray = (self.column("attributes") & mask) != 0
        return flags


def aborted(headers: BatchHeaders, ranges: Sequence[tuple[int, int, int]]) -> BoolArray:
    """Which batches belong to aborted transactions: producer, first offset, marker's offset."""
    producers, bases = headers.column("producer_id"), headers.column("base_offset")
    found: BoolArray = np.zeros(len(bases), np.bool_)
    for producer, first, last in ranges:
        found |= (producers == producer) & (bases >= first) & (bases < last)
    return found & headers.flagged(batch.TRANSACTIONAL)


def walk(data: memoryview, start: int, end: int) -> Walk:
    """Step from batch to batch; stops before one that is cut off or whose length cannot be."""
    positions: list[int] = []
    at = start
    while at + batch.LENGTH_PREFIX <= end:
        length: int = _length_at(data, at + 8)[0]
        if length < batch.MIN_BATCH_LENGTH:
            return Walk(positions, at, f"a batch length of {length}")
        after = at + batch.LENGTH_PREFIX + length
        if after > end:
            break
        positions.append(at)
        at = after
    return Walk(positions, at)


def read_headers(data: ByteArray, positions: list[int]) -> BatchHeaders:
    """Read the headers at these positions, which `walk` found."""
    at = np.array(positions, np.int64)
    rows = data[at[:, None] + _ROW]
    return BatchHeaders(at, rows.view(STORED)[:, 0])


def crc_is_right(data: memoryview, position: int, size: int, claimed: int) -> bool:
    """Whether the batch's signed bytes are those that were signed."""
    return crc32c(data[position + batch.SIGNED_FROM : position + size]) == claimed
