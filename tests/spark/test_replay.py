"""A lake table or a topic becomes a topic again."""

import json
from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from kafscale.model.errors import InvalidRequest, NotWritten, TopicExists
from kafscale.spark.bucket import Bucket
from kafscale.spark.job import Context, Report
from kafscale.spark.jobs import replay
from kafscale.spark.jobs.replay import ReplayRequest
from kafscale.spark.sink import producing
from tests.spark.kafka import consume, create, produce
from tests.support.broker import KafscaleProcess

START_MS = 1_700_000_000_000


@pytest.fixture
def context(spark: SparkSession, store: str) -> Context:
    return Context(Bucket(store), session=spark)


def table(first: int, count: int) -> pa.Table:
    numbers = range(first, first + count)
    return pa.table(
        {
            "_key": [f"k{at % 5}".encode() for at in numbers],
            "_timestamp": pa.array([START_MS + at for at in numbers], pa.timestamp("ms", "UTC")),
            "number": pa.array(numbers, pa.int64()),
            "word": [f"w{at}" for at in numbers],
        }
    )


def run(context: Context, **wanted: Any) -> Report:
    return replay.replay(context, ReplayRequest(**wanted))


def test_a_window_of_a_topic_becomes_a_new_topic_once(
    context: Context, broker: KafscaleProcess
) -> None:
    create(broker.bootstrap, "again", 2)
    some = [(at % 2, b"k%d" % (at % 7), b"%d" % at) for at in range(300)]
    produce(broker.bootstrap, "again", some, headers=[("h", b"x")])
    wanted = {
        "topic": "again",
        "into": "again-part",
        "since_ms": START_MS + 100,
        "until_ms": START_MS + 200,
        "where": "cast(string(value) as int) % 2 = 0",
        "partitions": 3,
    }
    assert run(context, **wanted).facts["records"] == 50
    found = consume(broker.bootstrap, "again-part", 3)
    assert sorted(int(row.value or b"") for row in found) == list(range(100, 200, 2))
    assert all(row.timestamp_ms == START_MS + int(row.value or b"") for row in found)
    assert all(row.headers == (("h", b"x"),) for row in found)
    assert "earlier run" in run(context, **wanted).notes[0]
    with pytest.raises(TopicExists):
        run(context, **{**wanted, "where": ""})


def test_tables_of_a_lake_become_topics(
    context: Context, broker: KafscaleProcess, tmp_path: Path
) -> None:
    deltalake.write_deltalake(tmp_path / "delta", table(0, 50))
    deltalake.write_deltalake(tmp_path / "delta", table(50, 50), mode="append")
    run(context, lake=str(tmp_path / "delta"), into="from-delta", partitions=2)
    found = consume(broker.bootstrap, "from-delta", 2)
    rows = sorted((json.loads(row.value or b"")["number"], row) for row in found)
    assert [number for number, _ in rows] == list(range(100))
    for number, row in rows:
        assert json.loads(row.value or b"") == {"number": number, "word": f"w{number}"}
        assert row.key == b"k%d" % (number % 5)
        assert row.timestamp_ms == START_MS + number
    (tmp_path / "plain").mkdir()
    for number in range(3):
        pq.write_table(table(10 * number, 10), tmp_path / "plain" / f"{number}.parquet")
    context.dry_run = True
    plan = run(context, lake=str(tmp_path / "plain"), into="from-plain", partitions=1)
    assert (plan.facts["objects_read"], plan.facts["records_at_most"]) == (3, 30)
    context.dry_run = False
    run(
        context,
        lake=str(tmp_path / "plain"),
        into="from-plain",
        partitions=1,
        columns={"value": "word", "key": "string(number)"},
        order_by="number desc",
    )
    found = consume(broker.bootstrap, "from-plain", 1)
    assert [row.value for row in found] == [b"w%d" % at for at in range(29, -1, -1)]


def test_through_brokers_finished_steps_are_not_repeated(
    context: Context, broker: KafscaleProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    create(broker.bootstrap, "stepped", 2)
    produce(broker.bootstrap, "stepped", [(at % 2, b"k%d" % at, b"%d" % at) for at in range(100)])
    create(broker.bootstrap, "stepped-out", 2)
    wanted = {
        "topic": "stepped",
        "into": "stepped-out",
        "bootstrap": broker.bootstrap,
        "step_records": 20,
    }
    honest = replay._write_step
    calls: list[int] = []

    def dying(*args: Any) -> int:
        calls.append(1)
        if len(calls) == 3:
            raise NotWritten("the driver dies here")
        return honest(*args)

    monkeypatch.setattr(replay, "_write_step", dying)
    with pytest.raises(NotWritten):
        run(context, **wanted)
    report = run(context, **wanted)
    assert report.facts == {
        "into": "stepped-out",
        "records": 20,
        "steps": 3,
        "steps_skipped": 2,
    }
    found = consume(broker.bootstrap, "stepped-out", 2)
    assert sorted(int(row.value or b"") for row in found) == list(range(100))
    last: dict[bytes, int] = {}
    for row in found:
        assert last.get(row.key or b"", -1) < row.offset
    assert not context.bucket.run(lambda store: store.find("default/@replay"))


def test_a_rate_is_kept(context: Context, broker: KafscaleProcess, tmp_path: Path) -> None:
    pq.write_table(table(0, 400), tmp_path / "t.parquet")
    create(broker.bootstrap, "slowly", 1)
    run(
        context,
        lake=str(tmp_path / "t.parquet"),
        into="slowly",
        bootstrap=broker.bootstrap,
        rate=200.0,
        columns={"timestamp": "cast(null as timestamp)"},
    )
    times = [row.timestamp_ms for row in consume(broker.bootstrap, "slowly", 1)]
    assert len(times) == 400
    assert times[-1] - times[0] >= 1000


def test_rows_pass_at_the_pace_that_is_asked_for() -> None:
    now = [0.0]
    slept: list[float] = []

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        now[0] += seconds

    pace = producing.Pace(50, lambda: now[0], sleep)
    for _ in range(10):
        pace.let_pass(10)
    assert now[0] == pytest.approx(2.0)
    assert len(slept) == 10


@pytest.mark.parametrize(
    ("wanted", "complaint"),
    [
        ({"into": "x"}, "what to replay"),
        ({"into": "x", "lake": "p"}, "say how"),
        ({"into": "x", "lake": "p", "partitions": 1, "rate": 1.0}, "--rate"),
    ],
)
def test_what_makes_no_sense_is_refused(store: str, wanted: dict[str, Any], complaint: str) -> None:
    with pytest.raises(InvalidRequest, match=complaint):
        run(Context(Bucket(store)), **wanted)


def test_times_are_read_as_people_write_them() -> None:
    assert replay.read_time("1700000000000") == START_MS
    assert replay.read_time("2023-11-14T22:13:20Z") == START_MS
    assert replay.read_time("2023-11-14T22:13:20") == START_MS
    with pytest.raises(InvalidRequest, match="write a time"):
        replay.read_time("yesterday")
