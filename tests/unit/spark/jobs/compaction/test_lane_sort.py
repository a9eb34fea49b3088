"""Which lanes become one object, and the positions it gets."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafscale.log.formats.manifest import SegmentEntry
from kafscale.log.formats.segment import Span
from kafscale.model.errors import CorruptObject
from kafscale.spark.jobs.compaction import lane_sort, merge
from kafscale.spark.jobs.compaction.assembly import Run


def run(lane: int, first: int, last: int, size: int) -> Run:
    return Run(Span(lane, first, last, 0, size, 0, 0, last - first + 1), bytes(size), [0], [first])


def entry(name: str, base: int, end: int, *lanes: int, size: int = 100) -> SegmentEntry:
    rows = [Span(lane, base, end - 1, 32, 10, 0, 0, 1) for lane in lanes]
    return SegmentEntry(name, base, end, size, 1, 0, 0, 0, 0, True, rows)


def rewritten(base: int, end: int, generation: int, *lanes: int, size: int = 100) -> SegmentEntry:
    return entry(f"segment-{base:020d}-{generation}-0000000a.kfs", base, end, *lanes, size=size)


SIZES = st.dictionaries(
    st.integers(0, 40), st.lists(st.integers(1, 500), min_size=1, max_size=6), min_size=1
)


@given(SIZES, st.integers(1, 2000))
def test_every_run_is_in_one_object_and_lanes_are_in_order(
    sizes: dict[int, list[int]], target: int
) -> None:
    lanes = {
        lane: [run(lane, 10 * at, 10 * at + 9, size) for at, size in enumerate(rows)]
        for lane, rows in sizes.items()
    }
    found = lane_sort.shares(lanes, target)
    again: dict[int, list[Run]] = {}
    for share in found:
        assert list(share) == sorted(share)
        for lane, runs in share.items():
            again.setdefault(lane, []).extend(runs)
        parts = [len(one.data) for runs in share.values() for one in runs]
        assert sum(parts) <= (1.5 * target + max(parts) if len(share) == 1 else target)
    assert again == lanes
    covered = sum(10 * len(rows) for rows in sizes.values())
    places = list(lane_sort.positions(7, 7 + covered + 3, found))
    assert [first for first, _ in places] == [7, *(until for _, until in places[:-1])]
    assert places[-1][1] == 7 + covered + 3
    assert all(first < until for first, until in places)
    with pytest.raises(CorruptObject, match="no room"):
        list(lane_sort.positions(7, 7 + covered - 1, found))


def test_what_one_compaction_wrote_is_one_block() -> None:
    rows = [
        rewritten(0, 10, 3, 0),
        rewritten(10, 20, 3, 0),
        rewritten(20, 30, 3, 1, 2),
        rewritten(30, 40, 3, 0),  # the next window of the same run
        rewritten(40, 50, 3, 1, 2),
        rewritten(50, 60, 5, 3),
        entry("segment-00000000000000000060.kfs", 60, 70, 4),
        entry("segment-00000000000000000070.kfs", 70, 80, 5),
    ]
    assert [len(block) for block in lane_sort.blocks(rows)] == [3, 2, 1, 1, 1]
    assert lane_sort.blocks([]) == []


def test_a_window_that_is_full_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    full = [rewritten(at, at + 10, 3, at, size=300) for at in range(0, 80, 10)]
    new = [entry(f"segment-{at:020d}.kfs", at, at + 10, 0, 1) for at in range(90, 120, 10)]
    past = merge.Manifest(
        generation=9, commit_id="", created_ms=0, author="", end=120, segments=[*full, *new]
    )
    assert merge.plan_by_lanes(past, 1000) == [tuple(new)]
    assert merge.plan_by_lanes(past, 5000) == []


def test_objects_are_counted_before_they_are_written() -> None:
    assert lane_sort.count({0: 2500, 1: 500, 2: 10, 3: 10}, 1000) == 3 + 1 + 1
    [first, second] = lane_sort.shares({7: [run(7, at, at, 100) for at in range(16)]}, 1000)
    assert (len(first[7]), len(second[7])) == (8, 8), "parts of a lane are about of one size"
    assert lane_sort.count({}, 1000) == 0
