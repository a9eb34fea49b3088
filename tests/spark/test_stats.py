"""Statistics of a bucket that a broker has left, on Spark: groups and their lag."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from kafscale.spark.bucket import Bucket
from kafscale.spark.job import Context
from kafscale.spark.jobs import stats
from tests.support.broker import KafscaleProcess
from tests.support.clients.base import Record
from tests.support.clients.confluent import Confluent
from tests.support.seaweed import BUCKET, SeaweedServer


def leave_a_group_behind(folder: Path, env: dict[str, str]) -> KafscaleProcess:
    """A broker that has stopped in good order, a group that has not read everything."""
    with KafscaleProcess(folder, env) as broker:
        client = Confluent(broker.bootstrap)
        client.create_topic("orders", 2)
        client.produce("orders", [Record(n % 2, b"k", b"%d" % n) for n in range(100)])
        client.commit("slow", "orders", {0: 10, 1: 50})
        assert broker.stop() == 0
    return broker


def check(context: Context) -> None:
    found = stats.gather(context)
    assert [(lag.group, lag.partition, lag.records) for lag in found.lags] == [
        ("slow", 0, 40),
        ("slow", 1, 0),
    ]
    assert found.topics[0].sample.records == 100
    report = stats.report_of(found)
    assert "group slow: 40 behind in orders, partition 0" in report.notes
    assert 0 <= report.facts["offsets_age_s"] < 300
    assert any("from the bucket's checkpoint of " in note for note in report.notes)


def test_the_lag_of_groups_is_known_without_the_metadata_file(
    spark: SparkSession, tmp_path: Path
) -> None:
    broker = leave_a_group_behind(tmp_path, {})
    (broker.data / "metadata.db").unlink()
    check(Context(Bucket(f"file://{broker.data}"), session=spark))


def test_the_lag_of_groups_is_known_from_a_bucket_alone(
    seaweed_server: SeaweedServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    env = seaweed_server.broker_environment("lags")
    leave_a_group_behind(tmp_path, env)
    for name, value in env.items():
        monkeypatch.setenv(name, value)
    check(Context(Bucket(f"s3://{BUCKET}/lags")))
