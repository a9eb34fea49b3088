"""What crashed exports leave behind is deleted, and nothing else. No JVM here."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from kafscale.log.protocol.commits import LostRace
from kafscale.spark.jobs import export
from kafscale.spark.lake import attempts
from kafscale.spark.lake.tables import open_table
from tests.unit.spark.jobs.test_export import (
    JSON,
    KINDS,
    Crash,
    Lake,
    _table_class,
    check,
    export_now,
    run_here,
)
from tests.unit.spark.topics import Topic

AT_ONCE_MS = -60_000  # everything is old


@pytest.fixture(autouse=True)
def _no_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(export, "run_here_or_on_spark", run_here)


@pytest.fixture
def topic(tmp_path: Path) -> Topic:
    made = Topic(tmp_path / "objects")
    made.flush(0, [b'{"id":1}', b"broken", b'{"id":2}'])
    made.flush(1, [b'{"id":3}'])
    return made


@pytest.fixture(params=KINDS)
def lake(tmp_path: Path, request: pytest.FixtureRequest) -> Lake:
    return Lake(tmp_path, request.param)


def files(lake: Lake) -> set[Path]:
    return set(Path(lake.url).parent.rglob("part-*.parquet"))


def sweep(lake: Lake, grace_ms: int = AT_ONCE_MS) -> int:
    return attempts.sweep(open_table(lake.url, lake.kind), grace_ms)


@pytest.mark.parametrize("after_commit", [False, True])
@pytest.mark.parametrize("step", ["rows", "dead"])
def test_files_of_an_export_that_died_are_deleted_unless_they_count(
    topic: Topic,
    lake: Lake,
    monkeypatch: pytest.MonkeyPatch,
    step: str,
    after_commit: bool,
) -> None:
    made = _table_class(lake.kind)
    commit = made.commit

    def dying(self: Any, *args: Any) -> None:
        if self.place.url.endswith("_dead_letters") is not (step == "dead"):
            commit(self, *args)
            return
        if after_commit:
            commit(self, *args)
        raise Crash

    with monkeypatch.context() as patched:
        patched.setattr(made, "commit", dying)
        with pytest.raises(Crash):
            export_now(topic, lake.wish(values=JSON))
    left = files(lake)
    assert len(left) == 2, "rows and a dead letter"
    topic.flush(1, [b'{"id":4}'])
    export_now(topic, lake.wish(values=JSON))
    assert left <= files(lake), "it may still be at work"
    written = files(lake)
    swept = sweep(lake)
    assert swept == len(written) - len(files(lake))
    counted = {"rows": {False: 1, True: 0}, "dead": {False: 2, True: 1}}[step][after_commit]
    assert len(left - files(lake)) == counted
    check(topic, lake)
    assert sweep(lake) == 0
    assert not list(Path(lake.url).rglob("*.begun"))


def test_files_of_tasks_that_ran_twice_are_deleted(
    topic: Topic, lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    def twice(context: object, units: Sequence[Any], work: Callable[..., Any], **_: object) -> Any:
        run_here(context, units, work)
        return run_here(context, units, work)

    monkeypatch.setattr(export, "run_here_or_on_spark", twice)
    export_now(topic, lake.wish(values=JSON))
    assert len(files(lake)) == 4
    assert sweep(lake, attempts.GRACE_MS) == 0
    assert sweep(lake) == 2
    check(topic, lake)


def test_a_round_that_took_too_long_commits_nothing(topic: Topic, tmp_path: Path) -> None:
    table = open_table(str(tmp_path / "t"), "parquet")
    attempts.Round(table).check_in_time()
    with pytest.raises(LostRace, match="took too long"):
        attempts.Round(table, grace_ms=-10).check_in_time()


def test_files_of_other_writers_are_not_counted_as_own() -> None:
    assert attempts.round_of("data/_day=2026-01-01/part-0a-0b-0001.parquet") == "0a"
    for other in ("part-00000-8a7f.c000.snappy.parquet", "x.parquet", "_delta_log/1.json"):
        assert attempts.round_of(other) == ""
