"""Planning: every offset in exactly one split, in splits of even size."""

from hypothesis import given
from hypothesis import strategies as st

from kafscale.spark.source.plan.splits import Slice, Split, plan, window
from kafscale.spark.views import PartitionView, StoredRange


def view_of(
    topic: str, partition: int, sizes: list[tuple[int, int]], gap: int = 0
) -> PartitionView:
    """A partition of objects with so many offsets and bytes each."""
    at = 0
    stored_ranges = []
    for number, (offsets, length) in enumerate(sizes):
        stored_ranges.append(
            StoredRange(
                f"{topic}/{partition}/{number}", 0, at, at + offsets - 1, 32, length, offsets,
                number, number, False, "flush",
            )
        )  # fmt: skip
        at += offsets + gap
    return PartitionView(topic, partition, 0, at, tuple(stored_ranges))


def whole(view: PartitionView) -> Slice:
    return window(view, view.start, view.end)


def covered(splits: list[Split]) -> list[tuple[str, int, int, str]]:
    """Every offset of every split, with the object it is read from."""
    return [
        (one.topic, one.partition, offset, stored.key)
        for split in splits
        for one in split
        for stored in one.stored_ranges
        for offset in range(max(stored.first, one.first), min(stored.last + 1, one.until))
    ]


OBJECTS = st.lists(st.tuples(st.integers(1, 20), st.integers(1, 500)), max_size=8)


@given(
    parts=st.lists(OBJECTS, max_size=4),
    split_bytes=st.integers(1, 2000),
    min_splits=st.integers(0, 12),
    max_offsets=st.integers(0, 15),
    gap=st.integers(0, 3),
    edges=st.tuples(st.integers(0, 40), st.integers(0, 40)),
)
def test_every_offset_of_the_window_is_in_exactly_one_split(
    parts: list[list[tuple[int, int]]],
    split_bytes: int,
    min_splits: int,
    max_offsets: int,
    gap: int,
    edges: tuple[int, int],
) -> None:
    views = [view_of("t", number, sizes, gap) for number, sizes in enumerate(parts)]
    slices = [window(view, edges[0], min(view.end, sum(edges))) for view in views]
    splits = plan(slices, split_bytes, min_splits=min_splits, max_offsets=max_offsets)
    assert sorted(covered(splits)) == sorted(covered([(one,) for one in slices]))
    if max_offsets:
        assert all(sum(one.offsets for one in split) <= max_offsets for split in splits)
    assert all(one.stored_ranges and one.offsets > 0 for split in splits for one in split)


def test_many_small_objects_share_a_task() -> None:
    views = [view_of("t", number, [(10, 1000)] * 50) for number in range(4)]
    assert len(plan([whole(view) for view in views], 64 << 20)) == 1


def test_a_large_partition_is_cut_between_its_objects() -> None:
    splits = plan([whole(view_of("t", 0, [(100, 60)] * 4))], 120)
    assert [(one.first, one.until) for split in splits for one in split] == [(0, 200), (200, 400)]


def test_as_many_splits_as_asked_for() -> None:
    splits = plan([whole(view_of("t", 0, [(100, 1000)]))], min_splits=4)
    assert [(s[0].first, s[0].until) for s in splits] == [(0, 25), (25, 50), (50, 75), (75, 100)]


def test_fewer_splits_than_asked_for_where_there_are_fewer_offsets() -> None:
    assert len(plan([whole(view_of("t", 0, [(3, 1000)]))], min_splits=10)) == 3


def test_objects_older_than_the_time_asked_for_are_left_out() -> None:
    view = view_of("t", 0, [(10, 100)] * 4)
    assert [s.first for s in window(view, 0, 40, since_ms=2).stored_ranges] == [20, 30]


def test_objects_outside_the_window_are_left_out() -> None:
    view = view_of("t", 0, [(10, 100)] * 4)
    assert [s.first for s in window(view, 10, 21).stored_ranges] == [10, 20]
