import asyncio

import pytest

from kafscale.log.formats import index, keys
from kafscale.log.upkeep import rollup, sweep
from kafscale.log.writer.log import Log
from kafscale.log.writer.types import Observer
from kafscale.model.errors import NotTheOwner
from kafscale.testing.faulty_store import Fault, Rule
from tests.unit.log.log_harness import (
    FOLDER,
    LogHarness,
    everything,
    read_all,
    settle,
    write,
)


async def fill(log: Log, count: int, size: int = 1, lane: int = 0) -> None:
    for _ in range(count):
        await write(log, b"x" * size, lane=lane)


async def sweep_after(harness: LogHarness, log: Log, after_s: float = 0.0) -> int:
    harness.clock.advance_ms(after_s * 1000)
    log.history.ask_for_sweep()
    return await sweep.sweep(log)


async def test_a_roll_up_is_due_by_objects_or_by_bytes(harness: LogHarness) -> None:
    log = await harness.open(rollup_objects=3, segment_bytes=2000)
    await fill(log, 2)
    assert not rollup.roll_up_is_due(log)
    await fill(log, 1)
    assert rollup.roll_up_is_due(log)
    await rollup.roll_up(log)
    assert not rollup.roll_up_is_due(log)
    await fill(log, 1, size=2000)
    assert rollup.roll_up_is_due(log)
    await log.aclose()
    assert not rollup.roll_up_is_due(log)


async def test_small_flushes_become_one_object_with_an_index(harness: LogHarness) -> None:
    rolled: list[int] = []
    log = await harness.open(observer=Observer(rolled_up=rolled.append), index_interval_bytes=200)
    await fill(log, 10)
    before = await everything(harness)
    await rollup.roll_up(log)
    assert rolled == [10]
    (entry,) = log.committed.manifest.segments
    assert (entry.base, entry.end, entry.records, entry.has_index) == (0, 10, 10, True)
    assert (log.committed.manifest.end, log.committed.tail, log.committed.tail_bytes) == (10, [], 0)
    assert await everything(harness) == before
    body = await harness.inner.read(keys.index_of(f"{FOLDER}/{entry.name}"))
    found = index.decode(body)
    assert found.addresses[0] == 0
    assert len(found.addresses) > 2
    await rollup.roll_up(log)  # nothing to do
    assert rolled == [10]


async def test_large_flushes_are_named_as_they_are(harness: LogHarness) -> None:
    log = await harness.open(index_from_bytes=1000, segment_bytes=10_000)
    for size in (1, 1, 2000, 1, 2000, 2000, 1, 1, 1):
        await write(log, b"x" * size)
    await rollup.roll_up(log)
    rows = [
        (row.base, row.end, keys.parse_segment(row.name)) for row in log.committed.manifest.segments
    ]
    assert [(base, end) for base, end, _ in rows] == [
        (0, 2),
        (2, 3),
        (3, 4),
        (4, 5),
        (5, 6),
        (6, 9),
    ]
    flushed = [name.generation is None for _, _, name in rows if name]
    assert flushed == [False, True, True, True, True, False]


async def test_a_merged_object_is_no_larger_than_a_segment_may_be(harness: LogHarness) -> None:
    log = await harness.open(segment_bytes=1000)
    await fill(log, 12, size=200)
    await rollup.roll_up(log)
    assert [row.records for row in log.committed.manifest.segments] == [3, 3, 3, 3]
    assert [row.size < 1000 for row in log.committed.manifest.segments] == [True] * 4


async def test_a_roll_up_reads_back_what_has_left_memory(harness: LogHarness) -> None:
    harness.memory.budget_bytes = 3000
    log = await harness.open(index_interval_bytes=1)
    for at in range(10):
        await write(log, b"%d" % at, b"-", lane=at % 2)
    before = [await everything(harness, lane) for lane in (0, 1)]
    await rollup.roll_up(log)
    assert [await everything(harness, lane) for lane in (0, 1)] == before
    (entry,) = log.committed.manifest.segments
    found = index.decode(await harness.inner.read(keys.index_of(f"{FOLDER}/{entry.name}")))
    assert len(found.addresses) == 10


async def test_appending_goes_on_during_a_roll_up(harness: LogHarness) -> None:
    log = await harness.open()
    await fill(log, 3)
    stall = harness.plan.add(Rule(Fault.STALL_BEFORE, "put_new", "*-1-*.kfs", times=1))
    rolling = asyncio.ensure_future(rollup.roll_up(log))
    await stall.reached.wait()
    assert await write(log, b"more") == 3
    stall.release()
    await rolling
    assert (log.committed.manifest.end, len(log.committed.tail), log.lane(0).high) == (3, 1, 4)
    assert [offset for offset, _ in await read_all(harness.reader(), log, log.lane(0))] == [
        0,
        1,
        2,
        3,
    ]


async def test_a_roll_up_that_loses_the_race_takes_up_the_winners_view(harness: LogHarness) -> None:
    rolled: list[int] = []
    log = await harness.open(observer=Observer(rolled_up=rolled.append))
    await fill(log, 3)
    other = await harness.open()
    stall = harness.plan.add(Rule(Fault.STALL_BEFORE, "put_new", "*-1-*.kfs", times=1))
    rolling = asyncio.ensure_future(rollup.roll_up(log))
    await stall.reached.wait()
    await rollup.roll_up(other)
    stall.release()
    await rolling
    assert rolled == []
    assert log.committed.manifest == other.committed.manifest
    assert log.committed.manifest.generation == 1
    assert await write(log, b"on") == 3


async def test_a_roll_up_whose_tail_was_rolled_up_and_deleted_looks_again(
    harness: LogHarness,
) -> None:
    harness.memory.budget_bytes = 0
    log = await harness.open()
    await fill(log, 3)
    other = await harness.open()
    await rollup.roll_up(other)
    await harness.inner.delete([keys.segment(FOLDER, at) for at in range(3)])
    await rollup.roll_up(log)
    assert log.committed.manifest == other.committed.manifest
    assert await write(log, b"on") == 3


@pytest.mark.parametrize("fault", [Fault.FAIL_BEFORE, Fault.FAIL_AFTER])
async def test_a_roll_up_on_a_failing_store_happens_once(harness: LogHarness, fault: Fault) -> None:
    log = await harness.open()
    await fill(log, 3)
    harness.plan.add(Rule(fault, "put_new", times=6))
    harness.plan.add(Rule(fault, "find", times=2))
    await rollup.roll_up(log)
    assert log.committed.manifest.generation == 1
    assert len([name for name in await harness.names() if "-1-" in name]) == 2
    assert len(await everything(harness)) == 3


async def test_a_re_opening_during_a_roll_up_keeps_both_right(harness: LogHarness) -> None:
    log = await harness.open()
    await fill(log, 3)
    stall = harness.plan.add(Rule(Fault.STALL_BEFORE, "put_new", "*-1-*.kfs", times=1))
    rolling = asyncio.ensure_future(rollup.roll_up(log))
    await stall.reached.wait()
    other = await harness.open()
    await write(other, b"theirs")
    with pytest.raises(NotTheOwner):
        await write(log, b"ours")
    await settle()
    stall.release()
    await rolling
    assert log.lane(0).high == 4
    assert (log.committed.manifest.end, len(log.committed.tail)) == (3, 1)
    assert await write(log, b"ours") == 4
