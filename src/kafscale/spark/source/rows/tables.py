"""The other tables of a topic: its batches and its segments.

Here: `table=batches` reads the headers of all batches, records stay closed; `table=segments` is
known from planning alone. Next door: the records themselves (source/source.py).
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

import numpy as np
import pyarrow as pa

from kafscale.model.errors import CorruptObject
from kafscale.records import batch
from kafscale.records.compression import Codec
from kafscale.spark.bucket import Bucket
from kafscale.spark.kernels import scan, spans
from kafscale.spark.source.fetching import pieces
from kafscale.spark.source.plan.splits import Slice, Split
from kafscale.spark.views import PartitionView

BATCHES: Final = {
    "topic": "string",
    "partition": "int",
    "offset": "bigint",
    "lastOffset": "bigint",
    "records": "int",
    "bytes": "int",
    "codec": "string",
    "timestamp": "timestamp",
    "maxTimestamp": "timestamp",
    "timestampType": "int",
    "producerId": "bigint",
    "producerEpoch": "int",
    "baseSequence": "int",
    "leaderEpoch": "int",
    "transactional": "boolean",
    "control": "boolean",
    "object": "string",
    "position": "bigint",
}
SEGMENTS: Final = {
    "topic": "string",
    "partition": "int",
    "offset": "bigint",
    "lastOffset": "bigint",
    "records": "bigint",
    "bytes": "bigint",
    "timestamp": "timestamp",
    "maxTimestamp": "timestamp",
    "kind": "string",
    "object": "string",
    "position": "bigint",
}
_CODECS: Final = np.array([codec.name.lower() for codec in Codec] + ["unknown"] * 3)


def segment_rows(
    views: Iterable[PartitionView], columns: Sequence[str]
) -> Iterator[pa.RecordBatch]:
    """One row per object and partition in it."""
    rows = [(view, stored) for view in views for stored in view.stored_ranges]
    if not rows:
        return
    table = {
        "topic": pa.array([view.topic for view, _ in rows]),
        "partition": pa.array([view.partition for view, _ in rows], pa.int32()),
        "offset": pa.array([s.first for _, s in rows], pa.int64()),
        "lastOffset": pa.array([s.last for _, s in rows], pa.int64()),
        "records": pa.array([s.records for _, s in rows], pa.int64()),
        "bytes": pa.array([s.length for _, s in rows], pa.int64()),
        # Large flushes do not tell their times unless they are read: null, as is any other
        # number that is no time.
        "timestamp": spans.timestamps(np.array([s.min_timestamp_ms for _, s in rows])),
        "maxTimestamp": spans.timestamps(np.array([s.max_timestamp_ms for _, s in rows])),
        "kind": pa.array([s.kind for _, s in rows]),
        "object": pa.array([s.key for _, s in rows]),
        "position": pa.array([s.start for _, s in rows], pa.int64()),
    }
    yield pa.RecordBatch.from_pydict({name: table[name] for name in columns})


def batch_rows(bucket: Bucket, split: Split, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """One row per batch that begins in the window."""
    for sliced in split:
        for piece in pieces(bucket, sliced.stored_ranges):
            carry = b""
            at = piece.start
            for chunk in piece.chunks:
                data = np.frombuffer(carry + bytes(chunk), np.uint8)
                walked = scan.walk(data.data, 0, len(data))
                if walked.problem:
                    raise CorruptObject(f"{piece.key}, byte {at + walked.stop}: {walked.problem}")
                if walked.positions:
                    headers = scan.read_headers(data, walked.positions)
                    yield from _batch_table(sliced, headers, piece.key, at, columns)
                carry = data[walked.stop :].tobytes()
                at += walked.stop


def _batch_table(
    piece: Slice, headers: scan.BatchHeaders, key: str, at: int, columns: Sequence[str]
) -> Iterator[pa.RecordBatch]:
    bases = headers.column("base_offset")
    wanted = (bases >= piece.first) & (bases < piece.until)
    headers = scan.BatchHeaders(headers.positions[wanted], headers.table[wanted])
    count = len(headers.positions)
    if not count:
        return

    def ints(name: str) -> pa.Array:
        return pa.array(headers.column(name).astype(np.int32))

    table = {
        "topic": pa.repeat(piece.topic, count),
        "partition": pa.array(np.full(count, piece.partition, np.int32)),
        "offset": pa.array(headers.column("base_offset")),
        "lastOffset": pa.array(headers.last_offsets),
        "records": ints("record_count"),
        "bytes": pa.array(headers.sizes.astype(np.int32)),
        "codec": pa.array(_CODECS[headers.codecs].tolist()),
        "timestamp": spans.timestamps(headers.column("base_timestamp_ms")),
        "maxTimestamp": spans.timestamps(headers.column("max_timestamp_ms")),
        "timestampType": pa.array(headers.flagged(batch.LOG_APPEND_TIME).astype(np.int32)),
        "producerId": pa.array(headers.column("producer_id")),
        "producerEpoch": ints("producer_epoch"),
        "baseSequence": ints("base_sequence"),
        "leaderEpoch": ints("leader_epoch"),
        "transactional": pa.array(headers.flagged(batch.TRANSACTIONAL)),
        "control": pa.array(headers.flagged(batch.CONTROL)),
        "object": pa.repeat(key, count),
        "position": pa.array(headers.positions + at),
    }
    yield pa.RecordBatch.from_pydict({name: table[name] for name in columns})
