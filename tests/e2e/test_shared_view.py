"""What people see of topics that share logs: on the command line, in the bucket, in metrics."""

import itertools
import json
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.conftest import watched
from tests.e2e.test_cli import WITHIN_S, kafscale, said
from tests.support.broker import KafscaleProcess, SharedKafscaleProcess
from tests.support.clients.base import Record
from tests.support.clients.confluent import Confluent
from tests.support.exposition import Series, parse, series

LOGS = ["@shared/0", "@shared/1"]


@pytest.fixture(scope="module")
def broker() -> Iterator[SharedKafscaleProcess]:
    with watched(SharedKafscaleProcess()) as own:
        assert isinstance(own, SharedKafscaleProcess)
        yield own


_numbers = itertools.count()


@pytest.fixture
def topics(broker: SharedKafscaleProcess) -> list[str]:
    """Two topics of three partitions with two records each, one batch after the other."""
    names = [f"{name}-{next(_numbers)}" for name in ("clicks", "views")]
    client = Confluent(broker.bootstrap)
    for name in names:
        client.create_topic(name, 3)
    for turn in range(2):
        for name in names:
            client.produce(name, [Record(p, b"k", b"%d" % turn) for p in range(3)])
    client.close()
    return names


def described(broker: KafscaleProcess, topic: str, *words: str) -> dict[str, Any]:
    told: dict[str, Any] = json.loads(said(broker, "topics", "describe", topic, "--json", *words))
    return told


def scraped(broker: KafscaleProcess) -> dict[Series, float]:
    url = f"http://127.0.0.1:{broker.metrics_port}/metrics"
    with urllib.request.urlopen(url, timeout=10) as answer:
        return dict(parse(answer.read()))


def test_every_partition_is_shown_with_its_log_its_lane_and_its_objects(
    broker: SharedKafscaleProcess, topics: list[str]
) -> None:
    rows = [row for name in topics for row in described(broker, name)["partitions"]]
    places = {(row["log"], row["lane"]) for row in rows}
    assert len(places) == 6, "no two partitions have one lane"
    assert {log for log, _ in places} == set(LOGS)
    for row in rows:
        assert (row["earliest"], row["latest"]) == (0, 2)
        assert 1 <= row["objects"] <= 2
        assert row["bytes"] > 0
    lines = said(broker, "topics", "describe", topics[0]).splitlines()
    assert "  storage.placement=shared" in lines
    assert [line.split()[2] for line in lines[-3:]] == [row["log"] for row in rows[:3]]


def test_segments_of_a_topic_are_its_own_lanes_and_the_sum_of_what_is_described(
    broker: SharedKafscaleProcess, topics: list[str]
) -> None:
    mine = described(broker, topics[0])["partitions"]
    listed = said(broker, "segments", "list", topics[0], "--json").splitlines()
    rows = [json.loads(line) for line in listed]
    for partition in mine:
        held = [row for row in rows if row["partition"] == partition["partition"]]
        assert {(row["log"], row["lane"]) for row in held} == {
            (partition["log"], partition["lane"])
        }
        assert len(held) == partition["objects"]
        assert sum(row["bytes"] for row in held) == partition["bytes"]
        assert (held[0]["first"], held[-1]["last"]) == (0, 1)
    one = said(broker, "segments", "list", topics[0], "-p", "2", "--json").splitlines()
    assert [json.loads(line) for line in one] == [row for row in rows if row["partition"] == 2]
    batches = json.loads(
        said(broker, "segments", "inspect", rows[0]["key"], "--topic", topics[0], "--json")
    )["batches"]
    assert {row["partition"] for row in batches} <= {0, 1, 2}
    checked = json.loads(said(broker, "segments", "verify", topics[0], "--json"))
    assert (checked["logs"], checked["problems"]) == (2, [])


def test_what_was_deleted_is_counted_no_more_and_shown_as_dead(
    broker: SharedKafscaleProcess, topics: list[str]
) -> None:
    gone, left = topics
    before = described(broker, gone)["partitions"][0]
    log = {"topic": "@shared", "log": before["log"].rpartition("/")[2]}
    live = scraped(broker)[series("kafscale_log_live_bytes", **log)]
    client = Confluent(broker.bootstrap)
    # Roll-up puts what other lanes still need into one object with what goes.
    assert client.delete_records(gone, 0, 2) == 2
    client.close()
    after = described(broker, gone)["partitions"][0]
    assert (after["objects"], after["bytes"], after["records"]) == (0, 0, 0)
    assert said(broker, "segments", "list", gone, "-p", "0", "--json") == ""
    assert described(broker, left)["partitions"][0]["bytes"] > 0
    samples = scraped(broker)
    assert samples[series("kafscale_log_live_bytes", **log)] == live - before["bytes"]
    assert samples[series("kafscale_log_dead_bytes", **log)] >= before["bytes"]
    assert samples[series("kafscale_partition_bytes", topic=gone, partition="0")] == 0
    assert samples[series("kafscale_partition_records", topic=left, partition="0")] == 2


def test_shared_logs_are_counted_under_a_name_no_topic_has(
    broker: SharedKafscaleProcess, topics: list[str]
) -> None:
    samples = scraped(broker)
    for number in ("0", "1"):
        log = {"topic": "@shared", "log": number}
        assert samples[series("kafscale_log_lanes", **log)] >= 3
        assert samples[series("kafscale_log_puts_total", **log)] >= 1
        assert samples[series("kafscale_log_end_position", **log)] >= 6
    assert samples[series("kafscale_s3_requests_total", topic="@shared", operation="put")] >= 2
    assert samples[series("kafscale_partitions_untracked")] == 0


def test_a_broker_whose_bucket_is_elsewhere_tells_what_it_can(
    broker: SharedKafscaleProcess, topics: list[str], tmp_path: Path
) -> None:
    words = ["topics", "describe", topics[0], "--bootstrap", broker.bootstrap]
    ran = subprocess.run(
        [sys.executable, "-m", "kafscale.cli.main", *words],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=WITHIN_S,
        check=True,
    )
    *_, headings, first, _, _, reason = ran.stdout.splitlines()
    assert headings.split() == [
        "partition",
        "leader",
        "log",
        "lane",
        "earliest",
        "latest",
        "records",
    ]
    assert first.split() == ["0", "0", "?", "?", "0", "2", "2"]
    assert reason.startswith("objects are not shown: --config with")
    assert list(tmp_path.iterdir()) == []
    told = described(broker, topics[0], "--no-objects")
    assert told["unknown"] == "--no-objects"
    assert told["partitions"][0]["objects"] is None


def test_a_topic_of_that_name_in_another_bucket_is_not_taken_for_it(
    broker: SharedKafscaleProcess, topics: list[str]
) -> None:
    with watched(KafscaleProcess()) as other:
        assert isinstance(other, KafscaleProcess)
        said(other, "topics", "create", topics[0])
        where = f"broker.dataDir={other.data}"
        ran = kafscale(broker, "topics", "describe", topics[0], "--set", where)
    assert (ran.returncode, ran.stdout) == (1, b"")
    assert b"in this bucket is another one" in ran.stderr
