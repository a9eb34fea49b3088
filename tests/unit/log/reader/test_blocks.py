import asyncio
import random

import pytest

from kafscale.log.reader.reader import Reader
from kafscale.log.upkeep import rollup
from kafscale.log.writer.log import Log
from kafscale.testing.faulty_store import Fault, FaultyObjectStore, Rule
from kafscale.turns import Turns
from tests.unit.log.log_harness import LogHarness, append, make_batch, read_all

BLOCK = 4096
LANES = 20


async def with_lanes(harness: LogHarness, sizes: list[int]) -> Log:
    """A log with one object of twenty lanes, a batch of each size in each; none in memory."""
    harness.memory.budget_bytes = 0
    log = await harness.open(flush_interval_s=3600)
    for lane in range(LANES):
        for size in sizes:
            append(log, make_batch(b"%d" % lane, b"x" * size), lane)
    await log.aclose()
    return await harness.open()


class Counted(FaultyObjectStore):
    """Notes what is read."""

    requests = 0
    size = 0

    async def read(self, key: str, start: int = 0, length: int | None = None) -> memoryview:
        data = await super().read(key, start, length)
        self.requests += 1
        self.size += len(data)
        return data


def counted(
    harness: LogHarness, read_ahead: int = 0, cache_bytes: int = 1 << 20
) -> tuple[Reader, Counted]:
    store = Counted(harness.inner, harness.plan)
    reader = Reader(
        store,
        cache_bytes=cache_bytes,
        index_cache_bytes=1 << 20,
        read_ahead=read_ahead,
        tasks=harness.tasks,
        turns=Turns(harness.clock),
        block_bytes=BLOCK,
    )
    return reader, store


def own_bytes(log: Log, lane: int) -> int:
    return sum(span.length for span, _ in log.lane(lane).spans)


@pytest.mark.parametrize("rolled_up", [False, True])
@pytest.mark.parametrize("sizes", [[10], [300] * 10, [BLOCK] * 5])
async def test_a_lane_is_read_without_its_neighbours(
    harness: LogHarness, sizes: list[int], rolled_up: bool
) -> None:
    log = await with_lanes(harness, sizes)
    if rolled_up:
        await rollup.roll_up(log)
    reader, store = counted(harness, read_ahead=3)
    rows = await read_all(reader, log, log.lane(7), 0, 500)
    assert len(rows) == 2 * len(sizes)
    assert store.size == own_bytes(log, 7)


async def test_small_pieces_of_many_lanes_become_one_request(harness: LogHarness) -> None:
    log = await with_lanes(harness, [10])
    reader, store = counted(harness)
    for number in range(LANES):
        assert len(await read_all(reader, log, log.lane(number))) == 2
    # Three pieces, then the block of the object that holds them all.
    assert store.requests == 4
    for number in range(LANES):
        assert len(await read_all(reader, log, log.lane(number))) == 2
    assert store.requests == 4


async def test_without_a_cache_nothing_is_read_for_others(harness: LogHarness) -> None:
    log = await with_lanes(harness, [10])
    reader, store = counted(harness, cache_bytes=0)
    for number in range(LANES):
        assert len(await read_all(reader, log, log.lane(number))) == 2
    assert store.size == sum(own_bytes(log, number) for number in range(LANES))


async def test_many_lanes_at_once_wait_for_the_same_load(harness: LogHarness) -> None:
    log = await with_lanes(harness, [10])
    reader, store = counted(harness)
    found = await asyncio.gather(
        *(read_all(reader, log, log.lane(number)) for number in range(LANES))
    )
    assert [rows[0][1] for rows in found] == [b"%d" % number for number in range(LANES)]
    assert store.requests == 4


async def test_large_pieces_are_read_one_by_one(harness: LogHarness) -> None:
    log = await with_lanes(harness, [BLOCK // 4])
    reader, store = counted(harness)
    for number in range(LANES):
        await read_all(reader, log, log.lane(number))
    assert store.requests == LANES
    assert store.size == sum(own_bytes(log, number) for number in range(LANES))


async def test_every_lane_reads_its_own_records_in_any_order(harness: LogHarness) -> None:
    log = await with_lanes(harness, [1, 200, 40, 900, 5])
    reader, _ = counted(harness, read_ahead=2, cache_bytes=3 * BLOCK)
    dice = random.Random(3)
    for _ in range(100):
        number = dice.randrange(LANES)
        start = dice.randrange(10)
        rows = await read_all(reader, log, log.lane(number), start, dice.choice([1, 500, 1 << 20]))
        assert [offset for offset, _ in rows] == list(range(start, 10))
        assert {value for offset, value in rows if offset % 2 == 0} <= {b"%d" % number}


async def test_who_goes_on_reading_needs_no_index(harness: LogHarness) -> None:
    log = await with_lanes(harness, [300] * 20)
    await rollup.roll_up(log)
    harness.plan.add(Rule(Fault.FAIL_BEFORE, "read", keys="*.index"))
    assert len(await read_all(counted(harness)[0], log, log.lane(3), 0, 700)) == 40
