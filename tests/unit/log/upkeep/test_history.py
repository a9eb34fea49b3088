import asyncio

import pytest
from structlog.testing import capture_logs

from kafscale.log.formats import index, keys
from kafscale.log.formats.segment import Span
from kafscale.log.upkeep import history
from kafscale.log.writer.log import Log, Observer
from kafscale.model.errors import NotTheOwner
from kafscale.testing.faulty_store import Fault, Rule
from tests.unit.log.log_harness import (
    FOLDER,
    NOW_MS,
    Bench,
    dropped_names,
    everything,
    make_batch,
    read_all,
    settle,
    write,
)


async def fill(log: Log, count: int, size: int = 1, lane: int = 0) -> None:
    for _ in range(count):
        await write(log, b"x" * size, lane=lane)


async def sweep(bench: Bench, log: Log, after_s: float = 0.0) -> int:
    bench.clock.advance_ms(after_s * 1000)
    log.sweep_due = True
    return await history.sweep(log)


# -- roll-up -------------------------------------------------------------------------------------


async def test_a_roll_up_is_due_by_objects_or_by_bytes(bench: Bench) -> None:
    log = await bench.open(rollup_objects=3, segment_bytes=2000)
    await fill(log, 2)
    assert not history.roll_up_is_due(log)
    await fill(log, 1)
    assert history.roll_up_is_due(log)
    await history.roll_up(log)
    assert not history.roll_up_is_due(log)
    await fill(log, 1, size=2000)
    assert history.roll_up_is_due(log)
    await log.aclose()
    assert not history.roll_up_is_due(log)


async def test_small_flushes_become_one_object_with_an_index(bench: Bench) -> None:
    rolled: list[int] = []
    log = await bench.open(observer=Observer(rolled_up=rolled.append), index_interval_bytes=200)
    await fill(log, 10)
    before = await everything(bench)
    await history.roll_up(log)
    assert rolled == [10]
    (entry,) = log.manifest.segments
    assert (entry.base, entry.end, entry.records, entry.has_index) == (0, 10, 10, True)
    assert (log.manifest.end, log.tail, log.tail_bytes) == (10, [], 0)
    assert await everything(bench) == before
    body = await bench.inner.read(keys.index_of(f"{FOLDER}/{entry.name}"))
    found = index.decode(body)
    assert found.addresses[0] == 0
    assert len(found.addresses) > 2
    await history.roll_up(log)  # nothing to do
    assert rolled == [10]


async def test_large_flushes_are_named_as_they_are(bench: Bench) -> None:
    log = await bench.open(index_from_bytes=1000, segment_bytes=10_000)
    for size in (1, 1, 2000, 1, 2000, 2000, 1, 1, 1):
        await write(log, b"x" * size)
    await history.roll_up(log)
    rows = [(row.base, row.end, keys.parse_segment(row.name)) for row in log.manifest.segments]
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


async def test_a_merged_object_is_no_larger_than_a_segment_may_be(bench: Bench) -> None:
    log = await bench.open(segment_bytes=1000)
    await fill(log, 12, size=200)
    await history.roll_up(log)
    assert [row.records for row in log.manifest.segments] == [3, 3, 3, 3]
    assert [row.size < 1000 for row in log.manifest.segments] == [True] * 4


async def test_a_roll_up_reads_back_what_has_left_memory(bench: Bench) -> None:
    bench.memory.budget_bytes = 3000
    log = await bench.open(index_interval_bytes=1)
    for at in range(10):
        await write(log, b"%d" % at, b"-", lane=at % 2)
    before = [await everything(bench, lane) for lane in (0, 1)]
    await history.roll_up(log)
    assert [await everything(bench, lane) for lane in (0, 1)] == before
    (entry,) = log.manifest.segments
    found = index.decode(await bench.inner.read(keys.index_of(f"{FOLDER}/{entry.name}")))
    assert len(found.addresses) == 10


async def test_appending_goes_on_during_a_roll_up(bench: Bench) -> None:
    log = await bench.open()
    await fill(log, 3)
    stall = bench.plan.add(Rule(Fault.STALL_BEFORE, "put_new", "*-1-*.kfs", times=1))
    rolling = asyncio.ensure_future(history.roll_up(log))
    await stall.reached.wait()
    assert await write(log, b"more") == 3
    stall.release()
    await rolling
    assert (log.manifest.end, len(log.tail), log.lane(0).high) == (3, 1, 4)
    assert [offset for offset, _ in await read_all(bench.reader(), log, log.lane(0))] == [
        0,
        1,
        2,
        3,
    ]


async def test_a_roll_up_that_loses_the_race_takes_up_the_winners_view(bench: Bench) -> None:
    rolled: list[int] = []
    log = await bench.open(observer=Observer(rolled_up=rolled.append))
    await fill(log, 3)
    other = await bench.open()
    stall = bench.plan.add(Rule(Fault.STALL_BEFORE, "put_new", "*-1-*.kfs", times=1))
    rolling = asyncio.ensure_future(history.roll_up(log))
    await stall.reached.wait()
    await history.roll_up(other)
    stall.release()
    await rolling
    assert rolled == []
    assert log.manifest == other.manifest
    assert log.manifest.generation == 1
    assert await write(log, b"on") == 3


async def test_a_roll_up_whose_tail_was_rolled_up_and_deleted_looks_again(bench: Bench) -> None:
    bench.memory.budget_bytes = 0
    log = await bench.open()
    await fill(log, 3)
    other = await bench.open()
    await history.roll_up(other)
    await bench.inner.delete([keys.segment(FOLDER, at) for at in range(3)])
    await history.roll_up(log)
    assert log.manifest == other.manifest
    assert await write(log, b"on") == 3


@pytest.mark.parametrize("fault", [Fault.FAIL_BEFORE, Fault.FAIL_AFTER])
async def test_a_roll_up_on_a_failing_store_happens_once(bench: Bench, fault: Fault) -> None:
    log = await bench.open()
    await fill(log, 3)
    bench.plan.add(Rule(fault, "put_new", times=6))
    bench.plan.add(Rule(fault, "find", times=2))
    await history.roll_up(log)
    assert log.manifest.generation == 1
    assert len([name for name in await bench.names() if "-1-" in name]) == 2
    assert len(await everything(bench)) == 3


async def test_a_re_opening_during_a_roll_up_keeps_both_right(bench: Bench) -> None:
    log = await bench.open()
    await fill(log, 3)
    stall = bench.plan.add(Rule(Fault.STALL_BEFORE, "put_new", "*-1-*.kfs", times=1))
    rolling = asyncio.ensure_future(history.roll_up(log))
    await stall.reached.wait()
    other = await bench.open()
    await write(other, b"theirs")
    with pytest.raises(NotTheOwner):
        await write(log, b"ours")
    await settle()
    stall.release()
    await rolling
    assert log.lane(0).high == 4
    assert (log.manifest.end, len(log.tail)) == (3, 1)
    assert await write(log, b"ours") == 4


# -- retention -----------------------------------------------------------------------------------


async def test_what_is_too_old_goes_whole_objects_at_a_time(bench: Bench) -> None:
    log = await bench.open(index_from_bytes=0)  # every flush stays an object of its own
    for at in range(6):
        await write(log, b"x", times=[NOW_MS + at * 1000])
    await history.roll_up(log)
    now_ms = NOW_MS + 10_000
    assert not await history.retain(log, now_ms, -1, -1)
    assert not await history.retain(log, now_ms, 10_000, -1)
    assert await history.retain(log, now_ms, 7000, -1)
    assert log.lane(0).start == 3
    assert [row.base for row in log.manifest.segments] == [3, 4, 5]
    assert dropped_names(log.manifest) == {keys.segment_name(at) for at in range(3)}
    again = await bench.open()
    assert (again.lane(0).start, again.lane(0).high) == (3, 6)


def test_what_has_no_time_is_as_old_as_what_follows_it() -> None:
    def span(first: int, time_ms: int) -> Span:
        return Span(0, first, first, 0, 100, time_ms, time_ms, 1)

    spans = [span(0, -1), span(1, NOW_MS), span(2, -1), span(3, NOW_MS + 9000), span(4, -1)]
    assert history.expired_start(spans, 0, NOW_MS + 5000, 10_000, -1) == 0
    assert history.expired_start(spans, 0, NOW_MS + 5000, 1000, -1) == 2
    assert history.expired_start(spans, 0, NOW_MS + 50_000, 1000, -1) == 4
    assert history.expired_start(spans, 0, NOW_MS, -1, 250) == 2


async def test_what_is_too_much_goes_but_never_less_than_asked_is_kept(bench: Bench) -> None:
    log = await bench.open(index_from_bytes=0)
    await fill(log, 6)
    size = len(make_batch(b"x"))
    await history.roll_up(log)
    assert not await history.retain(log, NOW_MS, -1, 6 * size)
    assert await history.retain(log, NOW_MS, -1, 3 * size + 1)
    assert log.lane(0).start == 2
    assert not await history.retain(log, NOW_MS, -1, 3 * size + 1)


async def test_a_record_without_a_time_is_never_too_old(bench: Bench) -> None:
    log = await bench.open()
    await write(log, b"x", times=[-1])
    assert not await history.retain(log, NOW_MS, 0, -1)


async def test_the_tail_is_rolled_up_before_it_can_expire(bench: Bench) -> None:
    log = await bench.open()
    await fill(log, 3)
    assert await history.retain(log, NOW_MS + 10, 1, -1)
    lane = log.lane(0)
    assert (lane.start, lane.high, log.manifest.end, log.manifest.segments) == (3, 3, 3, [])
    assert await write(log, b"y") == 3
    again = await bench.open()
    assert (again.lane(0).start, again.lane(0).high) == (3, 4)


async def test_the_move_of_a_start_is_logged_in_words_that_json_has(bench: Bench) -> None:
    log = await bench.open()
    await fill(log, 3)
    with capture_logs() as lines:
        assert await history.raise_starts(log, {0: 2})
    (line,) = [line for line in lines if line["event"] == "log_start_moved"]
    assert line["starts"] == {"0": 2}, "keys are text"


async def test_a_start_inside_an_object_keeps_the_object(bench: Bench) -> None:
    log = await bench.open()
    await fill(log, 5)
    assert await history.raise_starts(log, {0: 2})
    assert log.lane(0).start == 2
    (entry,) = log.manifest.segments
    assert (entry.base, entry.end) == (0, 5)
    rows = await read_all(bench.reader(), log, log.lane(0))
    assert [offset for offset, _ in rows] == [2, 3, 4]


async def test_a_log_start_never_goes_back(bench: Bench) -> None:
    log, other = await bench.open(), None
    await fill(log, 5)
    assert await history.raise_starts(log, {0: 3})
    assert not await history.raise_starts(log, {0: 1})
    other = await bench.open()
    await fill(other, 1)
    assert await history.raise_starts(other, {0: 4})
    await history.roll_up(log)  # made with the older start in mind
    await log.adopt_foreign()
    await history.roll_up(other)
    assert (await bench.open()).lane(0).start == 4
    assert log.lane(0).start == 4


async def test_each_lane_expires_on_its_own(bench: Bench) -> None:
    log = await bench.open()
    for lane in (0, 1, 0, 1):
        await write(log, b"x", lane=lane)
    assert await history.raise_starts(log, {1: 2})
    assert (log.lane(0).start, log.lane(1).start) == (0, 2)
    assert len(log.manifest.segments) == 1  # lane 0 still needs it
    assert await history.raise_starts(log, {0: 2})
    assert log.manifest.segments == []
    assert len(dropped_names(log.manifest)) == 1


async def test_raising_starts_beside_a_foreign_roll_up_keeps_both(bench: Bench) -> None:
    log = await bench.open()
    await fill(log, 4)
    await history.roll_up(log)
    await fill(log, 2)
    other = await bench.open()
    await history.roll_up(other)
    assert await history.raise_starts(log, {0: 3})
    assert (log.manifest.end, log.lane(0).start, log.tail) == (6, 3, [])
