"""Spark 4.0, the oldest that is supported, in an environment of its own.

The newest is what all other tests run on. What 4.0 lacks stands in docs/pipeline/versions.md.
"""

import json
import os
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest

from tests.spark.kafka import Row, consume, create, produce
from tests.support.broker import KafscaleProcess
from tests.support.maven import Unavailable
from tests.support.venv import python_with

ROOT = Path(__file__).parents[2]
OLDEST = "4.0"
COUNT = 600


def interpreter() -> str:
    """A Python with our dependencies and the old Spark; without the compiled decoder."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    wanted = [*project["dependencies"], *project["optional-dependencies"]["spark"]]
    left_out = ("pyspark", "matplotlib", "uvloop")
    packages = [one for one in wanted if not one.startswith(left_out)]
    return python_with(f"pyspark=={OLDEST}.*", *packages)


def run(given: dict[str, str]) -> Any:
    try:
        python = interpreter()
    except Unavailable as reason:
        pytest.skip(f"Spark {OLDEST}: {reason}")
    names = ("PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON", "SPARK_HOME")
    env = {name: value for name, value in os.environ.items() if name not in names}
    ran = subprocess.run(
        [python, str(ROOT / "tests/spark/any_version.py"), json.dumps(given)],
        env={**env, "PYTHONPATH": str(ROOT / "src")}, cwd=given["scratch"],
        capture_output=True, text=True, timeout=400, check=False,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr[-4000:]
    return json.loads(ran.stdout)


def listed(rows: list[Row]) -> list[list[Any]]:
    return [
        [row.partition, row.offset, (row.key or b"").decode(), (row.value or b"").decode(),
         row.timestamp_ms, [[name, (value or b"").decode()] for name, value in row.headers]]
        for row in rows
    ]  # fmt: skip


def test_the_oldest_spark_reads_writes_exports_and_checks(
    broker: KafscaleProcess, store: str, tmp_path: Path
) -> None:
    topic = "by_old_spark"
    for name, partitions in ((topic, 2), ("old-sunk", 3), ("old-streamed", 3)):
        create(broker.bootstrap, name, partitions)
    some = [(n % 2, b"k%d" % n, b"v%d" % n) for n in range(COUNT)]
    for first in range(0, COUNT, 20):
        produce(broker.bootstrap, topic, some[first : first + 20], headers=[("h", b"%d" % first)])
    expected = listed(consume(broker.bootstrap, topic, 2))
    given = {
        "store": store,
        "bootstrap": broker.bootstrap,
        "topic": topic,
        "sunk": "old-sunk",
        "loaded": "old-loaded",
        "bulk": "old-bulk",
        "streamed": "old-streamed",
        "scratch": str(tmp_path),
    }
    found = run(given)
    print(found["version"], found["tasks"], found["stream"]["batches"], found["now"])
    assert found["version"].startswith(OLDEST)
    assert found["batch"] == expected
    assert found["filtered"] == [row for row in expected if row[0] == 1 and 100 <= row[1] < 110]
    assert found["stream"]["rows"] == expected
    assert found["sql"] == [[0, COUNT // 2], [1, COUNT // 2]]
    assert found["export"] == [[row[0], row[1], row[3]] for row in expected]
    assert found["audit"] == [COUNT, 0]

    ways = [
        consume(broker.bootstrap, given[way], 3) for way in ("sunk", "loaded", "bulk", "streamed")
    ]
    contents = [
        sorted((row.partition, row.key, row.value, row.timestamp_ms, row.headers) for row in rows)
        for rows in ways
    ]
    assert sorted(int(row.value or b"") for row in ways[0]) == list(range(200))
    assert contents[1:] == contents[:1] * 3
    # No filter reaches the source; limits are kept, but AvailableNow is a single batch.
    whole, filtered = found["tasks"]
    assert whole == filtered
    assert found["stream"]["batches"] == [150] * 4
    assert found["now"] == [150]
