"""Arrow batches into Parquet files, one set per day or hour of event time.

Here: how files are encoded, which rows go into which, when one is finished. Runs on workers.
Next door: where the files count (table.py).
"""

from collections import OrderedDict
from collections.abc import Callable
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from kafscale.spark.kernels.arrays import LongArray
from kafscale.spark.lake.schemas import PARTITION_COLUMNS

ROW_GROUP_BYTES: Final = 32 << 20
FILE_BYTES: Final = 256 << 20  # before compression
BUFFERED_BYTES: Final = 96 << 20  # rows waiting for their row group, all partitions together
OPEN_FILES: Final = 32
COMPRESSION: Final = "zstd"
LEVEL: Final = 1

_UNIT_US: Final = {"day": 86_400_000_000, "hour": 3_600_000_000}
_YEAR_1_US: Final = -62_135_596_800_000_000
_YEAR_10000_US: Final = 253_402_300_800_000_000
NO_TIME: Final = np.iinfo(np.int64).min  # the partition of rows whose time no calendar has

PutFile = Callable[[str, pa.Buffer], None]


class DataFile(NamedTuple):
    """A file that may become part of a table."""

    path: str  # below the table's folder
    size: int
    rows: int
    partition: str | None  # 2026-11-15, 2026-11-15-23; None: not partitioned, or no time
    partitions: tuple[int, int]  # least and greatest of _partition, _offset, _timestamp in us
    offsets: tuple[int, int]
    times_us: tuple[int, int] | None


class _Open:
    """One file being written and the rows that wait for its next row group."""

    def __init__(self, path: str, label: str | None) -> None:
        self.path = path
        self.label = label
        self.sink = pa.BufferOutputStream()
        self.writer: pq.ParquetWriter | None = None
        self.waiting: list[pa.RecordBatch] = []
        self.waiting_bytes = 0
        self.bytes = 0
        self.rows = 0
        self.least: list[Any] = []  # of _partition, _offset and _timestamp, row group by row group
        self.greatest: list[Any] = []


class PartitionedWriter:
    """Takes batches in any order of time; gives the files it made when closed.

    `folder` goes before each path, `token` makes the names unique to this attempt.
    """

    def __init__(
        self,
        put: PutFile,
        schema: pa.Schema,
        *,
        token: str,
        partition_by: str = "none",
        folder: str = "",
    ) -> None:
        self._put = put
        self._schema = schema
        self._token = token
        self._by = partition_by
        self._folder = folder
        self._open: OrderedDict[int, _Open] = OrderedDict()
        self._count = 0
        self.files: list[DataFile] = []

    def write(self, batch: pa.RecordBatch) -> None:
        """Put each row where its time belongs."""
        if not batch.num_rows:
            return
        if self._by == "none":
            self._add(0, batch)
            return
        units = _time_units(batch.column("_timestamp"), self._by)
        if units[0] == units[-1] and (units == units[0]).all():
            self._add(int(units[0]), batch)
            return
        order = pa.array(np.argsort(units, kind="stable"))
        values, counts = np.unique(units, return_counts=True)
        batch = batch.take(order)
        at = 0
        for unit, count in zip(values.tolist(), counts.tolist(), strict=True):
            self._add(unit, batch.slice(at, count))
            at += count

    def close(self) -> list[DataFile]:
        """Finish what is open."""
        for unit in list(self._open):
            self._finish(unit)
        return self.files

    def _add(self, unit: int, batch: pa.RecordBatch) -> None:
        file = self._open.get(unit)
        if file is None:
            if len(self._open) >= OPEN_FILES:
                self._finish(next(iter(self._open)))
            label = None if self._by == "none" else label_of(unit, self._by)
            file = self._open[unit] = _Open(self._name(label), label)
        self._open.move_to_end(unit)
        file.waiting.append(batch)
        file.waiting_bytes += batch.nbytes
        if file.waiting_bytes >= ROW_GROUP_BYTES:
            self._flush(file)
            if file.bytes >= FILE_BYTES:
                self._finish(unit)
        elif sum(other.waiting_bytes for other in self._open.values()) > BUFFERED_BYTES:
            self._flush(max(self._open.values(), key=lambda other: other.waiting_bytes))

    def _name(self, label: str | None) -> str:
        self._count += 1
        column = PARTITION_COLUMNS.get(self._by)
        layer = f"{column}={label or '__HIVE_DEFAULT_PARTITION__'}/" if column else ""
        return f"{self._folder}{layer}part-{self._token}-{self._count:04d}.parquet"

    def _flush(self, file: _Open) -> None:
        if not file.waiting:
            return
        table = pa.Table.from_batches(file.waiting, self._schema)
        if file.writer is None:
            file.writer = pq.ParquetWriter(file.sink, self._schema, **encodings(self._schema))
        file.writer.write_table(table, row_group_size=table.num_rows)
        file.bytes += file.waiting_bytes
        file.rows += table.num_rows
        for name in ("_partition", "_offset", "_timestamp"):
            bounds = pc.min_max(table.column(name).cast(pa.int64()))
            file.least.append(bounds["min"].as_py())
            file.greatest.append(bounds["max"].as_py())
        file.waiting, file.waiting_bytes = [], 0

    def _finish(self, unit: int) -> None:
        file = self._open.pop(unit)
        self._flush(file)
        assert file.writer is not None, "a file is opened for the rows that go into it"
        file.writer.close()
        body = file.sink.getvalue()
        self._put(file.path, body)
        first, last = file.least[2::3], file.greatest[2::3]
        self.files.append(
            DataFile(
                file.path,
                body.size,
                file.rows,
                file.label,
                (min(file.least[0::3]), max(file.greatest[0::3])),
                (min(file.least[1::3]), max(file.greatest[1::3])),
                (min(first), max(last)) if None not in first else None,
            )
        )


def encodings(schema: pa.Schema) -> dict[str, object]:
    """How columns are stored.

    Keys and values differ from row to row: a dictionary of them is work for nothing. Offsets and
    times grow by little: their differences take few bits.
    """
    repeated = ["_topic", "_partition"]
    deltas = dict.fromkeys(("_offset", "_timestamp"), "DELTA_BINARY_PACKED")
    ordered = [
        field.name
        for field in schema
        if field.name != "_key" and not pa.types.is_nested(field.type) and field.type != pa.binary()
    ]
    return {
        "compression": COMPRESSION,
        "compression_level": LEVEL,
        "use_dictionary": [name for name in repeated if name in schema.names],
        "column_encoding": {name: how for name, how in deltas.items() if name in schema.names},
        "write_statistics": ordered,
        "data_page_size": 1 << 20,
    }


def label_of(unit: int, by: str) -> str | None:
    """A day as 2026-11-15, an hour as 2026-11-15-23, both in UTC."""
    if unit == NO_TIME:
        return None
    stamp = np.datetime64(unit, "D" if by == "day" else "h")
    return str(stamp).replace("T", "-")


def _time_units(times: pa.Array, by: str) -> LongArray:
    """Days or hours since 1970; NO_TIME where no calendar has such a time."""
    known = times.cast(pa.int64()).fill_null(NO_TIME).to_numpy()
    units = np.floor_divide(known, _UNIT_US[by])
    return np.where((known >= _YEAR_1_US) & (known < _YEAR_10000_US), units, NO_TIME)
