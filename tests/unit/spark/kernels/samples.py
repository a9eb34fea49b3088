"""What both engines are compared with: the plain decoder, record by record."""

from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow as pa

from kafscale.records.record import Record
from kafscale.spark.kernels.decoder import (
    FIELDS,
    Buffer,
    ObjectPiece,
    PartitionWindow,
    RecordDecoder,
    UnreadableBatch,
)

LANE = PartitionWindow("t", 3)
ENGINES = [False, True]  # the plain one and the compiled one


def chunked(data: Buffer, size: int) -> Iterator[memoryview]:
    view = memoryview(data)
    return (view[at : at + size] for at in range(0, len(view), size))


def decoded(
    data: Buffer, *, fast: bool, lane: PartitionWindow = LANE, chunk: int = 1 << 20, **options: Any
) -> list[dict[str, Any]]:
    """Rows of one piece."""
    return rows([ObjectPiece("o", 32, chunked(data, chunk))], fast=fast, lane=lane, **options)


def rows(
    pieces: Iterable[ObjectPiece],
    *,
    fast: bool,
    lane: PartitionWindow = LANE,
    columns: Iterable[str] = tuple(FIELDS),
    verify_crc: bool = True,
    buffer_bytes: int = 1 << 20,
    findings: list[UnreadableBatch] | None = None,
) -> list[dict[str, Any]]:
    decoder = RecordDecoder(
        tuple(columns),
        fast=fast,
        verify_crc=verify_crc,
        buffer_bytes=buffer_bytes,
        findings=findings,
    )
    found: list[dict[str, Any]] = []
    for one in decoder.decode(lane, pieces):
        one.validate(full=True)
        # Times of any size: Python's datetime ends with the year 9999, Arrow's numbers do not.
        at = one.schema.get_field_index("timestamp")
        if at >= 0:
            one = one.set_column(at, "timestamp", one.column(at).cast(pa.int64()))
        found += one.to_pylist()
    return found


def expected(records: Iterable[Record], *, append_time: bool = False) -> list[dict[str, Any]]:
    return [
        {
            "key": record.key,
            "value": record.value,
            "topic": "t",
            "partition": 3,
            "offset": record.offset,
            "timestamp": _micros(record.timestamp_ms),
            "timestampType": int(append_time),
            "headers": [{"key": _shown(name), "value": value} for name, value in record.headers]
            or None,
        }
        for record in records
    ]


def _micros(time_ms: int) -> int | None:
    return time_ms * 1000 if abs(time_ms) <= (2**63 - 1) // 1000 else None


def _shown(name: str) -> str:
    return name.encode(errors="surrogateescape").decode(errors="replace")
