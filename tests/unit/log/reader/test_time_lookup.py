import pytest

from kafscale.log.reader import time_lookup
from kafscale.log.upkeep import retention, rollup
from kafscale.records.compression import Codec
from tests.unit.log.log_harness import (
    NOW_MS,
    LogHarness,
    write,
)

BLOCK = 1024


@pytest.mark.parametrize("codec", list(Codec))
@pytest.mark.parametrize("in_memory", [True, False])
async def test_a_time_is_found_exactly(harness: LogHarness, codec: Codec, in_memory: bool) -> None:
    harness.memory.budget_bytes = 1 << 20 if in_memory else 0
    log = await harness.open()
    times = [NOW_MS + step for step in (5, 3, 9, 9, 1, 20, 15, 20, 12)]
    for at in range(0, 9, 3):
        await write(log, b"a", b"b", b"c", times=times[at : at + 3], codec=codec)
        if at == 3:
            await rollup.roll_up(log)
    reader = harness.reader(block_bytes=BLOCK)
    lane = log.lane(0)
    for wanted in range(NOW_MS, NOW_MS + 23):
        found = [(at, time) for at, time in enumerate(times) if time >= wanted]
        expected = found[0] if found else None
        assert await time_lookup.find_time(reader, log, lane, wanted) == expected
    assert await time_lookup.find_max_time(reader, log, lane) == (5, NOW_MS + 20)


async def test_times_below_the_log_start_are_not_found(harness: LogHarness) -> None:
    log = await harness.open()
    times = [NOW_MS + step for step in (50, 3, 9, 9, 1, 40)]
    await write(log, *[b"x"] * 6, times=times)
    await retention.raise_starts(log, {0: 2})
    reader = harness.reader()
    assert await time_lookup.find_time(reader, log, log.lane(0), NOW_MS) == (2, NOW_MS + 9)
    assert await time_lookup.find_max_time(reader, log, log.lane(0)) == (5, NOW_MS + 40)
    await retention.raise_starts(log, {0: 6})
    assert await time_lookup.find_max_time(reader, log, log.lane(0)) is None
    assert await time_lookup.find_time(reader, log, log.lane(0), 0) is None


async def test_the_latest_time_below_the_log_start_hides_no_later_object(
    harness: LogHarness,
) -> None:
    log = await harness.open()
    await write(log, b"x", b"y", times=[NOW_MS + 50, NOW_MS + 3])
    await write(log, b"x", b"y", times=[NOW_MS + 20, NOW_MS + 7])
    lane = log.lane(0)
    lane.start = 1
    assert await time_lookup.find_max_time(harness.reader(), log, lane) == (2, NOW_MS + 20)


async def test_batches_larger_than_a_block_are_searched_too(harness: LogHarness) -> None:
    harness.memory.budget_bytes = 0
    log = await harness.open()
    for at in range(5):
        await write(log, b"x" * (3 * BLOCK), b"y", times=[NOW_MS + at * 10, NOW_MS + at * 10 + 5])
    await rollup.roll_up(log)
    reader = harness.reader(block_bytes=BLOCK)
    assert await time_lookup.find_time(reader, log, log.lane(0), NOW_MS + 31) == (7, NOW_MS + 35)
    assert await time_lookup.find_max_time(reader, log, log.lane(0)) == (9, NOW_MS + 45)


async def test_an_empty_lane_has_no_times(harness: LogHarness) -> None:
    log = await harness.open()
    assert await time_lookup.find_max_time(harness.reader(), log, log.lane(0)) is None
    assert await time_lookup.find_time(harness.reader(), log, log.lane(0), 0) is None


async def test_memory_is_searched_to_the_end_of_a_span_that_was_made_shorter(
    harness: LogHarness,
) -> None:
    log = await harness.open()
    for at in range(4):
        await write(log, b"x" * 100, times=[NOW_MS + at])
    await rollup.roll_up(log)
    lane = log.lane(0)
    [(span, entry)] = lane.spans
    lane.spans[0] = (span._replace(length=span.length // 4), entry)
    assert await time_lookup.find_time(harness.reader(), log, lane, NOW_MS + 3) == (3, NOW_MS + 3)
