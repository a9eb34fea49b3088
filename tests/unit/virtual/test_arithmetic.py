"""The arithmetic of virtual partitions: round trips, disjoint ranges, refusals."""

from itertools import chain, pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafscale.log.formats import index
from kafscale.model.errors import (
    InvalidMapping,
    MappingError,
    NegativeOffset,
    NegativePartition,
    OffsetRangeExhausted,
    PhysicalPartitionOutOfRange,
    VirtualPartitionOutOfRange,
)
from kafscale.virtual.arithmetic import (
    DEFAULT_RANGE,
    SMALLEST_RANGE,
    Remapper,
    partition_of,
    place_of,
)

HUNDRED_ON_TEN = Remapper(100, 10, 10**12)


@st.composite
def remappers(draw: st.DrawFn) -> Remapper:
    physical = draw(st.integers(1, 200))
    ratio = draw(st.integers(1, 500))
    return Remapper(physical * ratio, physical, draw(st.integers(SMALLEST_RANGE, DEFAULT_RANGE)))


@st.composite
def positions(draw: st.DrawFn) -> tuple[Remapper, int, int]:
    remapper = draw(remappers())
    partition = draw(st.integers(0, remapper.virtual_partitions - 1))
    last = remapper.offset_range - 1
    return remapper, partition, draw(st.integers(0, last) | st.sampled_from([0, last]))


@given(positions())
def test_every_offset_comes_back(position: tuple[Remapper, int, int]) -> None:
    remapper, partition, offset = position
    there = remapper.virtual_to_physical_offset(partition, offset)
    assert there[::2] == remapper.virtual_to_physical(partition)
    back = remapper.physical_to_virtual(there.physical_partition, there.physical_offset)
    assert back == (partition, offset)
    assert remapper.offset_belongs_to_virtual(
        there.physical_partition, there.physical_offset, partition
    )


@given(remappers(), st.data())
def test_ranges_on_one_log_never_meet(remapper: Remapper, data: st.DataObject) -> None:
    log = data.draw(st.integers(0, remapper.physical_partitions - 1))
    ranges = [
        remapper.offset_range_for_virtual(one)
        for one in remapper.virtual_partitions_for_physical(log)
    ]
    assert len(ranges) == remapper.compression_ratio
    assert ranges == sorted(ranges)
    for (_, last), (first, _) in pairwise(ranges):
        assert last + 1 == first


@given(remappers())
def test_every_virtual_partition_is_on_exactly_one_log(remapper: Remapper) -> None:
    lists = [
        list(remapper.virtual_partitions_for_physical(log))
        for log in range(remapper.physical_partitions)
    ]
    assert sorted(chain.from_iterable(lists)) == list(range(remapper.virtual_partitions))


@given(st.integers(0, 10_000), st.integers(1, 300))
def test_places_come_back_for_any_number_of_logs(partition: int, logs: int) -> None:
    log, lane = place_of(partition, logs)
    assert 0 <= log < logs
    assert partition_of(log, lane, logs) == partition


@given(st.integers(0, 1 << 20), st.integers(0, DEFAULT_RANGE - 1))
def test_the_index_beside_a_segment_goes_by_the_same_formula(lane: int, offset: int) -> None:
    remapper = Remapper(lane + 1, 1)
    assert index.address(lane, offset) == remapper.virtual_to_physical_offset(lane, offset)[1]
    assert index.from_address(index.address(lane, offset)) == (lane, offset)


@pytest.mark.parametrize(
    ("virtual", "physical", "lane"),
    [(0, 0, 0), (1, 1, 0), (5, 5, 0), (9, 9, 0), (10, 0, 1), (11, 1, 1), (50, 0, 5), (99, 9, 9)],
)
def test_the_worked_example_of_partitions(virtual: int, physical: int, lane: int) -> None:
    assert HUNDRED_ON_TEN.virtual_to_physical(virtual) == (physical, lane)


@pytest.mark.parametrize(
    ("virtual", "offset", "physical", "address"),
    [
        (0, 0, 0, 0),
        (0, 100, 0, 100),
        (10, 0, 0, 1_000_000_000_000),
        (10, 100, 0, 1_000_000_000_100),
        (50, 500, 0, 5_000_000_000_500),
        (99, 0, 9, 9_000_000_000_000),
    ],
)
def test_the_worked_example_of_offsets(
    virtual: int, offset: int, physical: int, address: int
) -> None:
    assert HUNDRED_ON_TEN.virtual_to_physical_offset(virtual, offset)[:2] == (physical, address)
    assert HUNDRED_ON_TEN.physical_to_virtual(physical, address) == (virtual, offset)


def test_the_worked_example_of_a_list() -> None:
    assert list(HUNDRED_ON_TEN.virtual_partitions_for_physical(0)) == list(range(0, 100, 10))
    assert HUNDRED_ON_TEN.compression_ratio == 10
    assert not HUNDRED_ON_TEN.offset_belongs_to_virtual(0, 1_000_000_000_000, 0)


@pytest.mark.parametrize(
    ("virtual", "physical", "offset_range"),
    [
        (10, 0, DEFAULT_RANGE),
        (4, 5, DEFAULT_RANGE),
        (10, 3, DEFAULT_RANGE),
        (10, 5, SMALLEST_RANGE - 1),
        (1 << 24, 1, DEFAULT_RANGE),
    ],
)
def test_numbers_that_cannot_go_together_are_refused(
    virtual: int, physical: int, offset_range: int
) -> None:
    with pytest.raises(InvalidMapping):
        Remapper(virtual, physical, offset_range)


@pytest.mark.parametrize(
    ("partition", "offset", "kind"),
    [
        (-1, 0, NegativePartition),
        (100, 0, VirtualPartitionOutOfRange),
        (0, -1, NegativeOffset),
        (0, 10**12, OffsetRangeExhausted),
    ],
)
def test_each_bad_virtual_number_has_its_error(
    partition: int, offset: int, kind: type[MappingError]
) -> None:
    with pytest.raises(kind):
        HUNDRED_ON_TEN.virtual_to_physical_offset(partition, offset)


@pytest.mark.parametrize(
    ("partition", "offset", "kind"),
    [
        (-1, 0, NegativePartition),
        (10, 0, PhysicalPartitionOutOfRange),
        (0, -1, NegativeOffset),
        (0, 10 * 10**12, OffsetRangeExhausted),
    ],
)
def test_each_bad_physical_number_has_its_error(
    partition: int, offset: int, kind: type[MappingError]
) -> None:
    with pytest.raises(kind):
        HUNDRED_ON_TEN.physical_to_virtual(partition, offset)
