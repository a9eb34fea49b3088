"""Upsert tables: the newest row of each key, rows of tombstones gone.

Here: the two kinds of units of a round. The first reads records, keeps the newest of each key and
writes them down, cut by the hash of their keys. The second takes one share of the hashes, reads the
table's files for it and writes them anew, as far as a key of theirs has changed. What it replaces
is removed in the same commit that adds what it wrote and moves the progress.
Next door: which row of a key is the newest (newest_rows.py), the rounds (jobs/export.py).

The files of a table lie in folders by key range: `k03-5` holds the keys whose hash begins with the
three bits 101. A range whose rows outgrow two files is cut in two when it is written next.
"""

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from kafscale.spark.kernels.decoder import RecordDecoder
from kafscale.spark.lake import newest_rows, schemas
from kafscale.spark.lake.attempts import STAGED
from kafscale.spark.lake.newest_rows import DELETED, HASH_BITS
from kafscale.spark.lake.table_folder import TableFolder
from kafscale.spark.lake.unit import COLUMNS, VALUE, ExportedFiles, ExportTarget, judged
from kafscale.spark.lake.writer import DataFile, PartitionedWriter
from kafscale.spark.source.plan.splits import Split
from kafscale.spark.source.rows import reading
from kafscale.spark.values.framed import UnknownSchemas

FILE_BYTES: Final = 128 << 20
MOST_SHARES: Final = 64
_DEEPEST: Final = 24  # bits of a key range
_HELD_ROWS: Final = 500_000  # before the newest are chosen
NO_KEY: Final = "a row of an upsert table needs a key, and this record has none"


class KeyRange(NamedTuple):
    """The keys whose hash begins with these bits."""

    bits: int = 0
    prefix: int = 0

    @property
    def folder(self) -> str:
        """Below the folder of the table's files."""
        return f"k{self.bits:02d}-{self.prefix:x}/"

    @property
    def first(self) -> int:
        """The least hash."""
        return self.prefix << (HASH_BITS - self.bits)

    @property
    def until(self) -> int:
        """The hash after the greatest."""
        return (self.prefix + 1) << (HASH_BITS - self.bits)

    def halves(self) -> tuple["KeyRange", "KeyRange"]:
        """The same keys as two ranges."""
        return (
            KeyRange(self.bits + 1, 2 * self.prefix),
            KeyRange(self.bits + 1, 2 * self.prefix + 1),
        )


EVERYTHING: Final = KeyRange()


def range_of(path: str) -> KeyRange:
    """The key range of a file, by the folder that it lies in."""
    folder = path.rpartition("/")[0].rpartition("/")[2]
    bits, _, prefix = folder.removeprefix("k").partition("-")
    return KeyRange(int(bits), int(prefix, 16))


class KeyShare(NamedTuple):
    """Some key ranges beside each other, and their files in the table."""

    ranges: tuple[KeyRange, ...]
    files: tuple[tuple[str, ...], ...]  # paths, range by range

    @property
    def first(self) -> int:
        """The least hash."""
        return self.ranges[0].first


def shares_of(paths: Iterable[str], count: int) -> list[KeyShare]:
    """Cut the key ranges that a table has into about so many shares; all hashes are covered."""
    by_range: dict[KeyRange, list[str]] = {}
    for path in paths:
        by_range.setdefault(range_of(path), []).append(path)
    if not by_range:
        by_range[EVERYTHING] = []
    ranges = _covering(by_range)
    step = -(-len(ranges) // max(1, min(count, MOST_SHARES)))
    return [
        KeyShare(tuple(some), tuple(tuple(by_range.get(one, ())) for one in some))
        for some in (ranges[at : at + step] for at in range(0, len(ranges), step))
    ]


def _covering(known: Iterable[KeyRange]) -> list[KeyRange]:
    """The ranges in the order of their hashes, with those between them that have no file."""
    covered: list[KeyRange] = []

    def cover(one: KeyRange, inside: list[KeyRange]) -> None:
        if not inside or one in inside:
            covered.append(one)
            return
        for half in one.halves():
            cover(half, [other for other in inside if half.first <= other.first < half.until])

    cover(EVERYTHING, list(known))
    return covered


class StageTarget(NamedTuple):
    """What the first kind of unit needs to know."""

    export: ExportTarget
    bounds: tuple[int, ...]  # the least hash of each share


def stage_unit(unit: tuple[StageTarget, Split]) -> ExportedFiles:
    """Write down the newest record of each key of some slices; one file per share, or none."""
    stage, split = unit
    target = stage.export
    token = f"{target.round}-{target.bucket.dice.token(8).hex()}"
    dead = PartitionedWriter(
        target.dead.place.put_new, schemas.DEAD, token=token, folder=target.dead.folder
    )
    columns = newest_rows.with_marks(target.columns)
    decode = target.reading.decoder()
    refresh = reading.replaced(target.bucket, fail_on_data_loss=True)
    held: list[pa.RecordBatch] = []
    rows = 0
    for batch in reading.read_split(target.bucket, split, RecordDecoder(COLUMNS), None, refresh):
        keyed, keyless = _by_key(batch)
        if keyless is not None:
            dead.write(keyless)
        try:
            good, bad = judged(keyed, decode, target.columns)
        except UnknownSchemas as unknown:
            return ExportedFiles([], [], unknown.numbers)
        if bad is not None:
            dead.write(bad)
        held.append(_marked(good, keyed, bad, columns))
        rows += good.num_rows
        if rows > _HELD_ROWS:
            held = newest_rows.newest(pa.Table.from_batches(held, columns)).to_batches()
            rows = sum(some.num_rows for some in held)
    newest = newest_rows.newest(pa.Table.from_batches(held, columns))
    return ExportedFiles(_write_staged(stage, newest, token), dead.close())


def _by_key(batch: pa.RecordBatch) -> tuple[pa.RecordBatch, pa.RecordBatch | None]:
    """The records with a key, and the others as dead letters."""
    keys = batch.column(COLUMNS.index("key"))
    if not keys.null_count:
        return batch, None
    without = batch.filter(keys.is_null())
    origin = [
        column.cast(field.type)
        for column, field in zip(without.columns[:VALUE], schemas.ORIGIN, strict=True)
    ]
    reasons = pa.array([NO_KEY] * without.num_rows, pa.string())
    dead = pa.RecordBatch.from_arrays(
        [*origin, reasons, without.column(VALUE)], schema=schemas.DEAD
    )
    return batch.filter(keys.is_valid()), dead


def _marked(
    good: pa.RecordBatch, source: pa.RecordBatch, bad: pa.RecordBatch | None, columns: pa.Schema
) -> pa.RecordBatch:
    """Rows with the mark whether their record was a tombstone."""
    deleted = source.column(VALUE).is_null()
    if bad is not None:
        gone = pc.is_in(
            _places(source, "partition", "offset"), value_set=_places(bad, "_partition", "_offset")
        )
        deleted = deleted.filter(pc.invert(gone))
    return pa.RecordBatch.from_arrays([*good.columns, deleted], schema=columns)


def _places(batch: pa.RecordBatch, partition: str, offset: str) -> pa.Array:
    """One number for partition and offset; the names differ before and after decoding."""
    names = list(batch.schema.names)
    partitions = batch.column(names.index(partition)).cast(pa.int64()).to_numpy()
    offsets = batch.column(names.index(offset)).to_numpy()
    return pa.array((partitions << 41) + offsets)


def _write_staged(stage: StageTarget, rows: pa.Table, token: str) -> list[DataFile]:
    """The rows by share; the number of the share is the partition of its file."""
    if not rows.num_rows:
        return []
    target = stage.export
    hashes = newest_rows.hashes(rows.column("_key"))
    of_share = np.searchsorted(np.array(stage.bounds), hashes, side="right") - 1
    files = []
    for share in np.unique(of_share).tolist():
        writer = PartitionedWriter(
            target.rows.place.put_new,
            rows.schema,
            token=f"{token[:-2]}{share:02x}",
            folder=f"{target.rows.folder}{STAGED}",
        )
        for some in rows.filter(pa.array(of_share == share)).to_batches():
            writer.write(some)
        files += [file._replace(partition=str(share)) for file in writer.close()]
    return files


class MergeTask(NamedTuple):
    """What the second kind of unit does: one share of the keys."""

    place: TableFolder
    folder: str
    columns: pa.Schema
    share: KeyShare
    staged: tuple[str, ...]
    round: str
    token: str
    file_bytes: int


class Merged(NamedTuple):
    """What became of a share."""

    files: list[DataFile]
    removed: list[str]


def merge_unit(task: MergeTask) -> Merged:
    """Write the changed key ranges of a share anew."""
    marked = newest_rows.with_marks(task.columns)
    tables = [_read(task.place, path, marked) for path in task.staged]
    changes = newest_rows.newest(pa.concat_tables(tables))
    hashes = newest_rows.hashes(changes.column("_key"))
    merged = Merged([], [])
    for number, (keys, paths) in enumerate(zip(task.share.ranges, task.share.files, strict=True)):
        inside = (hashes >= keys.first) & (hashes < keys.until)
        if not inside.any():
            continue
        fresh = changes.filter(pa.array(inside))
        old = [_read(task.place, path, marked) for path in paths]
        rows = newest_rows.newest(pa.concat_tables([*old, fresh]))
        rows = rows.filter(pc.invert(rows.column(DELETED))).select(task.columns.names)
        merged.removed.extend(paths)
        merged.files.extend(_write(task, keys, rows, f"{number:04x}"))
    return merged


def _read(place: TableFolder, path: str, columns: pa.Schema) -> pa.Table:
    """A file's rows with all columns that the table has by now."""
    there = pq.read_table(pa.BufferReader(place.read(path)))
    arrays = []
    for field in columns:
        at = there.schema.get_field_index(field.name)
        if at >= 0:
            arrays.append(there.column(at).cast(field.type))
        elif field.name == DELETED:
            arrays.append(pa.chunked_array([pa.array(np.zeros(there.num_rows, np.bool_))]))
        else:
            arrays.append(pa.chunked_array([pa.nulls(there.num_rows, field.type)]))
    return pa.Table.from_arrays(arrays, schema=columns)


def _write(task: MergeTask, keys: KeyRange, rows: pa.Table, number: str) -> list[DataFile]:
    """One range's rows in its folder, or in those of its halves where they are too many."""
    if not rows.num_rows:
        return []
    if rows.nbytes > 2 * task.file_bytes and keys.bits < _DEEPEST:
        halves = keys.halves()
        in_first = newest_rows.hashes(rows.column("_key")) < halves[0].until
        return [
            *_write(task, halves[0], rows.filter(pa.array(in_first)), f"{number}0"),
            *_write(task, halves[1], rows.filter(pa.array(~in_first)), f"{number}1"),
        ]
    writer = PartitionedWriter(
        task.place.put_new,
        task.columns,
        token=f"{task.round}-{task.token}{number}",
        folder=f"{task.folder}{keys.folder}",
    )
    for some in rows.combine_chunks().to_batches():
        writer.write(some)
    return writer.close()


def merge_tasks(
    target: ExportTarget,
    shares: Sequence[KeyShare],
    staged: Sequence[DataFile],
    tokens: Sequence[str],
    file_bytes: int,
) -> list[MergeTask]:
    """One task for each share that something was written down for."""
    by_share: dict[int, list[str]] = {}
    for file in staged:
        by_share.setdefault(int(file.partition or 0), []).append(file.path)
    return [
        MergeTask(
            target.rows.place,
            target.rows.folder,
            target.columns,
            shares[number],
            tuple(paths),
            target.round,
            tokens[number],
            file_bytes,
        )
        for number, paths in sorted(by_share.items())
    ]
