"""The catalog's readers that are not Python libraries: DuckDB, and Spark with Iceberg's runtime.

Both are told one address and one token, and nothing of any table. PyIceberg is tried in
tests/unit/spark/catalog.
"""

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from kafscale.spark.bucket import Bucket
from kafscale.spark.catalog.server import CatalogServer
from kafscale.spark.catalog.topic_tables import IcebergTopics
from tests.support import duck, maven, seaweed
from tests.support.maven import Unavailable
from tests.support.venv import python_with
from tests.unit.spark.runner.test_runner import JSON, Place

TOKEN = "secret"
SPARK = "pyspark==4.1.*"  # the newest for which there is a runtime of Iceberg
RUNTIME = "org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.11.0"
QUERY = "select id, name from topics.default.orders order by id"


def with_tables(place: Place) -> Bucket:
    orders = place.topic("orders", table_format="iceberg", **JSON)
    orders.flush(0, [b'{"id":1,"name":"tea"}', b'{"id":2}', b"bad"])
    states = place.topic("states", table_format="iceberg", table_mode="upsert", **JSON)
    for number in range(3):
        states.flush(0, [b'{"id":%d}' % number, None], keys_given=[b"a", b"b"])
        place.run_once()
    assert place.bucket is not None
    return place.bucket


def served(bucket: Bucket) -> Iterator[CatalogServer]:
    made = CatalogServer(IcebergTopics(bucket), "127.0.0.1", 0, [TOKEN])
    yield made
    made.close()


@pytest.fixture
def server(tmp_path: Path) -> Iterator[CatalogServer]:
    yield from served(with_tables(Place(tmp_path / "objects")))


@pytest.fixture
def bucket_server(
    seaweed_server: seaweed.SeaweedServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[CatalogServer]:
    monkeypatch.setenv("KAFSCALE_S3_ENDPOINT", seaweed_server.endpoint)
    monkeypatch.setenv("KAFSCALE_S3_ACCESS_KEY", seaweed.ACCESS_KEY)
    monkeypatch.setenv("KAFSCALE_S3_SECRET_KEY", seaweed.SECRET_KEY)
    place = Place(tmp_path)
    place.bucket = Bucket(f"s3://{seaweed.BUCKET}/readers")
    yield from served(with_tables(place))


def test_duckdb_reads_topics_in_a_bucket_as_tables(
    bucket_server: CatalogServer, seaweed_server: seaweed.SeaweedServer
) -> None:
    try:
        found = duck.ask(
            duck.bucket_secret(seaweed_server.endpoint, seaweed.ACCESS_KEY, seaweed.SECRET_KEY),
            f"CREATE SECRET catalog (TYPE iceberg, TOKEN '{TOKEN}')",
            "ATTACH 'kafscale' AS topics (TYPE iceberg, SECRET catalog, "
            "ACCESS_DELEGATION_MODE 'none', "  # a reader brings its own credentials for the bucket
            f"ENDPOINT 'http://127.0.0.1:{bucket_server.port}')",
            "select name from (SHOW ALL TABLES) order by name",
            "select id, name from topics.readers.orders order by id",
            "select id from topics.readers.states",
        )
    except Unavailable as reason:
        pytest.skip(f"DuckDB: {reason}")
    names, orders, states = found[-3:]
    assert [row[0] for row in names] == ["orders", "orders_dead_letters", "states"]
    assert orders == [[1, "tea"], [2, None]]
    assert states == [[2]]


def test_spark_with_icebergs_runtime_reads_topics_as_tables(server: CatalogServer) -> None:
    try:
        (jar,) = maven.jars(RUNTIME)
        python = python_with(SPARK, "setuptools")
    except Unavailable as reason:
        pytest.skip(f"Spark with Iceberg's runtime: {reason}")
    names = ("PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON", "SPARK_HOME", "PYTHONPATH")
    ran = subprocess.run(
        [python, str(Path(__file__).parent / "catalog_reader.py"), jar,
         f"http://127.0.0.1:{server.port}", TOKEN, QUERY],
        env={name: value for name, value in os.environ.items() if name not in names},
        capture_output=True, text=True, timeout=400, check=False,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr[-4000:]
    tables, rows = json.loads(ran.stdout.splitlines()[-1])
    assert tables == ["orders", "orders_dead_letters", "states"]
    assert rows == [[1, "tea"], [2, None]]
