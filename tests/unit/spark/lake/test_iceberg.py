"""Progress in Iceberg tables that others work on, too."""

from pathlib import Path

import pyarrow as pa
import pytest

from kafscale.model.errors import InvalidRequest
from kafscale.spark.lake import schemas
from kafscale.spark.lake.iceberg import OFFSETS, IcebergTable
from kafscale.spark.lake.writer import DataFile, PartitionedWriter


@pytest.fixture
def table(tmp_path: Path) -> IcebergTable:
    made = IcebergTable.open(str(tmp_path / "lake" / "orders"))
    made.prepare(schemas.ORIGIN, "none")
    return made


def add(table: IcebergTable, first: int, until: int) -> None:
    """Export the offsets first to until - 1."""
    rows = pa.table(
        {
            "_topic": ["t"] * (until - first),
            "_partition": pa.array([0] * (until - first), pa.int32()),
            "_offset": range(first, until),
            "_timestamp": pa.array([0] * (until - first), pa.timestamp("us", tz="UTC")),
            "_key": pa.nulls(until - first, pa.binary()),
            "_headers": pa.nulls(until - first, schemas.HEADERS),
        },
        schema=schemas.ORIGIN,
    )
    writer = PartitionedWriter(
        table.place.put_new, schemas.ORIGIN, token=f"{first}-{until}", folder="data/"
    )
    writer.write(rows.to_batches()[0])
    files: list[DataFile] = writer.close()
    table.commit(files, {"t/0": first}, {"t/0": until})


def offsets(table: IcebergTable) -> list[int]:
    found = table._load()
    assert found is not None
    return sorted(found.scan().to_arrow()["_offset"].to_pylist())


def test_a_foreign_commit_on_top_does_not_hide_the_progress(table: IcebergTable) -> None:
    add(table, 0, 3)
    found = table._load()
    assert found is not None
    found.append(found.scan().to_arrow().slice(0, 1))
    assert table.progress(["t/0"]) == {"t/0": 3}
    add(table, 3, 5)
    assert offsets(table) == [0, 0, 1, 2, 3, 4]


def test_a_table_rolled_back_is_as_far_as_its_snapshot(table: IcebergTable) -> None:
    add(table, 0, 3)
    found = table._load()
    assert found is not None
    snapshot = found.current_snapshot()
    assert snapshot is not None
    add(table, 3, 5)
    found.refresh()
    found.manage_snapshots().rollback_to_snapshot(snapshot.snapshot_id).commit()
    assert table.progress(["t/0"]) == {"t/0": 3}
    add(table, 3, 4)
    assert offsets(table) == [0, 1, 2, 3]


def test_expired_snapshots_leave_the_progress_in_the_tables_properties(
    table: IcebergTable,
) -> None:
    add(table, 0, 3)
    found = table._load()
    assert found is not None
    ours = found.current_snapshot()
    assert ours is not None
    found.append(found.scan().to_arrow().slice(0, 1))
    found.maintenance.expire_snapshots().by_id(ours.snapshot_id).commit()
    assert found.properties[OFFSETS] == '{"t/0":3}'
    assert table.progress(["t/0"]) == {"t/0": 3}


def test_a_table_rolled_back_to_before_all_exports_begins_anew(table: IcebergTable) -> None:
    found = table._load()
    assert found is not None
    found.append(schemas.ORIGIN.empty_table())
    before = found.current_snapshot()
    assert before is not None
    add(table, 0, 3)
    found.refresh()
    found.manage_snapshots().rollback_to_snapshot(before.snapshot_id).commit()
    assert table.progress(["t/0"]) == {}
    add(table, 0, 2)
    assert offsets(table) == [0, 1]


def test_a_table_in_a_bucket_needs_a_catalog() -> None:
    with pytest.raises(InvalidRequest, match="needs --catalog"):
        IcebergTable.open("s3://bucket/lake/orders")
