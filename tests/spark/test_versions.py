"""Older releases of Spark, each in an environment of its own.

The newest is what all other tests run on. `make test` runs the oldest that is supported,
`make test-versions` all of them. What they lack stands in docs/pipeline/versions.md.
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
BETWEEN = ("4.1", "4.2")
COUNT = 600
TABLE = {
    "table_format": "delta", "table_value_format": "json", "table_value_schema": "id bigint",
}  # fmt: skip


def interpreter(version: str) -> str:
    """A Python with our dependencies and the older Spark; without the compiled decoder."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    wanted = [*project["dependencies"], *extras["spark"], *extras["delta"]]
    left_out = ("pyspark", "matplotlib", "uvloop")
    packages = [one for one in wanted if not one.startswith(left_out)]
    return python_with(f"pyspark=={version}.*", *packages)


def run(version: str, given: dict[str, str]) -> Any:
    try:
        python = interpreter(version)
    except Unavailable as reason:
        pytest.skip(f"Spark {version}: {reason}")
    names = ("PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON", "SPARK_HOME")
    env = {name: value for name, value in os.environ.items() if name not in names}
    ran = subprocess.run(
        [python, str(ROOT / "tests/spark/any_version.py"), json.dumps(given)],
        env={**env, "PYTHONPATH": str(ROOT / "src")}, cwd=given["scratch"],
        capture_output=True, text=True, timeout=1000, check=False,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr[-4000:]
    return json.loads(ran.stdout)


def listed(rows: list[Row]) -> list[list[Any]]:
    return [
        [row.partition, row.offset, (row.key or b"").decode(), (row.value or b"").decode(),
         row.timestamp_ms, [[name, (value or b"").decode()] for name, value in row.headers]]
        for row in rows
    ]  # fmt: skip


@pytest.mark.parametrize(
    "version", [OLDEST, *(pytest.param(one, marks=pytest.mark.versions) for one in BETWEEN)]
)
def test_an_older_spark_reads_writes_exports_keeps_tables_and_checks(
    broker: KafscaleProcess, store: str, tmp_path: Path, version: str
) -> None:
    old = f"old{version.replace('.', '')}{tmp_path.name[-1]}"  # a second try has names of its own
    topic = f"by_{old}"
    for name, partitions in ((topic, 2), (f"{old}-sunk", 3), (f"{old}-streamed", 3)):
        create(broker.bootstrap, name, partitions)
    for name, mode in ((f"{old}_declared", "append"), (f"{old}_upserted", "upsert")):
        create(broker.bootstrap, name, 2, table_mode=mode, **TABLE)
    some = [(n % 2, b"k%d" % n, b"v%d" % n) for n in range(COUNT)]
    for first in range(0, COUNT, 20):
        produce(broker.bootstrap, topic, some[first : first + 20], headers=[("h", b"%d" % first)])
    expected = listed(consume(broker.bootstrap, topic, 2))
    given = {
        "store": store,
        "bootstrap": broker.bootstrap,
        "topic": topic,
        "sunk": f"{old}-sunk",
        "loaded": f"{old}-loaded",
        "bulk": f"{old}-bulk",
        "streamed": f"{old}-streamed",
        "declared": f"{old}_declared",
        "upserted": f"{old}_upserted",
        "scratch": str(tmp_path),
    }
    found = run(version, given)
    print(found["version"], found["tasks"], found["stream"]["batches"], found["now"])
    assert found["version"].startswith(version)
    assert found["batch"] == expected
    assert found["filtered"] == [row for row in expected if row[0] == 1 and 100 <= row[1] < 110]
    assert found["stream"]["rows"] == expected
    assert found["sql"] == [[0, COUNT // 2], [1, COUNT // 2]]
    assert found["export"] == [[row[0], row[1], row[3]] for row in expected]
    assert found["audit"] == [COUNT, 0]
    assert found["tables"] == {"rows": [40, 9], "sql": [60, sum(range(60)), 60]}

    ways = [
        consume(broker.bootstrap, given[way], 3) for way in ("sunk", "loaded", "bulk", "streamed")
    ]
    contents = [
        sorted((row.partition, row.key, row.value, row.timestamp_ms, row.headers) for row in rows)
        for rows in ways
    ]
    assert sorted(int(row.value or b"") for row in ways[0]) == list(range(200))
    assert contents[1:] == contents[:1] * 3
    # What a release lacks: filters reach the source from 4.1 on, AvailableNow has several batches
    # from 4.2 on. Limits are kept by all.
    whole, filtered = found["tasks"]
    assert (filtered < whole) == (version != OLDEST)
    assert found["stream"]["batches"] == [150] * 4
    assert found["now"] == ([150] if version in (OLDEST, "4.1") else [150] * 4)
