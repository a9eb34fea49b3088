"""Topic to table: every record once, beside other exports, and whenever one dies. No JVM here."""

import pickle
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from kafscale.model.errors import InvalidRequest, OffsetOutOfRange
from kafscale.records.compression import Codec
from kafscale.spark.job import Context
from kafscale.spark.jobs import export
from kafscale.spark.jobs.export import ExportRequest, ExportResult, run_export
from kafscale.spark.lake import parquet, table
from kafscale.spark.lake.iceberg import IcebergTable
from kafscale.spark.values.formats import spec_of
from tests.unit.spark.topics import HOUR_MS, Topic

# Iceberg takes longer than the others together; lake/test_iceberg.py is its quick part.
KINDS = [
    pytest.param(kind, marks=pytest.mark.slow if kind == "iceberg" else ()) for kind in table.KINDS
]
JSON = spec_of("json", "id bigint, name string")


def run_here(
    context: object, units: Sequence[Any], work: Callable[[Any], Any], **_: object
) -> list[Any]:
    """What Spark does with units: each travels, is worked on, and its result travels back."""
    return [pickle.loads(pickle.dumps(work(pickle.loads(pickle.dumps(unit))))) for unit in units]


@pytest.fixture(autouse=True)
def _no_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(export, "run_here_or_on_spark", run_here)


@pytest.fixture
def topic(tmp_path: Path) -> Topic:
    made = Topic(tmp_path / "objects")
    made.flush(0, [b'{"id":%d,"name":"n%d"}' % (at, at) for at in range(10)], step_ms=HOUR_MS)
    made.flush(0, [b'{"id":10}', b"not json", None, b'{"id":"x"}'], step_ms=HOUR_MS)
    made.flush(1, [b'{"id":%d}' % at for at in range(6)], codec=Codec.ZSTD)
    return made


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


class Lake:
    """A table of one kind, as its readers see it."""

    def __init__(self, folder: Path, kind: str) -> None:
        self.url = str(folder / "lake" / "orders")
        self.kind = kind

    def wish(self, **more: Any) -> ExportRequest:
        return ExportRequest(self.url, self.kind, **more)

    def read(self, suffix: str = "") -> pa.Table:
        url = self.url + suffix
        match self.kind:
            case "parquet":
                return parquet.dataset(url).to_table()
            case "delta":
                # Not to_pyarrow_table(): its threads can abort the interpreter when it ends.
                files = deltalake.DeltaTable(url).file_uris()
                tables = [pq.read_table(file, partitioning=None) for file in files]
                return pa.concat_tables(tables, promote_options="default")
        found = IcebergTable.open(url)._load()
        assert found is not None
        return found.scan().to_arrow()

    def rows(self, suffix: str = "") -> dict[tuple[int, int], dict[str, Any]]:
        """By partition and offset, none twice."""
        rows = self.read(suffix).to_pylist()
        found = {(row["_partition"], row["_offset"]): row for row in rows}
        assert len(found) == len(rows), "a record was exported twice"
        return found


@pytest.fixture
def lake(tmp_path: Path, kind: str) -> Lake:
    return Lake(tmp_path, kind)


def export_now(topic: Topic, wish: ExportRequest) -> ExportResult:
    (done,) = run_export(Context(topic.bucket, (topic.descriptor.name,)), wish)
    return done


def check(topic: Topic, lake: Lake) -> None:
    """Every record of the topic once, as it is, in the table or among the dead letters."""
    rows = lake.rows()
    try:
        dead = lake.rows("_dead_letters")
    except (InvalidRequest, deltalake.exceptions.TableNotFoundError, AssertionError):
        dead = {}
    assert set(rows) | set(dead) == set(topic.records)
    assert not set(rows) & set(dead)
    for place, row in (rows | dead).items():
        record = topic.records[place]
        assert row["_topic"] == "orders"
        assert row["_key"] == record.key
        assert round(row["_timestamp"].timestamp() * 1000) == record.timestamp_ms
        headers = tuple((pair["key"], pair["value"]) for pair in row["_headers"] or ())
        assert headers == record.headers
    for place, row in dead.items():
        assert row["value"] == topic.records[place].value
        assert row["reason"]


def test_raw_values_arrive_as_they_are_and_only_new_ones_the_next_time(
    topic: Topic, lake: Lake
) -> None:
    first = export_now(topic, lake.wish())
    assert (first.rows, first.dead, first.commits) == (20, 0, 1)
    check(topic, lake)
    assert {p: row["value"] for p, row in lake.rows().items()} == {
        place: record.value for place, record in topic.records.items()
    }
    assert export_now(topic, lake.wish()).commits == 0
    topic.flush(1, [b"late", None])
    again = export_now(topic, lake.wish())
    assert (again.rows, again.commits) == (2, 1)
    check(topic, lake)


def test_typed_values_get_columns_and_what_does_not_parse_is_set_apart(
    topic: Topic, lake: Lake
) -> None:
    done = export_now(topic, lake.wish(values=JSON))
    assert (done.rows, done.dead) == (18, 2)
    check(topic, lake)
    rows = lake.rows()
    assert (rows[0, 3]["id"], rows[0, 3]["name"]) == (3, "n3")
    assert (rows[0, 12]["id"], rows[0, 12]["name"]) == (None, None)
    dead = lake.rows("_dead_letters")
    assert sorted(dead) == [(0, 11), (0, 13)]
    assert "malformed" in dead[0, 11]["reason"]


@pytest.mark.parametrize("by", ["day", "hour", "none"])
def test_rows_are_kept_apart_by_the_time_of_the_event(topic: Topic, lake: Lake, by: str) -> None:
    done = export_now(topic, lake.wish(partition_by=by))
    assert done.files == {"day": 1, "hour": 14, "none": 1}[by]
    check(topic, lake)
    with pytest.raises(InvalidRequest, match=f"partitioned by {by}"):
        export_now(topic, lake.wish(partition_by="none" if by != "none" else "day"))


def test_a_schema_can_grow_and_nothing_else(topic: Topic, lake: Lake) -> None:
    export_now(topic, lake.wish(values=spec_of("json", "id bigint")))
    topic.flush(1, [b'{"id":7,"name":"seven","extra":{"a":[1]}}'])
    wider = spec_of("json", "name string, extra struct<a:array<int>>")
    export_now(topic, lake.wish(values=wider))
    rows = lake.rows()
    assert (rows[1, 0]["id"], rows[1, 0]["name"]) == (0, None)
    assert (rows[1, 6]["id"], rows[1, 6]["name"], rows[1, 6]["extra"]) == (
        None,
        "seven",
        {"a": [1]},
    )
    topic.flush(1, [b'{"id":8}'])
    with pytest.raises(InvalidRequest, match="columns can be added, never changed"):
        export_now(topic, lake.wish(values=spec_of("json", "id string")))


def test_large_backlogs_are_committed_round_by_round(topic: Topic, lake: Lake) -> None:
    done = export_now(topic, lake.wish(unit_bytes=1, round_bytes=1))
    assert done.commits == 3
    check(topic, lake)


def test_of_two_exports_at_once_the_loser_plans_anew(
    topic: Topic, lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    entered = []

    def overtaken(*args: Any, **more: Any) -> list[Any]:
        results = run_here(*args, **more)
        if not entered:
            entered.append(1)
            topic.flush(0, [b'{"id":99}', b"bad again"])
            export_now(topic, lake.wish(values=JSON))
        return results

    monkeypatch.setattr(export, "run_here_or_on_spark", overtaken)
    done = export_now(topic, lake.wish(values=JSON))
    assert (done.races_lost, done.commits) == (1, 0)
    check(topic, lake)


def test_losing_at_the_very_commit_changes_nothing(
    topic: Topic, lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other export comes between the last look at the table and the commit."""
    commit = _table_class(lake.kind).commit
    entered: list[int] = []

    def overtaken(self: Any, *args: Any) -> None:
        if not self._is_dead_letters and not entered:
            entered.append(1)
            export_now(topic, lake.wish(values=JSON))
        commit(self, *args)

    _mark_dead_letters(monkeypatch, lake.kind)
    monkeypatch.setattr(_table_class(lake.kind), "commit", overtaken)
    done = export_now(topic, lake.wish(values=JSON))
    assert (done.races_lost, done.commits) == (1, 0)
    check(topic, lake)


class Crash(BaseException):
    """The process dies here."""


@pytest.mark.parametrize("survives", range(10))
def test_an_export_may_die_between_any_two_steps(
    topic: Topic, lake: Lake, monkeypatch: pytest.MonkeyPatch, survives: int
) -> None:
    steps = iter(range(100))

    def step(original: Callable[..., Any]) -> Callable[..., Any]:
        def dying(*args: Any, **more: Any) -> Any:
            if next(steps) >= survives:
                raise Crash
            found = original(*args, **more)
            if next(steps) >= survives:
                raise Crash
            return found

        return dying

    made = _table_class(lake.kind)
    with monkeypatch.context() as patched:
        patched.setattr(made, "prepare", step(made.prepare))
        patched.setattr(made, "commit", step(made.commit))
        patched.setattr(export, "run_here_or_on_spark", step(run_here))
        with pytest.raises(Crash):
            export_now(topic, lake.wish(values=JSON))
    topic.flush(1, [b'{"id":6}', b"broken"])
    export_now(topic, lake.wish(values=JSON))
    check(topic, lake)


def test_delta_readers_can_use_partitions_and_statistics(topic: Topic, tmp_path: Path) -> None:
    lake = Lake(tmp_path, "delta")
    export_now(topic, lake.wish(partition_by="hour"))
    table = deltalake.DeltaTable(lake.url)
    found = deltalake.QueryBuilder().register("t", table)
    rows = found.execute("select count(*) n from t where _hour = '2025-11-15-03' and _offset < 9")
    assert pa.table(rows.read_all())["n"].to_pylist() == [1]


def test_a_topic_created_again_begins_anew(topic: Topic, lake: Lake, tmp_path: Path) -> None:
    export_now(topic, lake.wish())
    again = Topic(tmp_path / "objects", incarnation=2)
    again.flush(0, [b"second life"])
    export_now(again, lake.wish())
    assert lake.read().num_rows == 21


def test_what_retention_took_first_is_said(topic: Topic, lake: Lake) -> None:
    export_now(topic, lake.wish())
    seen = dict(topic.records)
    topic.flush(1, [b"never seen"] * 3)
    topic.flush(1, [b"in time"])
    topic.forget(1, 9)
    with pytest.raises(OffsetOutOfRange, match="records 6 to 8 were deleted before"):
        export_now(topic, lake.wish())
    done = export_now(topic, lake.wish(allow_gaps=True))
    assert done.rows == 1
    assert set(lake.rows()) == set(seen) | {(1, 9)}


def test_a_dry_run_tells_the_cost_and_writes_nothing(
    topic: Topic, lake: Lake, tmp_path: Path
) -> None:
    context = Context(topic.bucket, ("orders",), dry_run=True)
    (done,) = run_export(context, lake.wish())
    assert (done.rows, done.files, done.commits) == (20, 1, 1)
    assert (done.objects, done.requests) == (3, 5)
    assert not Path(lake.url).parent.exists()


def test_several_topics_need_a_table_each(tmp_path: Path) -> None:
    one, other = Topic(tmp_path / "objects", "a"), Topic(tmp_path / "objects", "b")
    one.flush(0, [b"x"])
    other.flush(0, [b"y"])
    context = Context(one.bucket)
    with pytest.raises(InvalidRequest, match="several topics"):
        run_export(context, ExportRequest(str(tmp_path / "t")))
    done = run_export(context, ExportRequest(str(tmp_path / "{topic}")))
    assert [row.rows for row in done] == [1, 1]
    assert parquet.dataset(str(tmp_path / "b")).to_table()["value"].to_pylist() == [b"y"]


def _table_class(kind: str) -> Any:
    from kafscale.spark.lake import delta, iceberg

    return {
        "parquet": parquet.ParquetTable,
        "delta": delta.DeltaTable,
        "iceberg": iceberg.IcebergTable,
    }[kind]


def _mark_dead_letters(monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    made = _table_class(kind)
    is_dead = property(lambda self: self.place.url.endswith("_dead_letters"))
    monkeypatch.setattr(made, "_is_dead_letters", is_dead, raising=False)
