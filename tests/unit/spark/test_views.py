"""Partitions are found where their layout says, and nothing of their neighbours."""

from pathlib import Path

import msgspec
import pytest

from kafscale.log.catalog.descriptors import Descriptors
from kafscale.log.protocol import survey
from kafscale.spark.source import pins
from kafscale.spark.views import read_all_views, read_views
from tests.unit.spark.shared import SharedNamespace


@pytest.fixture
def shared(tmp_path: Path) -> SharedNamespace:
    made = SharedNamespace(tmp_path)
    made.create("a", 3)
    made.create("b", 2)
    places = [("a", 0), ("a", 1), ("a", 2), ("b", 0), ("b", 1)]
    made.write(
        [{one: [(b"k", b"%d of %s-%d" % (turn, one[0].encode(), one[1]))] for one in places}
         for turn in range(4)]
    )  # fmt: skip
    made.write([{("a", 1): [(None, b"late")]}], roll_up=False)
    return made


def test_every_partition_has_its_own_records(shared: SharedNamespace) -> None:
    for (topic, partition), written in shared.written.items():
        assert shared.pairs(topic, partition) == written


def test_a_log_that_topics_share_is_looked_at_once(
    shared: SharedNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked: list[str] = []
    real = survey.take_snapshot

    async def counted(store, folder):  # type: ignore[no-untyped-def]
        looked.append(folder)
        return await real(store, folder)

    monkeypatch.setattr(survey, "take_snapshot", counted)
    found = read_all_views(shared.bucket, shared.bucket.topics())
    assert sorted(looked) == [shared.folder(0), shared.folder(1)]
    assert {(view.topic, view.partition): view.end for view in found} == {
        place: len(rows) for place, rows in shared.written.items()
    }
    looked.clear()
    read_views(shared.bucket, shared.bucket.topic("b"), [1])
    assert len(looked) == 1, "one partition, one log"


def test_a_lane_is_one_read_per_object(shared: SharedNamespace) -> None:
    [view] = read_views(shared.bucket, shared.bucket.topic("a"), [1])
    assert len({one.key for one in view.stored_ranges}) == len(view.stored_ranges) == 5
    assert {one.lane for one in view.stored_ranges} == {0}


def test_partitions_that_were_added_later_lie_in_a_range_of_their_own(
    shared: SharedNamespace,
) -> None:
    old, more = shared.bucket.topic("a"), shared.create("more", 2)
    grown = msgspec.structs.replace(old, partitions=5, shared=[*old.shared, *more.shared])
    shared.bucket.run(lambda store: Descriptors(store, "default").put(grown, 2))
    shared.write([{("a", n): [(None, b"%d" % n)] for n in range(5)}])
    assert [view.end for view in read_views(shared.bucket, grown)] == [5, 6, 5, 1, 1]
    for partition in range(5):
        assert shared.pairs("a", partition) == shared.written["a", partition]


def test_a_snapshot_pins_each_log_once(shared: SharedNamespace) -> None:
    taken = pins.take(shared.bucket, "s")
    assert len(taken.pins) == 2
    assert len(taken.partitions) == 5
