"""Topics and their tables in a bucket, read as one: by the source alone, and by SQL on Spark."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from kafscale.spark.bucket import Bucket
from tests.support import seaweed
from tests.unit.spark.history.test_source import keep_reading
from tests.unit.spark.runner.test_runner import JSON, Place

ROOT = Path(__file__).parents[2]


@pytest.fixture
def place(
    seaweed_server: seaweed.SeaweedServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Place:
    monkeypatch.setenv("KAFSCALE_S3_ENDPOINT", seaweed_server.endpoint)
    monkeypatch.setenv("KAFSCALE_S3_ACCESS_KEY", seaweed.ACCESS_KEY)
    monkeypatch.setenv("KAFSCALE_S3_SECRET_KEY", seaweed.SECRET_KEY)
    made = Place(tmp_path)
    name = "".join(letter for letter in tmp_path.name if letter.isalnum())
    made.bucket = Bucket(f"s3://{seaweed.BUCKET}/tables/{name}")
    return made


@pytest.mark.parametrize("kind", ["delta", "iceberg"])
def test_no_row_twice_or_missing_in_a_bucket_while_exports_commit(place: Place, kind: str) -> None:
    keep_reading(place, place.topic("orders", 2, table_format=kind, **JSON), rounds=4)


def test_sql_reads_table_and_log_of_a_bucket_as_one(place: Place) -> None:
    orders = place.topic("orders", 2, table_format="iceberg", **JSON)
    orders.flush(0, [b'{"id":%d,"name":"n"}' % at for at in range(20)])
    orders.flush(1, [b'{"id":1}', b"bad", None, b'{"id":2,"name":"x"}'])
    place.run_once()
    orders.flush(0, [b'{"id":100}', None, b"worse"])
    orders.flush(1, [b'{"id":101}'])
    place.topic("plain", 1).flush(0, [b"x"])
    found = run(orders.url)
    assert found["both"] == found["log"]
    assert len(found["both"]) == 28
    # Planned anew: a record of just now is there, and comes from the log.
    assert found["files"] == 2
    assert found["narrow"] == [[offset, offset] for offset in range(20)] + [[20, 100]]
    assert found["joined"] == [[21, "n"]]


def run(url: str) -> Any:
    """In a process whose Spark has the bucket's credentials from its start."""
    ran = subprocess.run(
        [sys.executable, "-m", "tests.spark.on_bucket", url], cwd=ROOT,
        capture_output=True, text=True, timeout=400, check=False,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr[-4000:]
    return json.loads(ran.stdout.splitlines()[-1])
