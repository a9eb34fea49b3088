"""Where partitions of the three layouts lie."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafscale.log.formats import places
from kafscale.log.formats.places import LanePlace
from kafscale.model.topics import LaneRange, Layout, TopicDescriptor


def topic(
    partitions: int, logs: int, layout: Layout, shared: list[LaneRange] | None = None
) -> TopicDescriptor:
    return TopicDescriptor(
        name="t",
        topic_id="00" * 16,
        incarnation=1,
        folder="ns/t",
        partitions=partitions,
        logs=logs,
        layout=layout,
        shared=shared or [],
        created_at="",
    )


def test_an_ordinary_partition_is_the_only_lane_of_its_log() -> None:
    ordinary = topic(3, 3, "ordinary")
    assert places.place(ordinary, 2) == LanePlace("ns/t/2", 0)
    assert places.log_folders(ordinary) == ["ns/t/0", "ns/t/1", "ns/t/2"]


def test_virtual_partitions_are_lanes_of_the_topics_logs() -> None:
    virtual = topic(100, 3, "virtual")
    assert places.place(virtual, 42) == LanePlace("ns/t/0", 14)
    assert places.lanes_in(virtual, "ns/t/1")[32] == 97
    assert places.own_folders(virtual) == ["ns/t/0", "ns/t/1", "ns/t/2"]


def test_shared_partitions_go_on_in_the_next_range() -> None:
    shared = topic(
        5, 0, "shared", [LaneRange("ns/@shared", 7, 2, 3), LaneRange("ns/@shared", 40, 3, 4)]
    )
    assert [found for _, found in places.each_place(shared)] == [
        LanePlace("ns/@shared/1", 2),
        LanePlace("ns/@shared/2", 2),
        LanePlace("ns/@shared/0", 10),
        LanePlace("ns/@shared/1", 10),
        LanePlace("ns/@shared/2", 10),
    ]
    assert places.own_folders(shared) == [], "nothing that may be deleted by folder"
    assert places.log_folders(shared) == ["ns/@shared/0", "ns/@shared/1", "ns/@shared/2"]
    assert places.lanes_in(shared, "ns/@shared/1") == {2: 0, 10: 3}


@pytest.mark.parametrize("partition", [-1, 5])
@pytest.mark.parametrize("layout", ["ordinary", "shared"])
def test_a_partition_that_is_not_there_has_no_place(layout: Layout, partition: int) -> None:
    found = topic(5, 5, layout, [LaneRange("ns/@shared", 0, 5, 2)])
    with pytest.raises(IndexError):
        places.place(found, partition)


@given(st.integers(1, 200), st.integers(1, 9))
def test_lanes_and_partitions_of_a_virtual_topic_are_one_to_one(partitions: int, logs: int) -> None:
    virtual = topic(partitions, logs, "virtual")
    found = {
        (folder, lane): partition
        for folder in places.log_folders(virtual)
        for lane, partition in places.lanes_in(virtual, folder).items()
    }
    assert sorted(found.values()) == list(range(partitions))
    assert all(places.place(virtual, number) == where for where, number in found.items())
