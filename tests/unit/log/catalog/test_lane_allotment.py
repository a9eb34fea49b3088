"""Dealing out lanes of shared logs."""

import asyncio

from hypothesis import given, settings
from hypothesis import strategies as st

from kafscale.log.catalog.lane_allotment import SharedLogs
from kafscale.log.formats import places
from kafscale.model.topics import LaneRange
from kafscale.objects.memory import MemoryObjectStore
from tests.unit.log.formats.test_places import topic


def lanes_of(held: LaneRange) -> list[places.LanePlace]:
    return [found for _, found in places.each_place(topic(held.count, 0, "shared", [held]))]


async def test_the_next_topic_goes_on_where_the_last_one_ended() -> None:
    shared = SharedLogs(MemoryObjectStore(), "ns")
    assert await shared.allot(2, 3) == LaneRange("ns/@shared", 0, 2, 3)
    assert await shared.allot(5, 3) == LaneRange("ns/@shared", 2, 5, 3)


async def test_logs_never_become_fewer() -> None:
    shared = SharedLogs(MemoryObjectStore(), "ns")
    await shared.allot(1, 3)
    assert (await shared.allot(1, 1)).logs == 3


async def test_who_comes_later_goes_by_what_is_in_the_bucket() -> None:
    store = MemoryObjectStore()
    for _ in range(12):
        await SharedLogs(store, "ns").allot(3, 2)
    assert (await SharedLogs(store, "ns").newest())[1].next == 36
    assert (await SharedLogs(store, "other").newest())[1].next == 0


async def test_many_at_once_get_different_lanes() -> None:
    store = MemoryObjectStore()
    dealers = [SharedLogs(store, "ns") for _ in range(8)]
    held = await asyncio.gather(*(one.allot(4, 3) for one in dealers for _ in range(4)))
    found = [lane for one in held for lane in lanes_of(one)]
    assert len(set(found)) == len(found) == 128


@settings(max_examples=50, deadline=None)
@given(st.lists(st.tuples(st.integers(1, 30), st.integers(1, 6)), max_size=12))
def test_no_lane_is_dealt_twice_whatever_the_number_of_logs(wishes: list[tuple[int, int]]) -> None:
    async def deal() -> list[LaneRange]:
        shared = SharedLogs(MemoryObjectStore(), "ns")
        return [await shared.allot(count, logs) for count, logs in wishes]

    found = [lane for held in asyncio.run(deal()) for lane in lanes_of(held)]
    assert len(set(found)) == len(found)
