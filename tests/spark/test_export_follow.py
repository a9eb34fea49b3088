"""`export --follow` in a process of its own: it goes on until it is told to stop."""

import json
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from kafscale.spark.lake.parquet import ParquetTable
from kafscale.spark.lake.table_folder import TableFolder
from tests.unit.spark.jobs.test_export import Lake, check
from tests.unit.spark.topics import Topic


@pytest.fixture
def topic(tmp_path: Path) -> Topic:
    made = Topic(tmp_path / "objects")
    made.flush(0, [b"one", b"two"])
    return made


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return Lake(tmp_path, "parquet")


def command(topic: Topic, lake: Lake, *more: str) -> list[str]:
    words = ["pipeline", "export", "--store", topic.url, "--topic", "orders", "--json", *more]
    return [sys.executable, "-m", "kafscale.cli.main", *words, "--table", lake.url]


@pytest.fixture
def follower(topic: Topic, lake: Lake) -> Iterator[subprocess.Popen[str]]:
    started = subprocess.Popen(
        command(topic, lake, "--follow", "--interval", "0.1"),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    yield started
    if started.poll() is None:
        started.kill()
    started.communicate()


def wait_for(lake: Lake, rows: int, follower: subprocess.Popen[str]) -> None:
    deadline = time.monotonic() + 200
    table = ParquetTable(TableFolder(lake.url))
    while sum(file.rows for file in table.files()) < rows:
        assert follower.poll() is None, follower.communicate()
        assert time.monotonic() < deadline, "the export did not follow"
        time.sleep(0.05)


@pytest.mark.parametrize("kind", [signal.SIGTERM, signal.SIGINT])
def test_an_export_follows_until_it_is_told_to_stop(
    topic: Topic, lake: Lake, follower: subprocess.Popen[str], kind: signal.Signals
) -> None:
    wait_for(lake, 2, follower)
    for count in range(3, 6):
        topic.flush(count % 2, [b"more"])
        wait_for(lake, count, follower)
    follower.send_signal(kind)
    out, err = follower.communicate(timeout=120)
    assert follower.returncode == 0, err
    (row,) = json.loads(out)["rows"]
    assert (row["records"], row["commits"]) == (5, 4)
    check(topic, lake)
    topic.flush(0, [b"later"])
    again = subprocess.run(
        command(topic, lake), capture_output=True, text=True, check=True, timeout=120
    )
    assert json.loads(again.stdout)["rows"][0]["records"] == 1
    check(topic, lake)
