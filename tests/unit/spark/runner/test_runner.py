"""The runner on a bucket of files, without Spark: little work is done in its own process."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.table import StaticTable

from kafscale.log.formats import keys
from kafscale.log.formats.segment import ANY_TIME
from kafscale.model.errors import ObjectExists
from kafscale.objects.files import FileObjectStore
from kafscale.spark.bucket import Bucket
from kafscale.spark.job import Context
from kafscale.spark.jobs.stopping import Stop
from kafscale.spark.lake.table import BUCKET_CATALOG
from kafscale.spark.lake.tables import open_table
from kafscale.spark.run_records import KEPT, RunRecord, recorded_runs
from kafscale.spark.runner import cuts, planner, tasks
from kafscale.spark.runner.declared import Allowances
from kafscale.spark.runner.membership import RunnerMembership, alive_runners
from kafscale.spark.runner.planner import Rhythm
from kafscale.spark.runner.run import shared
from kafscale.spark.runner.runner import Runner, RunnerOptions
from kafscale.spark.runner.series import RunnerSeries
from kafscale.spark.runner.status import run as status
from kafscale.spark.views import PartitionView, read_all_views
from tests.unit.spark.topics import T0_MS, Topic

EXPORTS_ONLY = Rhythm({})
JSON = {"table.value.format": "json", "table.value.schema": "id bigint, name string"}


class Place:
    """A bucket with topics that declare tables."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.bucket: Bucket | None = None

    def topic(self, name: str, partitions: int = 1, **configs: str) -> Topic:
        named = {key.replace("_", "."): value for key, value in configs.items()}
        made = Topic(self.folder, name, partitions, bucket=self.bucket, configs=named)
        self.bucket = made.bucket
        return made

    def run_once(
        self, allowed: Allowances | None = None, rhythm: Rhythm = EXPORTS_ONLY, **more: Any
    ) -> Runner:
        assert self.bucket is not None
        options = RunnerOptions(allowed or Allowances(), rhythm, once=True, **more)
        series = RunnerSeries(self.bucket.clock)
        runner = Runner(shared(Context(self.bucket)), options, series)
        runner.run(Stop())
        return runner

    def table(self, name: str) -> Path:
        return self.folder / "default" / "@tables" / name

    def delta(self, name: str) -> list[dict[str, Any]]:
        """By a library that knows nothing of us."""
        files = deltalake.DeltaTable(self.table(name)).file_uris()
        tables = [pq.read_table(file, partitioning=None) for file in files]
        return pa.concat_tables(tables, promote_options="default").to_pylist() if tables else []

    def iceberg(self, name: str) -> list[dict[str, Any]]:
        """The same for Iceberg, by nothing but the newest file of metadata."""
        newest = max(
            (self.table(name) / "metadata").glob("v*.metadata.json"),
            key=lambda path: int(path.name[1:].partition(".")[0]),
        )
        return StaticTable.from_metadata(f"file://{newest}").scan().to_arrow().to_pylist()


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path / "objects")


def by_key(rows: list[dict[str, Any]]) -> Mapping[bytes, Any]:
    assert len({row["_key"] for row in rows}) == len(rows), "a key has two rows"
    return {row["_key"]: row["id"] for row in rows}


def test_each_declared_table_is_brought_up_to_date_and_others_are_left_alone(place: Place) -> None:
    orders = place.topic("orders", table_format="delta", **JSON)
    place.topic("plain").flush(0, [b"x"])
    orders.flush(0, [b'{"id":%d,"name":"n"}' % at for at in range(5)])
    runner = place.run_once()
    assert (runner.done, runner.failed) == (1, 0)
    assert sorted(row["id"] for row in place.delta("orders")) == [0, 1, 2, 3, 4]
    assert not place.table("plain").exists()
    orders.flush(0, [b'{"id":5}'])
    place.run_once()
    assert sorted(row["id"] for row in place.delta("orders")) == [0, 1, 2, 3, 4, 5]


def test_an_iceberg_table_needs_no_catalog_but_its_folder(place: Place) -> None:
    orders = place.topic("orders", table_format="iceberg", **JSON)
    for number in range(3):
        orders.flush(0, [b'{"id":%d}' % number], keys_given=[b"k"])
        place.run_once()
    assert sorted(row["id"] for row in place.iceberg("orders")) == [0, 1, 2]


@pytest.mark.parametrize("kind", ["delta", "iceberg"])
def test_an_upsert_table_has_the_newest_row_of_each_key_and_none_of_tombstones(
    place: Place, kind: str
) -> None:
    states = place.topic("states", 2, table_format=kind, table_mode="upsert", **JSON)
    read = place.delta if kind == "delta" else place.iceberg
    states.flush(0, [b'{"id":1}', b'{"id":2}', b'{"id":3}'], keys_given=[b"a", b"b", b"a"])
    states.flush(1, [b'{"id":10}'], keys_given=[b"c"])
    place.run_once()
    assert by_key(read("states")) == {b"a": 3, b"b": 2, b"c": 10}
    states.flush(0, [None, b'{"id":5}'], keys_given=[b"a", b"b"])
    states.flush(1, [b'{"id":11}', None, b'{"id":12}'], keys_given=[b"d", b"c", b"d"])
    place.run_once()
    assert by_key(read("states")) == {b"b": 5, b"d": 12}
    states.flush(0, [None], keys_given=[b"b"])
    states.flush(1, [None], keys_given=[b"d"])
    place.run_once()
    assert read("states") == []
    states.flush(0, [b'{"id":7}'], keys_given=[b"a"])
    place.run_once()
    assert by_key(read("states")) == {b"a": 7}


def test_of_a_key_in_two_partitions_the_later_record_counts(place: Place) -> None:
    states = place.topic("states", 2, table_format="delta", table_mode="upsert", **JSON)
    states.flush(1, [b'{"id":1}'], keys_given=[b"a"], from_ms=T0_MS + 5000)
    place.run_once()
    states.flush(0, [b'{"id":2}'], keys_given=[b"a"], from_ms=T0_MS)
    place.run_once()
    assert by_key(place.delta("states")) == {b"a": 1}
    states.flush(0, [b'{"id":3}'], keys_given=[b"a"], from_ms=T0_MS + 9000)
    place.run_once()
    assert by_key(place.delta("states")) == {b"a": 3}


def test_upsert_tables_grow_columns_and_records_without_a_key_are_dead_letters(
    place: Place, tmp_path: Path
) -> None:
    states = place.topic("states", table_format="delta", table_mode="upsert", **JSON)
    states.flush(0, [b'{"id":1}', b'{"id":2}', b"bad"], keys_given=[b"a", None, b"c"])
    place.run_once()
    assert by_key(place.delta("states")) == {b"a": 1}
    dead = place.delta("states_dead_letters")
    assert sorted(row["_offset"] for row in dead) == [1, 2]
    grown = {**states.descriptor.configs, "table.value.schema": "id bigint, name string, more int"}
    changed = type(states.descriptor)(
        **{
            field: getattr(states.descriptor, field)
            for field in states.descriptor.__struct_fields__
            if field != "configs"
        },
        configs=grown,
    )
    states.bucket.put_new(keys.descriptor("default/states", 2), [changed.encode()])
    states.flush(0, [b'{"id":3,"more":4}'], keys_given=[b"b"])
    place.run_once()
    rows = {row["_key"]: (row["id"], row["more"]) for row in place.delta("states")}
    assert rows == {b"a": (1, None), b"b": (3, 4)}


def test_a_poisoned_topic_does_not_hold_up_the_others(place: Place) -> None:
    bad = place.topic("bad", table_format="delta", table_priority="9")
    good = place.topic("good", table_format="delta")
    bad.flush(0, [b"x"])
    good.flush(0, [b"y"])
    key = keys.segment(bad.log(0), 0)
    body = bytearray(bad.bucket.read(key))
    body[70:90] = bytes(20)

    async def damage(store: Any) -> None:
        await store.delete([key])
        await store.put_new(key, [bytes(body)])

    bad.bucket.run(damage)
    runner = place.run_once()
    assert (runner.done, runner.failed) == (1, 1)
    assert [row["value"] for row in place.delta("good")] == [b"y"]
    (failed,) = (run.ended for run in recorded_runs(good.bucket, "export") if not run.ended.ok)
    assert failed.topics == ["bad"]
    assert failed.error


def test_a_library_that_panics_counts_as_a_failure(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    class PanicException(BaseException):  # as of libraries in Rust
        pass

    def panic(*_: Any) -> None:
        raise PanicException("not implemented")

    place.topic("orders", table_format="delta").flush(0, [b"x"])
    monkeypatch.setattr(tasks, "export_request", panic)
    runner = place.run_once()
    assert (runner.done, runner.failed) == (0, 1)
    assert runner._past[planner.EXPORT, "orders"].failures == 1


def test_tables_lie_in_the_bucket_unless_the_operator_allows_another_place(
    place: Place, tmp_path: Path
) -> None:
    elsewhere = tmp_path / "lake"
    topic = place.topic("orders", table_format="delta", table_location=f"{elsewhere}/{{topic}}")
    topic.flush(0, [b"x"])
    refused = place.run_once()
    assert refused.failed == 1
    assert not elsewhere.exists()
    (run,) = recorded_runs(topic.bucket, "export")
    assert run.ended is not None
    assert "--allow-location" in run.ended.error
    assert place.run_once(Allowances((str(elsewhere),))).failed == 0
    assert deltalake.DeltaTable(elsewhere / "orders").file_uris()


def test_a_registry_that_the_operator_has_not_named_is_not_asked(place: Place) -> None:
    topic = place.topic(
        "orders",
        table_format="delta",
        table_value_format="avro",
        table_schema_registry="http://127.0.0.1:1",
    )
    topic.flush(0, [b"x"])
    assert place.run_once().failed == 1
    (run,) = recorded_runs(topic.bucket, "export")
    assert run.ended is not None
    assert "--allow-registry" in run.ended.error


def test_runs_leave_records_and_the_newest_fifty_stay(place: Place) -> None:
    topic = place.topic("orders", table_format="delta")
    topic.flush(0, [b"x"])
    runner = place.run_once()
    (run,) = recorded_runs(topic.bucket, "export")
    assert run.began.runner == runner.name
    assert run.ended is not None
    assert run.ended.ok
    assert run.ended.rows[0]["records"] == 1
    place.run_once()  # nothing is new: nothing is written down
    assert len(recorded_runs(topic.bucket, "export")) == 1
    for _ in range(KEPT + 5):
        RunRecord(topic.bucket, "export").end()
    assert len(recorded_runs(topic.bucket, "export")) == KEPT


def test_maintenance_is_done_when_its_time_comes(place: Place) -> None:
    topic = place.topic("orders", table_format="delta", table_file_bytes="1048576")
    for number in range(6):
        topic.flush(0, [b"%d" % number])
        place.run_once()
    assert len(deltalake.DeltaTable(place.table("orders")).file_uris()) == 6
    runner = place.run_once(rhythm=Rhythm({planner.TABLE_UPKEEP: 1}), parallel=1)
    assert runner.failed == 0
    table = deltalake.DeltaTable(place.table("orders"))
    assert len(table.file_uris()) == 1
    assert sorted(row["_offset"] for row in place.delta("orders")) == list(range(6))


@pytest.mark.parametrize("kind", ["delta", "iceberg", "parquet"])
def test_tables_of_dead_letters_are_kept_in_shape_too(place: Place, kind: str) -> None:
    topic = place.topic("orders", table_format=kind, table_snapshot_retention_ms="60000", **JSON)
    for number in range(6):
        topic.flush(0, [b"bad %d" % number])
        place.run_once()
    table = open_table(
        str(place.table("orders_dead_letters")), kind, BUCKET_CATALOG if kind == "iceberg" else ""
    )
    before = table.state(())
    assert before is not None
    assert len(before.files) == 6
    assert place.run_once(rhythm=Rhythm({planner.TABLE_UPKEEP: 1}), parallel=1).failed == 0
    after = table.state(())
    assert after is not None
    assert [file.rows for file in after.files] == [6]


def test_a_new_runner_knows_from_the_records_when_maintenance_was_done(place: Place) -> None:
    place.topic("orders", table_format="delta").flush(0, [b"1"])
    place.run_once(rhythm=Rhythm({planner.TABLE_UPKEEP: 1, planner.RETAIN: 1}))
    runner = place.run_once()
    assert {(planner.TABLE_UPKEEP, "orders"), (planner.RETAIN, "orders")} <= runner._past.keys()


def test_old_rows_leave_the_table(place: Place) -> None:
    topic = place.topic("orders", table_format="delta", table_retention_ms="1000")
    topic.flush(0, [b"old"])
    topic.flush(0, [b"new"], from_ms=topic.bucket.clock.now_ms() + 3_600_000)
    place.run_once()
    assert len(place.delta("orders")) == 2
    place.run_once(rhythm=Rhythm({planner.TABLE_UPKEEP: 1}), parallel=1)
    assert [row["value"] for row in place.delta("orders")] == [b"new"]


def test_tables_of_a_group_are_cut_at_one_moment(place: Place) -> None:
    first = place.topic("a", table_format="delta", table_group="shop")
    second = place.topic("b", table_format="delta", table_group="shop")
    first.flush(0, [b"1", b"2"])
    second.flush(0, [b"3"])
    later = first.bucket.clock.now_ms() + 3_600_000
    early = _objects(place, first, second)
    first.flush(0, [b"late"], from_ms=later)
    _made_later(early, -3600)
    _made_later(_objects(place, first) - early, 3600)  # so it belongs to a later cut
    place.run_once()
    cut = cuts.newest_cut(first.bucket, "shop")
    assert cut is not None
    assert {one.topic: one.ends for one in cut.tables} == {"a": [2], "b": [1]}
    assert len(place.delta("a")) == 2
    history = deltalake.DeltaTable(place.table("a")).history()
    assert history[0]["kafscale.cut"] == "shop/1"


def _objects(place: Place, *topics: Topic) -> set[Path]:
    folders = [place.folder / topic.descriptor.folder for topic in topics]
    return {file for folder in folders for file in folder.rglob("*.kfs")}


def _made_later(files: set[Path], seconds: float) -> None:
    """Move the time at which objects were made, by the store's clock."""
    for file in files:
        stat = file.stat()
        os.utime(file, (stat.st_atime + seconds, stat.st_mtime + seconds))


def test_runners_know_each_other_and_a_dead_one_is_forgotten(place: Place) -> None:
    bucket = place.topic("orders").bucket
    one, two = RunnerMembership(bucket), RunnerMembership(bucket)
    one.renew()
    assert two.renew() == sorted([one.runner, two.runner])
    assert {lease.runner for lease in alive_runners(bucket)} == {one.runner, two.runner}
    one.leave()
    assert two.renew() == [two.runner]
    short = RunnerMembership(bucket, lease_ms=0)
    assert short.renew()
    assert short.runner not in [lease.runner for lease in alive_runners(bucket, lease_ms=-1)]


def test_a_lease_that_is_renewed_while_status_looks_is_looked_for_again(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    bucket = place.topic("orders").bucket
    member = RunnerMembership(bucket)
    member.renew()
    read = FileObjectStore.read

    async def late(self: FileObjectStore, *args: Any) -> Any:
        monkeypatch.undo()
        await member._renew(self)
        return await read(self, *args)

    monkeypatch.setattr(FileObjectStore, "read", late)
    assert [lease.runner for lease in alive_runners(bucket)] == [member.runner]


def test_a_lease_is_renewed_under_a_new_name_and_leaves_one_object(place: Place) -> None:
    bucket = place.topic("orders").bucket
    member = RunnerMembership(bucket)
    for _ in range(3):
        member.renew()
    rows = bucket.run(lambda store: store.find(keys.runners_folder("default")))
    assert [row.key.rpartition("-")[2] for row in rows] == [f"{3:020d}"]
    with pytest.raises(ObjectExists):
        bucket.put_new(rows[0].key, [b""])


def test_a_flush_that_does_not_tell_its_times_makes_no_table_late(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    from argparse import Namespace

    from kafscale.spark.runner import status as module

    topic = place.topic("orders", table_format="delta")
    topic.flush(0, [b"1"])

    def untold(*args: Any) -> list[PartitionView]:
        views = read_all_views(*args)
        return [
            view._replace(
                stored_ranges=tuple(
                    one._replace(min_timestamp_ms=ANY_TIME[0], max_timestamp_ms=ANY_TIME[1])
                    for one in view.stored_ranges
                )
            )
            for view in views
        ]

    monkeypatch.setattr(module, "read_all_views", untold)
    (row,) = status(Context(topic.bucket), Namespace(catalog="")).rows
    assert (row["lag"], row["state"], row["age_s"]) == (1, "fresh", 0)


def test_status_says_how_far_each_table_is(place: Place) -> None:
    from argparse import Namespace

    topic = place.topic("orders", 2, table_format="delta")
    topic.flush(0, [b"1", b"2"])
    topic.flush(1, [b"3"])
    report = status(Context(topic.bucket), Namespace(catalog=""))
    assert (report.rows[0]["lag"], report.rows[0]["state"]) == (3, "late")
    place.run_once()
    topic.flush(1, [b"4"], from_ms=topic.bucket.clock.now_ms())
    (row,) = status(Context(topic.bucket), Namespace(catalog="")).rows
    assert (row["lag"], row["state"], row["last_rows"]) == (1, "fresh", 3)
