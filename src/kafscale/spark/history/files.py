"""A table's Parquet files as rows of the topic, read in a worker.

Here: tasks of about equal size, and their rows with the columns that the log's part has. Only the
columns that are asked for are fetched, and only row groups whose statistics allow wanted rows.
Spark's own reader does more, where it reaches the files (frames.py); the bare PySpark package
reaches no bucket.
Next door: which files there are (parts.py), what Spark calls (source.py).
"""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from functools import reduce
from operator import and_
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from kafscale.spark.history.parts import TablePart
from kafscale.spark.kernels.decoder import LAST_OFFSET
from kafscale.spark.lake import schemas
from kafscale.spark.lake.table import TableFile
from kafscale.spark.lake.table_folder import TableFolder
from kafscale.spark.source.plan.filters import Bounds
from kafscale.spark.source.rows.columns import WantedColumns
from kafscale.spark.values.types import fit

_ROWS: Final = 16 * 1024  # of a batch
_ORIGIN: Final = {name.removeprefix("_"): name for name in schemas.ORIGIN.names}
_LAST_MS: Final = 253_402_300_799_000  # the last that a datetime of Python can say


class FilesTask(NamedTuple):
    """Files that one task reads."""

    place: TableFolder
    paths: tuple[str, ...]
    timestamp_type: int
    # Of dead letters: where each partition's part ends. Their values are null.
    dead_before: dict[int, int] | None = None


def tasks_of(
    part: TablePart, starts: dict[int, int], bounds: Bounds, split_bytes: int
) -> list[FilesTask]:
    """The tasks that read a table's part. `starts`: where the log's part begins."""
    wanted = [file for file in part.files if _may_hold(file, bounds)]
    tasks = [
        FilesTask(part.place, paths, part.timestamp_type) for paths in _packed(wanted, split_bytes)
    ]
    dead = [file.path for file in part.dead_files if _may_hold(file, bounds)]
    if dead:  # one task: it leaves out what two exports have judged
        tasks.append(FilesTask(part.dead_place, tuple(dead), part.timestamp_type, starts))
    return tasks


def _packed(files: Sequence[TableFile], split_bytes: int) -> Iterator[tuple[str, ...]]:
    """Files in tasks of about so many bytes; columns are a few times larger in the log."""
    paths: list[str] = []
    size = 0
    for file in files:
        if paths and size + file.size > split_bytes // 2:
            yield tuple(paths)
            paths, size = [], 0
        paths.append(file.path)
        size += file.size
    if paths:
        yield tuple(paths)


def _may_hold(file: TableFile, bounds: Bounds) -> bool:
    """Whether rows of the file may lie within the bounds of time."""
    since_us = None if bounds.since_ms is None else bounds.since_ms * 1000
    until_us = None if bounds.until_ms is None else bounds.until_ms * 1000
    if since_us is not None and file.newest_us is not None and file.newest_us < since_us:
        return False
    return until_us is None or file.oldest_us is None or file.oldest_us <= until_us


def read_files(task: FilesTask, asked: WantedColumns, bounds: Bounds) -> Iterator[pa.RecordBatch]:
    """The rows of a task, with exactly the columns that are asked for."""
    if task.dead_before is not None:
        yield from _dead_rows(task, asked, bounds, task.dead_before)
        return
    fields = _value_fields(asked)
    needed = [_ORIGIN[name] for name in asked.columns if name in _ORIGIN]
    columns = pa.schema([*schemas.ORIGIN, *fields])
    for batch in _batches(task, columns, [*needed, *(field.name for field in fields)], bounds):
        yield _as_records(batch, asked, task.timestamp_type, _value(batch, asked))


def _dead_rows(
    task: FilesTask, asked: WantedColumns, bounds: Bounds, before: dict[int, int]
) -> Iterator[pa.RecordBatch]:
    """Dead letters before the log's part, each once, with values that are null as in the log."""
    seen: set[tuple[int, int]] = set()
    for batch in _batches(task, schemas.ORIGIN, schemas.ORIGIN.names, bounds):
        partitions = batch.column("_partition").to_pylist()
        offsets = batch.column("_offset").to_pylist()
        fresh = []
        for place in zip(partitions, offsets, strict=True):
            fresh.append(place not in seen and place[1] < before.get(place[0], 0))
            seen.add(place)
        rows = batch.filter(pa.array(fresh, pa.bool_()))
        if rows.num_rows:
            yield _as_records(rows, asked, task.timestamp_type, None)


def _batches(
    task: FilesTask, columns: pa.Schema, names: Sequence[str], bounds: Bounds
) -> Iterator[pa.RecordBatch]:
    """Columns of the files; those that a file is too old to have are null."""
    filesystem, root = task.place.arrow()
    options = ds.ParquetFragmentScanOptions(pre_buffer=True)  # few large requests, not many small
    parquet = ds.ParquetFileFormat(default_fragment_scan_options=options)
    for path in task.paths:
        file = parquet.make_fragment(f"{root}/{path}", filesystem)
        yield from file.to_batches(
            schema=columns,
            columns=list(dict.fromkeys(names)),
            filter=_condition(bounds),
            batch_size=_ROWS,
            batch_readahead=2,
            fragment_readahead=1,
            use_threads=False,
        )


def _condition(bounds: Bounds) -> Any:
    """The bounds in the words of Arrow; None: all rows."""
    parts: list[Any] = []
    if bounds.topics is not None:
        parts.append(ds.field("_topic").isin(sorted(bounds.topics)))
    if bounds.partitions is not None:
        parts.append(ds.field("_partition").isin(pa.array(sorted(bounds.partitions), pa.int32())))
    if bounds.first > 0:
        parts.append(ds.field("_offset") >= bounds.first)
    if bounds.until < LAST_OFFSET:
        parts.append(ds.field("_offset") < bounds.until)
    if bounds.since_ms is not None and 0 <= bounds.since_ms <= _LAST_MS:
        parts.append(ds.field("_timestamp") >= _moment(bounds.since_ms))
    if bounds.until_ms is not None and 0 <= bounds.until_ms <= _LAST_MS:
        parts.append(ds.field("_timestamp") <= _moment(bounds.until_ms))
    return reduce(and_, parts) if parts else None


def _moment(time_ms: int) -> pa.Scalar:
    return pa.scalar(datetime.fromtimestamp(time_ms / 1000, UTC), pa.timestamp("us", tz="UTC"))


def _value_fields(asked: WantedColumns) -> list[pa.Field]:
    """The columns of the table that a value is made of."""
    if "value" not in asked.columns:
        return []
    if asked.value_type is None:
        return [pa.field("value", pa.binary())]
    if pa.types.is_struct(asked.value_type):
        return list(asked.value_type)
    return [pa.field("value", asked.value_type)]


def _value(batch: pa.RecordBatch, asked: WantedColumns) -> pa.Array | None:
    """The column `value`: a struct is null where every field of it is."""
    if "value" not in asked.columns:
        return None
    kind = asked.value_type
    if kind is None or not pa.types.is_struct(kind):
        return batch.column("value")
    parts = [fit(batch.column(field.name), field.type) for field in kind]
    missing = reduce(pc.and_, (part.is_null() for part in parts))
    return pa.StructArray.from_arrays(parts, fields=list(kind), mask=missing)


def _as_records(
    batch: pa.RecordBatch, asked: WantedColumns, timestamp_type: int, value: pa.Array | None
) -> pa.RecordBatch:
    arrays = []
    for name in asked.columns:
        if name == "value":
            kind = pa.binary() if asked.value_type is None else asked.value_type
            arrays.append(pa.nulls(batch.num_rows, kind) if value is None else value)
        elif name == "timestampType":
            arrays.append(pa.array(np.full(batch.num_rows, timestamp_type, np.int32)))
        else:
            arrays.append(batch.column(_ORIGIN[name]))
    return pa.RecordBatch.from_arrays(arrays, names=list(asked.columns))
