from structlog.testing import capture_logs

from kafscale.log.formats import keys
from kafscale.log.formats.segment import Span
from kafscale.log.upkeep import retention, rollup, sweep
from kafscale.log.writer.log import Log
from tests.unit.log.log_harness import (
    NOW_MS,
    LogHarness,
    dropped_names,
    make_batch,
    read_all,
    write,
)


async def fill(log: Log, count: int, size: int = 1, lane: int = 0) -> None:
    for _ in range(count):
        await write(log, b"x" * size, lane=lane)


async def sweep_after(harness: LogHarness, log: Log, after_s: float = 0.0) -> int:
    harness.clock.advance_ms(after_s * 1000)
    log.history.ask_for_sweep()
    return await sweep.sweep(log)


async def test_what_is_too_old_goes_whole_objects_at_a_time(harness: LogHarness) -> None:
    log = await harness.open(index_from_bytes=0)  # every flush stays an object of its own
    for at in range(6):
        await write(log, b"x", times=[NOW_MS + at * 1000])
    await rollup.roll_up(log)
    now_ms = NOW_MS + 10_000
    assert not await retention.retain(log, now_ms, -1, -1)
    assert not await retention.retain(log, now_ms, 10_000, -1)
    assert await retention.retain(log, now_ms, 7000, -1)
    assert log.lane(0).start == 3
    assert [row.base for row in log.committed.manifest.segments] == [3, 4, 5]
    assert dropped_names(log.committed.manifest) == {keys.segment_name(at) for at in range(3)}
    again = await harness.open()
    assert (again.lane(0).start, again.lane(0).high) == (3, 6)


def test_what_has_no_time_is_as_old_as_what_follows_it() -> None:
    def span(first: int, time_ms: int) -> Span:
        return Span(0, first, first, 0, 100, time_ms, time_ms, 1)

    spans = [span(0, -1), span(1, NOW_MS), span(2, -1), span(3, NOW_MS + 9000), span(4, -1)]
    assert retention.expired_start(spans, 0, NOW_MS + 5000, 10_000, -1) == 0
    assert retention.expired_start(spans, 0, NOW_MS + 5000, 1000, -1) == 2
    assert retention.expired_start(spans, 0, NOW_MS + 50_000, 1000, -1) == 4
    assert retention.expired_start(spans, 0, NOW_MS, -1, 250) == 2


async def test_what_is_too_much_goes_but_never_less_than_asked_is_kept(harness: LogHarness) -> None:
    log = await harness.open(index_from_bytes=0)
    await fill(log, 6)
    size = len(make_batch(b"x"))
    await rollup.roll_up(log)
    assert not await retention.retain(log, NOW_MS, -1, 6 * size)
    assert await retention.retain(log, NOW_MS, -1, 3 * size + 1)
    assert log.lane(0).start == 2
    assert not await retention.retain(log, NOW_MS, -1, 3 * size + 1)


async def test_a_record_without_a_time_is_never_too_old(harness: LogHarness) -> None:
    log = await harness.open()
    await write(log, b"x", times=[-1])
    assert not await retention.retain(log, NOW_MS, 0, -1)


async def test_the_tail_is_rolled_up_before_it_can_expire(harness: LogHarness) -> None:
    log = await harness.open()
    await fill(log, 3)
    assert await retention.retain(log, NOW_MS + 10, 1, -1)
    lane = log.lane(0)
    assert (lane.start, lane.high, log.committed.manifest.end, log.committed.manifest.segments) == (
        3,
        3,
        3,
        [],
    )
    assert await write(log, b"y") == 3
    again = await harness.open()
    assert (again.lane(0).start, again.lane(0).high) == (3, 4)


async def test_the_move_of_a_start_is_logged_in_words_that_json_has(harness: LogHarness) -> None:
    log = await harness.open()
    await fill(log, 3)
    with capture_logs() as lines:
        assert await retention.raise_starts(log, {0: 2})
    (line,) = [line for line in lines if line["event"] == "log_start_moved"]
    assert line["starts"] == {"0": 2}, "keys are text"


async def test_a_start_inside_an_object_keeps_the_object(harness: LogHarness) -> None:
    log = await harness.open()
    await fill(log, 5)
    assert await retention.raise_starts(log, {0: 2})
    assert log.lane(0).start == 2
    (entry,) = log.committed.manifest.segments
    assert (entry.base, entry.end) == (0, 5)
    rows = await read_all(harness.reader(), log, log.lane(0))
    assert [offset for offset, _ in rows] == [2, 3, 4]


async def test_a_log_start_never_goes_back(harness: LogHarness) -> None:
    log, other = await harness.open(), None
    await fill(log, 5)
    assert await retention.raise_starts(log, {0: 3})
    assert not await retention.raise_starts(log, {0: 1})
    other = await harness.open()
    await fill(other, 1)
    assert await retention.raise_starts(other, {0: 4})
    await rollup.roll_up(log)  # made with the older start in mind
    await log.adopt_foreign()
    await rollup.roll_up(other)
    assert (await harness.open()).lane(0).start == 4
    assert log.lane(0).start == 4


async def test_each_lane_expires_on_its_own(harness: LogHarness) -> None:
    log = await harness.open()
    for lane in (0, 1, 0, 1):
        await write(log, b"x", lane=lane)
    assert await retention.raise_starts(log, {1: 2})
    assert (log.lane(0).start, log.lane(1).start) == (0, 2)
    assert len(log.committed.manifest.segments) == 1  # lane 0 still needs it
    assert await retention.raise_starts(log, {0: 2})
    assert log.committed.manifest.segments == []
    assert len(dropped_names(log.committed.manifest)) == 1


async def test_raising_starts_beside_a_foreign_roll_up_keeps_both(harness: LogHarness) -> None:
    log = await harness.open()
    await fill(log, 4)
    await rollup.roll_up(log)
    await fill(log, 2)
    other = await harness.open()
    await rollup.roll_up(other)
    assert await retention.raise_starts(log, {0: 3})
    assert (log.committed.manifest.end, log.lane(0).start, log.committed.tail) == (6, 3, [])
