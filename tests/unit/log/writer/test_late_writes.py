"""Records that another writer added: the owner looks for them before it says there are none."""

import asyncio

import pytest

from kafscale.log.formats import keys
from kafscale.log.upkeep import rollup
from kafscale.log.writer.log import Log
from kafscale.model.errors import NotTheOwner, StoreUnavailable
from kafscale.testing.faulty_store import Fault, Rule
from tests.unit.log.log_harness import (
    FOLDER,
    LogHarness,
    append,
    committed,
    make_batch,
    opened_again,
)


async def with_another_writer(harness: LogHarness) -> Log:
    """A log to which another writer has added a batch that the owner does not know of."""
    owner, other = await harness.open(), await harness.open()
    assert await committed(append(other, make_batch(b"theirs"))) == 0
    assert owner.committed.end == 0
    return owner


async def test_what_another_has_added_is_taken_up(harness: LogHarness) -> None:
    owner = await with_another_writer(harness)
    await owner.late_writes.catch_up()
    assert owner.lane(0).high == 1


async def test_a_look_is_due_once_a_second(harness: LogHarness) -> None:
    owner = await harness.open()
    for _ in range(3):
        await owner.late_writes.catch_up()
    harness.clock.advance_ms(999)
    assert not owner.late_writes.is_due()
    before = len(harness.store.calls)
    await owner.late_writes.catch_up()
    assert len(harness.store.calls) == before
    harness.clock.advance_ms(1)
    assert owner.late_writes.is_due()


async def test_a_reader_that_comes_during_a_look_waits_for_its_result(harness: LogHarness) -> None:
    owner = await with_another_writer(harness)
    slow = harness.plan.add(Rule(Fault.STALL_BEFORE, "find", times=1))
    first = asyncio.create_task(owner.late_writes.catch_up())
    await slow.reached.wait()
    assert owner.late_writes.is_due(), "nothing has been seen yet"
    second = asyncio.create_task(owner.late_writes.catch_up())
    await asyncio.sleep(0)
    assert not second.done()
    slow.release()
    await asyncio.gather(first, second)
    assert owner.lane(0).high == 1


async def test_who_waits_looks_himself_when_the_first_gives_up(harness: LogHarness) -> None:
    owner = await with_another_writer(harness)
    slow = harness.plan.add(Rule(Fault.STALL_BEFORE, "find", times=1))
    first = asyncio.create_task(owner.late_writes.catch_up())
    await slow.reached.wait()
    second = asyncio.create_task(owner.late_writes.catch_up())
    await asyncio.sleep(0)
    first.cancel()
    await second
    assert owner.lane(0).high == 1


async def test_a_look_that_failed_has_seen_nothing(harness: LogHarness) -> None:
    owner = await with_another_writer(harness)
    harness.plan.add(Rule(Fault.FAIL_BEFORE, "find", times=1))
    with pytest.raises(StoreUnavailable):
        await owner.late_writes.catch_up()
    assert owner.late_writes.is_due()
    await owner.late_writes.catch_up()
    assert owner.lane(0).high == 1


async def test_while_a_flush_is_under_way_no_reader_hears_that_there_is_nothing(
    harness: LogHarness,
) -> None:
    owner = await with_another_writer(harness)
    slow = harness.plan.add(Rule(Fault.STALL_BEFORE, "put_new", times=1))
    waiting = append(owner, make_batch(b"ours"))
    await slow.reached.wait()
    with pytest.raises(NotTheOwner):
        await owner.late_writes.catch_up()
    assert owner.late_writes.is_due()
    slow.release()
    with pytest.raises(NotTheOwner):
        await committed(waiting)
    await opened_again(owner)
    assert owner.lane(0).high == 1
    await owner.late_writes.catch_up()


async def test_the_same_where_the_other_writer_has_rolled_up(harness: LogHarness) -> None:
    owner, other = await harness.open(), await harness.open()
    assert await committed(append(other, make_batch(b"theirs"))) == 0
    await rollup.roll_up(other)
    await harness.inner.delete([keys.segment(FOLDER, 0)])
    slow = harness.plan.add(Rule(Fault.STALL_BEFORE, "put_new", times=1))
    append(owner, make_batch(b"ours"))
    await slow.reached.wait()
    with pytest.raises(NotTheOwner):
        await owner.late_writes.catch_up()
