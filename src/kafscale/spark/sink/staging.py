"""Rows of one task on their way into a new topic: divided by partition, encoded, put aside.

A task cannot know its offsets before all tasks before it have counted their rows. So it writes
finished batches without their offsets, which lie outside a batch's checksum, grouped by
partition, under unique names; sealing.py lays them into segments afterwards.
Next door: the encoder (encode.py), the load as a whole (bulk.py).
"""

from collections.abc import Iterable
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kafscale.model.buffers import Buffer
from kafscale.model.errors import InvalidRecord
from kafscale.records.compression import Codec
from kafscale.spark.bucket import Bucket
from kafscale.spark.kernels.arrays import IntArray, LongArray
from kafscale.spark.sink.encode import BATCH_BYTES, BatchEncoder, RecordRows, partitions_of

MOST_BUFFERED: Final = 64 << 20
_LEAST_BUFFERED: Final = 4 << 20


class LoadTarget(NamedTuple):
    """Where a load goes and what its tasks must know; pickled to the executors."""

    bucket: Bucket
    folder: str
    partitions: int
    codec: str = "none"
    now_ms: int = 0  # the time of rows that have none
    batch_bytes: int = BATCH_BYTES


class StagedSection(NamedTuple):
    """A run of batches of one partition in a staged object."""

    partition: int
    key: str
    start: int
    length: int
    records: int
    min_timestamp_ms: int
    max_timestamp_ms: int
    source: int = -1  # the partition of another topic that the rows stem from
    map_key: str = ""  # the object that holds the rows' offsets there,
    map_start: int = 0  # from this byte on


class Columns(NamedTuple):
    """What a batch of rows says: the records, and the partitions some of them ask for."""

    rows: RecordRows
    partition: pa.Array | None


def read_columns(batch: pa.RecordBatch, now_ms: int) -> Columns:
    """Find the columns of a sink by their names."""

    def named(name: str) -> pa.Array | None:
        at = batch.schema.get_field_index(name)
        return None if at < 0 else batch.column(at)

    value = named("value")
    if value is None:
        raise InvalidRecord("there is no column 'value'")
    rows = RecordRows(
        value,
        key=named("key"),
        headers=named("headers"),
        times_ms=_times(named("timestamp"), len(value), now_ms),
    )
    return Columns(rows, named("partition"))


def _times(column: pa.Array | None, count: int, now_ms: int) -> LongArray:
    if column is None:
        return np.full(count, now_ms, np.int64)
    if pa.types.is_timestamp(column.type):
        column = column.cast(pa.timestamp("ms", column.type.tz), safe=False).cast(pa.int64())
    if not pa.types.is_integer(column.type):
        raise InvalidRecord(f"timestamp is {column.type}, neither a time nor milliseconds")
    times: LongArray = pc.fill_null(column.cast(pa.int64()), now_ms).to_numpy(zero_copy_only=False)
    return times


def choose_partitions(columns: Columns, count: int, first: int) -> IntArray:
    """Where every row goes: where it asks to go, else by its key."""
    chosen = partitions_of(columns.rows.key, count, first=first)
    if columns.partition is None:
        return chosen
    asked = columns.partition
    named: Any = pc.fill_null(asked.cast(pa.int64()), -1).to_numpy(zero_copy_only=False)
    given = asked.is_valid().to_numpy(zero_copy_only=False)
    outside = given & ((named < 0) | (named >= count))
    if outside.any():
        raise InvalidRecord(f"partition {named[outside][0]}: there are {count}")
    return np.where(given, named, chosen).astype(np.int32)


class Stager:
    """Gathers rows until batches are worth writing, then puts one object per gathering aside."""

    def __init__(self, target: LoadTarget, task: int, *, source: int = -1) -> None:
        """Work for one task; with a `source` partition, rows carry an `offset` to be mapped."""
        self._target = target
        self._encoder = BatchEncoder(Codec.named(target.codec))
        self._first = task
        self._source = source
        self._waiting: list[pa.RecordBatch] = []
        self._bytes = 0
        wanted = 2 * target.partitions * target.batch_bytes
        self._limit = min(MOST_BUFFERED, max(_LEAST_BUFFERED, wanted))
        self.sections: list[StagedSection] = []

    def add(self, batch: pa.RecordBatch) -> None:
        """Take rows, in their order."""
        if batch.num_rows:
            self._waiting.append(batch)
            self._bytes += batch.nbytes
            if self._bytes >= self._limit:
                self._put_aside()

    def finish(self) -> list[StagedSection]:
        """Put the rest aside; gives everything this task wrote, in order."""
        if self._waiting:
            self._put_aside()
        return self.sections

    def _put_aside(self) -> None:
        table = pa.Table.from_batches(self._waiting).combine_chunks()
        self._waiting, self._bytes = [], 0
        for batch in table.to_batches():
            self._stage(batch)

    def _stage(self, batch: pa.RecordBatch) -> None:
        target = self._target
        columns = read_columns(batch, target.now_ms)
        rows = columns.rows
        chosen = choose_partitions(columns, target.partitions, self._first)
        self._first += rows.count
        order = np.argsort(chosen, kind="stable")
        bounds = np.searchsorted(chosen[order], np.arange(target.partitions + 1))
        key = f"{target.folder}/staged/{target.bucket.dice.token(16).hex()}"
        map_key = f"{key}-map" if self._source >= 0 else ""
        if map_key:
            offsets = batch.column(batch.schema.get_field_index("offset")).to_numpy()
            target.bucket.put_new(map_key, [offsets[order].astype("<i8").tobytes()])
        body: list[Buffer] = []
        at = 0
        for partition in np.flatnonzero(np.diff(bounds)).tolist():
            mine = order[bounds[partition] : bounds[partition + 1]]
            start = at
            for part in self._encoder.cut(rows, mine, target.batch_bytes):
                body.append(self._encoder.encode(rows, part))
                at += len(body[-1])
            times = rows.times_ms[mine]
            self.sections.append(
                StagedSection(
                    partition,
                    key,
                    start,
                    at - start,
                    len(mine),
                    int(times.min()),
                    int(times.max()),
                    self._source,
                    map_key,
                    8 * int(bounds[partition]),
                )
            )
        target.bucket.put_new(key, body)


def stage(
    target: LoadTarget, task: int, batches: Iterable[pa.RecordBatch], *, source: int = -1
) -> list[StagedSection]:
    """Put all rows of a task aside."""
    stager = Stager(target, task, source=source)
    for batch in batches:
        stager.add(batch)
    return stager.finish()
