import asyncio

import pytest

from kafscale.log.formats import keys
from kafscale.log.protocol import commits
from kafscale.log.upkeep import retention, rollup, sweep
from kafscale.log.writer.log import Log
from kafscale.model.errors import StoreUnavailable
from kafscale.testing.faulty_store import Fault, Rule
from tests.unit.log.log_harness import (
    FOLDER,
    GRACE_S,
    LogHarness,
    append,
    committed,
    dropped_names,
    everything,
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


async def test_merged_flushes_and_old_manifests_go_a_grace_period_later(
    harness: LogHarness,
) -> None:
    log = await harness.open()
    await fill(log, 3)
    await rollup.roll_up(log)
    assert await sweep_after(harness, log, GRACE_S - 1) == 0
    assert len(await harness.segments()) == 3
    assert await sweep_after(harness, log, 2) == 3
    assert await harness.segments() == []
    await fill(log, 2)
    await rollup.roll_up(log)
    assert await sweep_after(harness, log, GRACE_S - 1) == 0
    assert await sweep_after(harness, log, 2) == 3
    kept = [name for name in await harness.names() if name.startswith("manifest")]
    assert kept == ["manifest-00000000000000000002"]
    assert len(await everything(harness)) == 5
    assert not log.history.sweep_is_due
    assert await sweep.sweep(log) == 0


async def test_a_log_that_rolls_up_all_the_time_is_swept_all_the_same(harness: LogHarness) -> None:
    log = await harness.open()
    for _ in range(10):
        await fill(log, 2)
        await rollup.roll_up(log)
        await sweep_after(harness, log, GRACE_S / 2)
    assert len(await harness.segments()) <= 6
    assert sum(name.startswith("manifest") for name in await harness.names()) <= 4
    assert len(await everything(harness)) == 20


async def test_expired_objects_go_with_their_index_and_are_forgotten_then(
    harness: LogHarness,
) -> None:
    log = await harness.open()
    await fill(log, 3)
    await rollup.roll_up(log)
    await sweep_after(harness, log, GRACE_S + 1)
    await retention.raise_starts(log, {0: 3})
    (gone,) = dropped_names(log.committed.manifest)
    assert await sweep_after(harness, log, GRACE_S - 1) == 0
    assert await sweep_after(harness, log, 2) == 3  # segment, index, the manifest before
    assert await harness.names() == ["manifest-00000000000000000002"]
    assert dropped_names(log.committed.manifest) == {gone}
    await fill(log, 1)
    await rollup.roll_up(log)
    assert dropped_names(log.committed.manifest) == set()


async def test_what_another_has_swept_is_forgotten_too(harness: LogHarness) -> None:
    log = await harness.open()
    await fill(log, 2)
    await retention.raise_starts(log, {0: 2})
    await sweep_after(harness, log, GRACE_S + 1)
    again = await harness.open()  # a restart: the broker has forgotten what it deleted
    assert dropped_names(again.committed.manifest)
    await sweep_after(harness, again)
    await fill(again, 1)
    await rollup.roll_up(again)
    assert dropped_names(again.committed.manifest) == set()


async def test_orphans_are_condemned_by_a_generation_first(harness: LogHarness) -> None:
    log = await harness.open()
    await fill(log, 2)
    harness.plan.add(Rule(Fault.STALL_BEFORE, "put_new", "*/manifest-*"))
    rolling = asyncio.ensure_future(rollup.roll_up(log))
    await harness.plan.rules[0].reached.wait()
    rolling.cancel()
    await asyncio.gather(rolling, return_exceptions=True)
    harness.plan.clear()
    orphan = next(name for name in await harness.names() if name.endswith(".kfs") and "-1-" in name)
    await fill(log, 1)
    await rollup.roll_up(log)
    assert await sweep_after(harness, log, GRACE_S - 1) == 0
    assert orphan not in dropped_names(log.committed.manifest)
    await sweep_after(harness, log, 2)  # the merged flushes go, the orphan is condemned
    assert dropped_names(log.committed.manifest) == {orphan}
    assert orphan in await harness.names()
    await sweep_after(harness, log, GRACE_S - 1)
    assert orphan in await harness.names()
    await sweep_after(harness, log, 2)
    assert not [name for name in await harness.names() if orphan[:-4] in name]
    assert len(await everything(harness)) == 3


async def test_an_index_without_its_segment_goes(harness: LogHarness) -> None:
    log = await harness.open()
    await fill(log, 2)
    await rollup.roll_up(log)
    lost = keys.index_of(f"{FOLDER}/{keys.rewritten_name(0, 1, 7)}")
    await harness.inner.put_new(lost, [b""])
    await sweep_after(harness, log, GRACE_S - 1)
    assert lost.rpartition("/")[2] in await harness.names()
    await sweep_after(harness, log, 2)
    assert lost.rpartition("/")[2] not in await harness.names()


async def test_a_sweep_that_fails_can_be_repeated(harness: LogHarness) -> None:
    log = await harness.open()
    await fill(log, 3)
    await rollup.roll_up(log)
    harness.clock.advance_ms(GRACE_S * 1000 + 1)
    harness.plan.add(Rule(Fault.FAIL_AFTER, "delete", times=1))
    with pytest.raises(StoreUnavailable):
        await sweep.sweep(log)
    assert log.history.sweep_is_due
    assert await sweep.sweep(log) == 0
    assert await harness.segments() == []


async def test_a_reader_of_the_generation_before_can_still_read(harness: LogHarness) -> None:
    log = await harness.open()
    await fill(log, 3)
    reading = await harness.open()
    await rollup.roll_up(log)
    await sweep_after(harness, log, GRACE_S - 1)
    rows = await read_all(harness.reader(), reading, reading.lane(0))
    assert [offset for offset, _ in rows] == [0, 1, 2]
    waiting = append(log, make_batch(b"x"))
    assert await committed(waiting) == 3
    assert (await commits.read_newest(harness.inner, FOLDER)).generation == 1
