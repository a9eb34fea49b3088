"""A log as this process knows it: what its lanes hold, and what lies below their starts."""

from kafscale.log.upkeep import retention, rollup
from kafscale.log.writer.log import Log
from tests.unit.log.log_harness import LogHarness, make_batch, write

SIZE = len(make_batch(b"x"))


def held(log: Log) -> dict[int, int]:
    return {number: lane.held_bytes for number, lane in log.lanes.items()}


async def test_lanes_know_their_bytes_through_flush_roll_up_and_reopening(
    harness: LogHarness,
) -> None:
    log = await harness.open()
    for lane in (0, 0, 1):
        await write(log, b"x", lane=lane)
    assert held(log) == {0: 2 * SIZE, 1: SIZE}
    await rollup.roll_up(log)
    await write(log, b"x", lane=1)
    assert held(log) == {0: 2 * SIZE, 1: 2 * SIZE}
    assert held(await harness.open()) == {0: 2 * SIZE, 1: 2 * SIZE}
    assert log.committed.dead_bytes == 0


async def test_what_lies_below_a_lanes_start_is_dead_while_others_need_the_object(
    harness: LogHarness,
) -> None:
    log = await harness.open()
    await write(log, b"x", lane=0)
    await write(log, b"x", lane=1)
    await rollup.roll_up(log)  # both are in one object now
    await write(log, b"x", lane=1)
    assert await retention.raise_starts(log, {0: 1})
    assert (held(log), log.committed.dead_bytes) == ({0: 0, 1: 2 * SIZE}, SIZE)
    again = await harness.open()
    assert (held(again), again.committed.dead_bytes) == ({0: 0, 1: 2 * SIZE}, SIZE)
    assert await retention.raise_starts(again, {1: 1})  # the object goes, and the dead with it
    assert (held(again), again.committed.dead_bytes) == ({0: 0, 1: SIZE}, 0)
