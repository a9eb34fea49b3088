"""Batches opened a few megabytes at a time: where their records lie, their keys and their places.

Here: unpacking and finding positions, for jobs that look into records without making rows of them.
Next door: the kernels that find positions (spark/kernels), choosing records
(compaction/key_compaction.py), judging them (checking/checks.py).
"""

from collections.abc import Iterator
from typing import Final, NamedTuple

import numpy as np

from kafscale.model.errors import CorruptBatch
from kafscale.records import batch
from kafscale.records.compression import Codec, decompress
from kafscale.spark.kernels import scan
from kafscale.spark.kernels.arrays import ByteArray, LongArray
from kafscale.spark.kernels.positions import PositionFinder, Positions, Regions

SLICE_BYTES: Final = 4 << 20
LARGEST_BATCH: Final = 512 << 20


class OpenedBatches(NamedTuple):
    """Some neighbouring batches, opened. Positions hold until the next slice is asked for."""

    rows: range  # which batches of the run
    headers: scan.BatchHeaders  # of these batches
    buffer: ByteArray  # in which the unpacked records lie
    regions: Regions
    positions: Positions

    def keys(self) -> list[bytes | None]:
        """The key of every record."""
        data = self.buffer.tobytes()
        places = self.positions.keys.tolist()
        keys: list[bytes | None] = [
            data[start:end] for start, end in zip(places[0::2], places[1::2], strict=True)
        ]
        for row in np.flatnonzero(self.positions.key_nulls).tolist():
            keys[row] = None
        return keys


def slices(
    data: memoryview, headers: scan.BatchHeaders, finder: PositionFinder
) -> Iterator[OpenedBatches]:
    """Open all batches; raises CorruptBatch or BrokenRegion for what cannot be opened.

    Control batches hold no records of producers: they are given as if they were empty.
    """
    view = np.frombuffer(data, np.uint8)
    total = len(headers.positions)
    ends = headers.positions + headers.sizes
    at = 0
    while at < total:
        until = int(np.searchsorted(ends, headers.positions[at] + SLICE_BYTES, side="right"))
        until = max(at + 1, until)
        some = scan.BatchHeaders(headers.positions[at:until], headers.table[at:until])
        if some.codecs.any():
            yield from _packed(data, some, at, finder)
        else:
            begin, end = int(headers.positions[at]), int(ends[until - 1])
            starts = some.positions - (begin - batch.HEADER_SIZE)
            # The compiled finder needs memory of its own; the copy stays in the cache.
            buffer = view[begin:end].copy()
            yield _slice(range(at, until), some, buffer, starts, ends[at:until] - begin, finder)
        at = until


def _packed(
    data: memoryview, some: scan.BatchHeaders, at: int, finder: PositionFinder
) -> Iterator[OpenedBatches]:
    """Unpack batch after batch; a slice is complete when enough has come together."""
    pieces: list[bytes | memoryview] = []
    begun = size = 0
    places = zip(some.positions.tolist(), some.sizes.tolist(), some.codecs.tolist(), strict=True)
    for row, (position, length, codec) in enumerate(places):
        payload = data[position + batch.HEADER_SIZE : position + length]
        piece = unpack(codec, payload)
        if pieces and size + len(piece) > SLICE_BYTES:
            yield _joined(some, at, begun, row, pieces, finder)
            pieces, begun, size = [], row, 0
        pieces.append(piece)
        size += len(piece)
    yield _joined(some, at, begun, len(some.positions), pieces, finder)


def unpack(codec: int, payload: memoryview) -> bytes | memoryview:
    """A batch's records as they lie one after the other; an empty batch has none to unpack."""
    if codec > Codec.ZSTD:
        raise CorruptBatch(f"codec {codec} is not known")
    if not codec or not len(payload):
        return payload
    return decompress(Codec(codec), payload, LARGEST_BATCH)


def _joined(
    some: scan.BatchHeaders,
    at: int,
    begun: int,
    until: int,
    pieces: list[bytes | memoryview],
    finder: PositionFinder,
) -> OpenedBatches:
    buffer = np.frombuffer(bytearray().join(pieces), np.uint8)
    ends = np.cumsum([len(piece) for piece in pieces])
    starts = np.concatenate([[0], ends[:-1]])
    few = scan.BatchHeaders(some.positions[begun:until], some.table[begun:until])
    return _slice(range(at + begun, at + until), few, buffer, starts, ends, finder)


def _slice(
    rows: range,
    few: scan.BatchHeaders,
    buffer: ByteArray,
    starts: LongArray,
    ends: LongArray,
    finder: PositionFinder,
) -> OpenedBatches:
    control = few.flagged(batch.CONTROL)
    regions = Regions(
        np.ascontiguousarray(starts, np.int64),
        np.ascontiguousarray(np.where(control, starts, ends), np.int64),
        np.where(control, 0, few.column("record_count")),
        few.column("base_offset"),
        few.column("base_timestamp_ms"),
        few.column("max_timestamp_ms"),
        few.flagged(batch.LOG_APPEND_TIME),
    )
    return OpenedBatches(
        rows, few, buffer, regions, finder.find(buffer, regions, -(2**63), 2**63 - 1)
    )
