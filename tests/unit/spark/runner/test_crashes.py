"""Runners that die at a commit, and runners that work on the same table at once: rows come once."""

import threading
from pathlib import Path
from typing import Any

import pytest

from kafscale.spark.lake import attempts
from kafscale.spark.lake.bucket_catalog import BucketCatalog
from kafscale.spark.lake.delta import DeltaTable
from kafscale.spark.lake.iceberg import IcebergTable
from kafscale.spark.lake.table import BUCKET_CATALOG
from kafscale.spark.lake.tables import open_table
from kafscale.spark.runner.membership import RunnerMembership
from tests.unit.spark.runner.test_runner import JSON, Place, by_key

KINDS = {"delta": DeltaTable, "iceberg": IcebergTable}


class Died(Exception):
    """The runner was killed here."""


def rows_of(place: Place, kind: str, name: str) -> list[dict[str, Any]]:
    return place.delta(name) if kind == "delta" else place.iceberg(name)


@pytest.mark.parametrize("kind", list(KINDS))
@pytest.mark.parametrize("mode", ["append", "upsert"])
@pytest.mark.parametrize("when", ["before", "after"])
def test_a_runner_that_dies_at_its_commit_leaves_every_record_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, mode: str, when: str
) -> None:
    place = Place(tmp_path / "objects")
    topic = place.topic("t", table_format=kind, table_mode=mode, **JSON)
    table: Any = KINDS[kind]
    commit = table.commit

    def dying(self: Any, *args: Any) -> str:
        if when == "after":
            commit(self, *args)
        raise Died

    topic.flush(0, [b'{"id":1}', b'{"id":2}'], keys_given=[b"a", b"b"])
    place.run_once()
    topic.flush(0, [b'{"id":3}', None], keys_given=[b"a", b"b"])
    with monkeypatch.context() as broken:
        broken.setattr(table, "commit", dying)
        assert place.run_once().failed == 1
    topic.flush(0, [b'{"id":4}'], keys_given=[b"c"])
    assert place.run_once().failed == 0
    rows = rows_of(place, kind, "t")
    if mode == "upsert":
        assert by_key(rows) == {b"a": 3, b"c": 4}
    else:
        assert sorted(row["_offset"] for row in rows) == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("kind", list(KINDS))
def test_runners_that_believe_to_be_alone_take_each_record_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    place = Place(tmp_path / "objects")
    monkeypatch.setattr(RunnerMembership, "renew", lambda self: [self.runner])
    states = place.topic("states", table_format=kind, table_mode="upsert", **JSON)
    lines = place.topic("lines", table_format=kind)
    for number in range(3):
        states.flush(0, [b'{"id":%d}' % number, b'{"id":9}'], keys_given=[b"a", b"%d" % number])
        lines.flush(0, [b"%d" % number])
        threads = [threading.Thread(target=place.run_once) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    place.run_once()
    assert by_key(rows_of(place, kind, "states")) == {b"a": 2, b"0": 9, b"1": 9, b"2": 9}
    assert sorted(row["_offset"] for row in rows_of(place, kind, "lines")) == [0, 1, 2]


def test_a_commit_on_top_of_metadata_that_is_gone_does_not_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A writer was paused for so long that its version's name is free again."""
    place = Place(tmp_path / "objects")
    topic = place.topic("t", table_format="iceberg")
    topic.flush(0, [b"1"])
    place.run_once()
    folder = place.table("t") / "metadata"
    create = BucketCatalog._create
    ghosts: list[Path] = []

    def late(self: BucketCatalog, number: int, body: bytes) -> None:
        if not ghosts:
            ghosts.append(folder / f"v{number + 1}.metadata.json")
            (folder / f"v{number}.metadata.json").rename(folder / f"v{number + 90}.metadata.json")
        create(self, number, body)

    monkeypatch.setattr(BucketCatalog, "_create", late)
    topic.flush(0, [b"2"])
    assert place.run_once().failed == 0
    assert ghosts[0].exists()
    assert sorted(row["value"] for row in place.iceberg("t")) == [b"1", b"2"]


@pytest.mark.parametrize("kind", list(KINDS))
def test_what_a_runner_wrote_for_itself_is_swept_if_it_died_right_after_its_commit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    place = Place(tmp_path / "objects")
    topic = place.topic("t", table_format=kind, table_mode="upsert", **JSON)

    def dying(*_: Any) -> None:
        raise Died

    topic.flush(0, [b'{"id":1}'], keys_given=[b"a"])
    with monkeypatch.context() as broken:
        broken.setattr(attempts.Round, "finish", dying)
        assert place.run_once().failed == 1
    assert list(place.table("t").rglob("_staged/*.parquet"))
    catalog = BUCKET_CATALOG if kind == "iceberg" else ""
    assert attempts.sweep(open_table(str(place.table("t")), kind, catalog), grace_ms=-1) == 1
    assert not list(place.table("t").rglob("_staged/*.parquet"))
    assert by_key(rows_of(place, kind, "t")) == {b"a": 1}
