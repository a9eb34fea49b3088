"""Rows into files, by the time of the event."""

import datetime as dt

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from kafscale.spark.lake import writer
from kafscale.spark.lake.schemas import ORIGIN
from kafscale.spark.lake.writer import PartitionedWriter, label_of

HOUR_US = 3_600_000_000
T0 = int(dt.datetime(2026, 11, 15, 22, 30, tzinfo=dt.UTC).timestamp()) * 1_000_000


def batch(*times_us: int | None, first: int = 0) -> pa.RecordBatch:
    count = len(times_us)
    return pa.RecordBatch.from_arrays(
        [
            pa.repeat("orders", count),
            pa.array([3] * count, pa.int32()),
            pa.array(range(first, first + count), pa.int64()),
            pa.array(times_us, pa.int64()).cast(ORIGIN.field("_timestamp").type),
            pa.nulls(count, pa.binary()),
            pa.nulls(count, ORIGIN.field("_headers").type),
        ],
        schema=ORIGIN,
    )


def written(by: str, *batches: pa.RecordBatch) -> tuple[list[writer.DataFile], dict[str, bytes]]:
    store: dict[str, bytes] = {}
    made = PartitionedWriter(
        lambda name, body: store.__setitem__(name, body.to_pybytes()),
        ORIGIN,
        token="t",
        partition_by=by,
        folder="data/",
    )
    for one in batches:
        made.write(one)
    return made.close(), store


def test_each_day_has_its_own_file_and_its_facts() -> None:
    files, store = written("day", batch(T0, T0 + HOUR_US, T0 + 2 * HOUR_US), batch(T0 + 1, first=3))
    assert [(f.path, f.partition, f.rows, f.offsets) for f in sorted(files)] == [
        ("data/_day=2026-11-15/part-t-0001.parquet", "2026-11-15", 3, (0, 3)),
        ("data/_day=2026-11-16/part-t-0002.parquet", "2026-11-16", 1, (2, 2)),
    ]
    for file in files:
        assert file.size == len(store[file.path])
        assert file.partitions == (3, 3)
        assert pq.read_metadata(pa.BufferReader(store[file.path])).num_rows == file.rows


def test_hours_and_times_no_calendar_has() -> None:
    year_12000 = 316_516_204_800_000_000
    files, _ = written("hour", batch(T0, None, T0 + HOUR_US, year_12000))
    assert {file.partition: file.rows for file in files} == {
        "2026-11-15-22": 1,
        "2026-11-15-23": 1,
        None: 2,
    }
    lost = next(file for file in files if file.partition is None)
    assert "__HIVE_DEFAULT_PARTITION__" in lost.path


def test_many_partitions_keep_few_files_open(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writer, "OPEN_FILES", 3)
    times = [T0 + n * 24 * HOUR_US for n in range(10)]
    files, _ = written("day", batch(*times), batch(*times, first=10))
    assert sum(file.rows for file in files) == 20
    assert len({file.path for file in files}) == len(files)


def test_large_inputs_make_several_files_of_several_row_groups(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    one = batch(*[T0] * 1000)
    monkeypatch.setattr(writer, "ROW_GROUP_BYTES", one.nbytes)
    monkeypatch.setattr(writer, "FILE_BYTES", 2 * one.nbytes)
    files, store = written("none", *[one] * 5)
    assert [file.rows for file in files] == [2000, 2000, 1000]
    groups = [pq.read_metadata(pa.BufferReader(body)).num_row_groups for body in store.values()]
    assert groups == [2, 2, 1]


def test_offsets_and_times_are_stored_as_differences_and_keys_without_dictionary() -> None:
    _, store = written("none", batch(T0, T0 + 1))
    group = pq.read_metadata(pa.BufferReader(next(iter(store.values())))).row_group(0)
    encodings = {
        group.column(at).path_in_schema: set(group.column(at).encodings)
        for at in range(group.num_columns)
    }
    assert "DELTA_BINARY_PACKED" in encodings["_offset"]
    assert "DELTA_BINARY_PACKED" in encodings["_timestamp"]
    assert not {"PLAIN_DICTIONARY", "RLE_DICTIONARY"} & encodings["_key"]
    assert group.column(0).compression == "ZSTD"


@pytest.mark.parametrize(
    ("unit", "by", "label"),
    [(0, "day", "1970-01-01"), (25, "hour", "1970-01-02-01"), (-1, "day", "1969-12-31")],
)
def test_labels_are_in_utc(unit: int, by: str, label: str) -> None:
    assert label_of(unit, by) == label
    assert label_of(int(np.iinfo(np.int64).min), by) is None
