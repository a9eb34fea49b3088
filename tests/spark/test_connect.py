"""The pipeline through Spark Connect: the client has the package, and so has the server."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.maven import Unavailable
from tests.support.spark_connect import SparkConnect
from tests.unit.spark.runner.test_runner import JSON, Place

ROOT = Path(__file__).parents[2]


def run(server: SparkConnect, *words: str) -> str:
    ran = subprocess.run(
        [sys.executable, "-m", *words], env=server.client_environment(), cwd=ROOT,
        capture_output=True, text=True, timeout=250, check=False,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr[-4000:]
    return ran.stdout


@pytest.mark.connect
def test_source_stream_export_and_sql_work_through_spark_connect(tmp_path: Path) -> None:
    place = Place(tmp_path / "objects")
    orders = place.topic("orders", 1, table_format="delta", **JSON)
    orders.flush(0, [b'{"id":1,"name":"a"}', b'{"id":2}'])
    place.run_once()
    orders.flush(0, [b'{"id":3}'])
    try:
        server = SparkConnect(tmp_path / "connect")
    except Unavailable as reason:
        pytest.skip(f"Spark Connect: {reason}")
    with server:
        found = json.loads(
            run(server, "tests.spark.on_connect", server.url, orders.url, str(tmp_path)).strip()
        )
        assert found == {"batch": 3, "narrow": 2, "stream": 3, "sql": [1, 2, 3], "exported": 3}
        query = "select count(value.id) n from topic.orders"
        said = run(server, "kafscale.cli.main", "sql", query, "--store", orders.url,
                   "--master", server.url, "--output", "json")  # fmt: skip
        assert json.loads(said) == {"n": 3}
