"""Keeping a table in shape: small files joined, old rows and old versions gone, leftovers swept.

Here: which files are joined, the work on a group of them, and the order of the steps. Every change
is a commit of the table itself that names what it replaces; if an export came between and changed
the same files, the upkeep leaves them for the next time.
Next door: the tables (lake/), when this is due (runner/planner.py).
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from kafscale.log.protocol.commits import LostRace
from kafscale.spark.execution.here_or_spark import run_here_or_on_spark
from kafscale.spark.job import Context
from kafscale.spark.lake import attempts
from kafscale.spark.lake.table import Table, TableChange, TableFile
from kafscale.spark.lake.table_folder import TableFolder
from kafscale.spark.lake.writer import DataFile, PartitionedWriter
from kafscale.system import SystemDice

JOIN_FROM: Final = 4  # files of a partition: fewer are not worth a commit
WITHOUT_SPARK_BYTES: Final = 64 << 20
ROUND_BYTES: Final = 8 << 30  # of files joined between two commits


@dataclass
class UpkeepResult:
    """What was done to a table."""

    files_joined: int = 0
    files_written: int = 0
    bytes_written: int = 0
    files_expired: int = 0  # their rows were too old
    files_deleted: int = 0  # only old versions had them
    swept: int = 0  # what crashed exports left


class JoinTask(NamedTuple):
    """Files of one partition that become few."""

    place: TableFolder
    folder: str
    columns: pa.Schema
    partition_by: str
    paths: tuple[str, ...]
    round: str
    size: int


class UpkeepWish(NamedTuple):
    """What a table's topic asks for."""

    file_bytes: int
    retention_ms: int  # -1: rows stay
    kept_ms: int  # older versions
    join: bool = True  # not the files of upsert tables: they lie by key


def keep_in_shape(context: Context, table: Table, wish: UpkeepWish) -> UpkeepResult:
    """Take every step once."""
    done = UpkeepResult()
    columns = table.columns()
    if columns is None:
        return done
    table.prepare(pa.schema([]), None)  # how it is partitioned
    if wish.retention_ms >= 0:
        done.files_expired = _expire_rows(table, wish.retention_ms)
    if wish.join:
        _join(context, table, columns, wish.file_bytes, done)
    done.files_deleted = table.expire(wish.kept_ms)
    done.swept = attempts.sweep(table)
    return done


def _expire_rows(table: Table, retention_ms: int) -> int:
    """Remove files whose newest row is too old; a file goes as a whole."""
    state = table.state(())
    oldest_us = (table.place.now_ms() - retention_ms) * 1000
    old = tuple(
        file.path
        for file in (state.files if state else ())
        if file.newest_us is not None and file.newest_us < oldest_us
    )
    if not old:
        return 0
    try:
        table.commit([], {}, {}, TableChange(removed=old))
    except LostRace:
        return 0  # the next upkeep finds them again
    return len(old)


def _join(
    context: Context, table: Table, columns: pa.Schema, file_bytes: int, done: UpkeepResult
) -> None:
    state = table.state(())
    groups = groups_to_join(state.files if state else (), file_bytes)
    while groups:
        some: list[list[TableFile]] = []
        size = 0
        while groups and (not some or size < ROUND_BYTES):
            some.append(groups.pop())
            size += sum(file.size for file in some[-1])
        attempt = attempts.Round(table)
        tasks = [
            JoinTask(
                table.place,
                table.folder,
                pa.schema([field for field in columns if field.name not in _NOT_STORED]),
                table.partition_by,
                tuple(file.path for file in group),
                attempt.name,
                sum(file.size for file in group),
            )
            for group in some
        ]

        def progress(count: int, total: int) -> None:
            context.progress("joining files", count, total, "")

        small = size <= WITHOUT_SPARK_BYTES
        results = run_here_or_on_spark(context, tasks, join_unit, small=small, progress=progress)
        files = [file for result in results for file in result]
        removed = tuple(path for task in tasks for path in task.paths)
        attempt.check_in_time()
        try:
            table.commit(files, {}, {}, TableChange(removed=removed, same_rows=True))
        except LostRace:
            return  # another upkeep was faster; what was written is swept later
        attempt.finish(files)
        done.files_joined += len(removed)
        done.files_written += len(files)
        done.bytes_written += sum(file.size for file in files)


_NOT_STORED: Final = ("_day", "_hour")  # partition columns of Delta: in the path, not in the file


def groups_to_join(files: Iterable[TableFile], file_bytes: int) -> list[list[TableFile]]:
    """Small files of one partition together, up to the wanted size; pure."""
    small: dict[str | None, list[TableFile]] = {}
    for file in files:
        if file.size < file_bytes // 2:
            small.setdefault(file.partition, []).append(file)
    groups: list[list[TableFile]] = []
    for some in small.values():
        current: list[TableFile] = []
        size = 0
        for file in sorted(some, key=lambda file: file.path):
            if current and size + file.size > file_bytes:
                groups.append(current)
                current, size = [], 0
            current.append(file)
            size += file.size
        groups.append(current)
    return [group for group in groups if len(group) >= JOIN_FROM]


def join_unit(task: JoinTask) -> list[DataFile]:
    """Read some files and write their rows again, in the order of offsets."""
    writer = PartitionedWriter(
        task.place.put_new,
        task.columns,
        token=f"{task.round}-{SystemDice().token(8).hex()}",
        partition_by=task.partition_by,
        folder=task.folder,
    )
    for table in _in_order(task):
        for batch in table.to_batches():
            writer.write(batch)
    return writer.close()


def _in_order(task: JoinTask) -> Sequence[pa.Table]:
    tables = [_aligned(task.place.read(path), task.columns) for path in task.paths]
    whole = pa.concat_tables(tables)
    return [whole.sort_by([("_partition", "ascending"), ("_offset", "ascending")])]


def _aligned(body: bytes, columns: pa.Schema) -> pa.Table:
    """A file's rows with all columns that the table has by now."""
    there = pq.read_table(pa.BufferReader(body))
    arrays = [
        there.column(field.name).cast(field.type)
        if field.name in there.schema.names
        else pa.chunked_array([pa.nulls(there.num_rows, field.type)])
        for field in columns
    ]
    return pa.Table.from_arrays(arrays, schema=columns)
