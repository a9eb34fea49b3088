"""The work on one unit of an export: stored batches to Arrow to Parquet files.

Files get names of this attempt alone; what does not parse goes to files of its own. Runs on
workers. Next door: which units there are and the commit (jobs/export.py).
"""

from typing import Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from kafscale.spark.bucket import Bucket
from kafscale.spark.kernels.decoder import RecordDecoder
from kafscale.spark.lake import schemas
from kafscale.spark.lake.evolution import ValueReading
from kafscale.spark.lake.table_folder import TableFolder
from kafscale.spark.lake.writer import DataFile, PartitionedWriter
from kafscale.spark.source.plan.splits import Split
from kafscale.spark.source.rows import reading
from kafscale.spark.values.decoding import ValueReader
from kafscale.spark.values.framed import UnknownSchemas

COLUMNS: Final = ("topic", "partition", "offset", "timestamp", "key", "headers", "value")
VALUE: Final = COLUMNS.index("value")


class Outlet(NamedTuple):
    """Where files go."""

    place: TableFolder
    folder: str


class ExportTarget(NamedTuple):
    """What becomes of records, the same for all units."""

    bucket: Bucket
    reading: ValueReading
    columns: pa.Schema
    partition_by: str
    rows: Outlet
    dead: Outlet
    round: str


class ExportedFiles(NamedTuple):
    """What one unit made."""

    files: list[DataFile]
    dead: list[DataFile]
    unknown: frozenset[int] = frozenset()  # schemas to be looked up before anything is written


def export_unit(unit: tuple[ExportTarget, Split]) -> ExportedFiles:
    """Write the records of some slices to files."""
    target, split = unit
    token = f"{target.round}-{target.bucket.dice.token(8).hex()}"
    rows = PartitionedWriter(
        target.rows.place.put_new,
        target.columns,
        token=token,
        partition_by=target.partition_by,
        folder=target.rows.folder,
    )
    dead = PartitionedWriter(
        target.dead.place.put_new, schemas.DEAD, token=token, folder=target.dead.folder
    )
    decode = target.reading.decoder()
    refresh = reading.replaced(target.bucket, fail_on_data_loss=True)
    batches = reading.read_split(target.bucket, split, RecordDecoder(COLUMNS), None, refresh)
    for batch in batches:
        try:
            good, bad = judged(batch, decode, target.columns)
        except UnknownSchemas as unknown:
            return ExportedFiles([], [], unknown.numbers)
        rows.write(good)
        if bad is not None:
            dead.write(bad)
    return ExportedFiles(rows.close(), dead.close())


def judged(
    batch: pa.RecordBatch, decode: ValueReader, columns: pa.Schema
) -> tuple[pa.RecordBatch, pa.RecordBatch | None]:
    """The rows of the table, and the dead letters; both in the order of the records."""
    decoded = decode.decode(batch.column(VALUE))
    origin = [
        column if column.type == field.type else column.cast(field.type)
        for column, field in zip(batch.columns[:VALUE], schemas.ORIGIN, strict=True)
    ]
    if not decoded.bad:
        return pa.RecordBatch.from_arrays([*origin, *decoded.columns], schema=columns), None
    places = pa.array(sorted(decoded.bad), pa.int64())
    is_bad = pc.is_in(pa.array(range(batch.num_rows), pa.int64()), places)
    good = [column.filter(pc.invert(is_bad)) for column in origin]
    reasons = pa.array([decoded.bad[at] for at in sorted(decoded.bad)], pa.string())
    bad = [column.take(places) for column in [*origin, batch.column(VALUE)]]
    return (
        pa.RecordBatch.from_arrays([*good, *decoded.columns], schema=columns),
        pa.RecordBatch.from_arrays([*bad[:-1], reasons, bad[-1]], schema=schemas.DEAD),
    )
