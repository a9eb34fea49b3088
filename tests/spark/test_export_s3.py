"""Exports from a bucket into tables in a bucket, on a real S3 server."""

from pathlib import Path

import deltalake
import pyarrow as pa
import pytest

from kafscale.spark.bucket import Bucket
from kafscale.spark.job import Context
from kafscale.spark.jobs.export import ExportRequest, run_export
from kafscale.spark.lake import delta, parquet
from kafscale.spark.lake.iceberg import IcebergTable
from kafscale.spark.values.formats import spec_of
from tests.support import seaweed
from tests.unit.spark.topics import Topic

JSON = spec_of("json", "id bigint")


@pytest.fixture
def topic(
    seaweed_server: seaweed.SeaweedServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Topic:
    monkeypatch.setenv("KAFSCALE_S3_ENDPOINT", seaweed_server.endpoint)
    monkeypatch.setenv("KAFSCALE_S3_ACCESS_KEY", seaweed.ACCESS_KEY)
    monkeypatch.setenv("KAFSCALE_S3_SECRET_KEY", seaweed.SECRET_KEY)
    name = tmp_path.name.replace("_", "-").replace("[", "").replace("]", "")
    made = Topic(tmp_path / "objects", bucket=Bucket(f"s3://{seaweed.BUCKET}/from/{name}"))
    made.flush(0, [b'{"id":%d}' % at for at in range(20)])
    made.flush(1, [b"not json", b'{"id":100}'])
    return made


def ids(kind: str, url: str, catalog: str) -> list[int]:
    if kind == "parquet":
        found = parquet.dataset(url).to_table()
    elif kind == "delta":
        table = deltalake.DeltaTable(url, storage_options=delta.storage_options())
        rows = deltalake.QueryBuilder().register("t", table).execute("select id from t")
        found = pa.table(rows.read_all())
    else:
        loaded = IcebergTable.open(url, catalog)._load()
        assert loaded is not None
        found = loaded.scan().to_arrow()
    return sorted(found["id"].to_pylist())


@pytest.mark.parametrize("kind", ["parquet", "delta", "iceberg"])
def test_tables_in_a_bucket(topic: Topic, tmp_path: Path, kind: str) -> None:
    url = f"s3://{seaweed.BUCKET}/lake/{kind}"
    catalog = f"sqlite:///{tmp_path}/catalog.sqlite" if kind == "iceberg" else ""
    wish = ExportRequest(url, kind, catalog, JSON)
    context = Context(topic.bucket, ("orders",))
    (done,) = run_export(context, wish)
    assert (done.rows, done.dead) == (21, 1)
    topic.flush(0, [b'{"id":50}'])
    assert [done.rows for done in run_export(context, wish)] == [1]
    assert [done.commits for done in run_export(context, wish)] == [0]
    assert ids(kind, url, catalog) == [*range(20), 50, 100]
