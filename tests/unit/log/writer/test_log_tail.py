import asyncio

import pytest

from kafscale.log.upkeep import retention, rollup, sweep
from kafscale.log.writer.states import LogState
from kafscale.model.errors import (
    NotTheOwner,
    OutOfOrderSequence,
)
from kafscale.testing.faulty_store import Fault, Rule
from tests.unit.log.log_harness import (
    GRACE_S,
    LogHarness,
    append,
    committed,
    everything,
    headers_in,
    make_batch,
    opened_again,
    read_all,
    settle,
    write,
)

# -- the tail is not ours --------------------------------------------------------------------------


async def test_a_foreign_segment_at_our_position_is_adopted_and_waiting_ones_refused(
    any_harness: LogHarness,
) -> None:
    ours, theirs = await any_harness.open(epoch=1), await any_harness.open(epoch=2)
    await write(ours, b"a")
    assert theirs.lane(0).high == 0
    with pytest.raises(NotTheOwner):
        await write(theirs, b"b")
    await opened_again(theirs)
    assert theirs.state is LogState.OPEN
    assert theirs.lane(0).high == 1
    assert await write(theirs, b"b") == 1
    assert await everything(any_harness) == [(0, b"a"), (1, b"b")]
    assert theirs.lane(0).epochs == [(1, 0), (2, 1)]


async def test_all_that_waits_is_refused_and_the_lanes_are_woken(harness: LogHarness) -> None:
    ours, theirs = await harness.open(), await harness.open()
    buffered: list[int] = []
    theirs.observer.buffered = buffered.append
    woken = []
    theirs.lane(0).watchers.add(lambda _: woken.append(theirs.lane(0).high))
    stall = harness.plan.add(Rule(Fault.STALL_BEFORE, "put_new", times=1))
    first = append(theirs, make_batch(b"x"))
    await stall.reached.wait()
    second = append(theirs, make_batch(b"y"))
    await write(ours, b"a")
    stall.release()
    for one in (first, second):
        with pytest.raises(NotTheOwner):
            await committed(one)
    await settle()
    assert woken == [1]
    assert sum(buffered) == 0
    assert theirs.lane(0).end == 1


async def test_nothing_is_appended_while_the_log_is_opened_again(harness: LogHarness) -> None:
    ours, theirs = await harness.open(), await harness.open()
    await write(ours, b"a")
    stall = harness.plan.add(Rule(Fault.STALL_BEFORE, "find", times=1))
    one = append(theirs, make_batch(b"x"))
    await stall.reached.wait()
    with pytest.raises(NotTheOwner):
        await committed(one)
    with pytest.raises(NotTheOwner):
        append(theirs, make_batch(b"y"))
    stall.release()
    await settle()
    assert await write(theirs, b"y") == 1


async def test_a_sick_store_is_asked_until_the_log_is_open_again(harness: LogHarness) -> None:
    ours, theirs = await harness.open(), await harness.open()
    await write(ours, b"a")
    harness.plan.add(Rule(Fault.FAIL_BEFORE, "find", times=3))
    with pytest.raises(NotTheOwner):
        await write(theirs, b"x")
    await opened_again(theirs)
    assert await write(theirs, b"x") == 1


async def test_an_idempotent_retry_is_found_in_what_was_adopted(harness: LogHarness) -> None:
    """The segment was ours after all: its answer was lost, and a manifest made us doubt."""
    log = await harness.open()
    await write(log, b"a", producer=7, sequence=0)
    harness.clock.advance_ms(GRACE_S * 1000)
    job = await harness.open()
    await rollup.roll_up(job)
    with pytest.raises(NotTheOwner):
        await write(log, b"b", producer=7, sequence=1)
    await settle()
    again = append(log, make_batch(b"b", producer=7, sequence=1))
    assert (again.first, again.committed, again.is_duplicate) == (1, None, True)
    assert await everything(harness) == [(0, b"a"), (1, b"b")]


async def test_later_batches_are_not_taken_before_those_that_were_refused(
    harness: LogHarness,
) -> None:
    ours, theirs = await harness.open(), await harness.open()
    await write(ours, b"a")
    with pytest.raises(NotTheOwner):
        await write(theirs, b"x", producer=7, sequence=0)
    await settle()
    with pytest.raises(OutOfOrderSequence):
        append(theirs, make_batch(b"y", producer=7, sequence=1))
    assert await write(theirs, b"x", producer=7, sequence=0) == 1
    assert await write(theirs, b"y", producer=7, sequence=1) == 2


async def test_batches_answered_early_are_appended_again_in_order(harness: LogHarness) -> None:
    ours, theirs = await harness.open(), await harness.open()
    await write(ours, b"a")
    for value in (b"x", b"y"):
        append(theirs, make_batch(value), acknowledged=True)
    refused = append(theirs, make_batch(b"z"))
    with pytest.raises(NotTheOwner):
        await committed(refused)
    await settle()
    assert await everything(harness) == [(0, b"a"), (1, b"x"), (2, b"y")]
    assert theirs.lane(0).high == 3


async def test_a_duplicate_of_a_batch_that_waits_waits_with_it(harness: LogHarness) -> None:
    log = await harness.open()
    stall = harness.plan.add(Rule(Fault.STALL_BEFORE, "put_new", times=1))
    first = append(log, make_batch(b"a", producer=7, sequence=0))
    await stall.reached.wait()
    second = append(log, make_batch(b"b", producer=7, sequence=1))
    for one in (first, second):
        again = append(log, make_batch(b"?", producer=7, sequence=one.first))
        assert again.is_duplicate
        assert (again.first, again.committed) == (one.first, one.committed)
    stall.release()
    await committed(second)
    assert await everything(harness) == [(0, b"a"), (1, b"b")]


# -- the proof of the tail -------------------------------------------------------------------------


def lists_of(harness: LogHarness) -> int:
    return sum(verb == "find" for verb, _ in harness.store.calls)


async def test_a_busy_log_costs_one_put_per_flush(harness: LogHarness) -> None:
    log = await harness.open()
    harness.store.calls.clear()
    for _ in range(5):
        await write(log, b"a")
        harness.clock.advance_ms(GRACE_S * 500)
    assert [verb for verb, _ in harness.store.calls] == ["put_new"] * 5


async def test_an_idle_log_looks_for_newer_manifests_before_it_believes_its_put(
    harness: LogHarness,
) -> None:
    log = await harness.open()
    await write(log, b"a")
    harness.clock.advance_ms(GRACE_S * 500 + 1)
    before = lists_of(harness)
    assert await write(log, b"b") == 1
    assert lists_of(harness) == before + 1
    assert await write(log, b"c") == 2
    assert lists_of(harness) == before + 1


async def test_a_frozen_machine_is_noticed_by_the_wall_clock_alone(harness: LogHarness) -> None:
    log = await harness.open()
    await write(log, b"a")
    before = lists_of(harness)
    harness.clock.set_wall_ms(harness.clock.now_ms() + int(GRACE_S * 500) + 1)
    assert await write(log, b"b") == 1
    assert lists_of(harness) == before + 1


async def test_the_age_of_a_proof_is_judged_after_the_put(harness: LogHarness) -> None:
    log = await harness.open()
    await write(log, b"a")
    stall = harness.plan.add(Rule(Fault.STALL_AFTER, "put_new", times=1))
    one = append(log, make_batch(b"b"))
    await stall.reached.wait()
    harness.clock.advance_ms(GRACE_S * 500 + 1)
    before = lists_of(harness)
    stall.release()
    await committed(one)
    assert lists_of(harness) == before + 1


async def test_a_proof_is_dated_when_it_was_asked_for(harness: LogHarness) -> None:
    """The check's answer is held up for longer than it is good for: it is asked again."""
    log = await harness.open()
    await write(log, b"a")
    harness.clock.advance_ms(GRACE_S * 500 + 1)
    stall = harness.plan.add(Rule(Fault.STALL_AFTER, "find", times=1))
    one = append(log, make_batch(b"b"))
    await stall.reached.wait()
    harness.clock.advance_ms(GRACE_S * 500 + 1)
    before = lists_of(harness)
    stall.release()
    await committed(one)
    assert lists_of(harness) == before + 1


async def test_a_slow_commit_is_dated_when_it_was_issued(harness: LogHarness) -> None:
    log = await harness.open()
    harness.clock.advance_ms(GRACE_S * 400)
    stall = harness.plan.add(Rule(Fault.STALL_AFTER, "put_new", times=1))
    one = append(log, make_batch(b"a"))
    await stall.reached.wait()
    harness.clock.advance_ms(GRACE_S * 99)
    stall.release()
    await committed(one)  # the proof is from 0.40 of a grace period, now is 0.499
    harness.clock.advance_ms(GRACE_S * 402)  # 0.901: 0.501 after the commit was issued
    before = lists_of(harness)
    await write(log, b"b")
    assert lists_of(harness) == before + 1


async def test_a_paused_writer_does_not_believe_a_ghost(harness: LogHarness) -> None:
    """Rule 3: its name was rolled up and deleted, so its PUT succeeds; nothing may come of it."""
    paused, other = await harness.open(), await harness.open()
    await write(other, b"a")
    await rollup.roll_up(other)
    await write(other, b"b")
    await rollup.roll_up(other)
    await retention.raise_starts(other, {0: 2})
    for _ in range(3):
        harness.clock.advance_ms(GRACE_S * 1000 + 1)
        other.history.ask_for_sweep()
        await sweep.sweep(other)
    assert await harness.segments() == []
    with pytest.raises(NotTheOwner):
        await write(paused, b"ghost", producer=7, sequence=0)
    await settle()
    assert paused.lane(0).high == 2
    assert paused.lane(0).start == 2
    assert await write(paused, b"ghost", producer=7, sequence=0) == 2
    assert await everything(harness) == [(2, b"ghost")]


async def test_our_own_roll_up_does_not_make_us_doubt_our_tail(harness: LogHarness) -> None:
    log = await harness.open()
    await write(log, b"a")
    await write(log, b"b")
    harness.clock.advance_ms(GRACE_S * 500 + 1)
    stall = harness.plan.add(Rule(Fault.STALL_AFTER, "put_new", "*/manifest-*", times=1))
    rolling = asyncio.ensure_future(rollup.roll_up(log))
    await stall.reached.wait()
    one = append(log, make_batch(b"c"))
    await settle()
    stall.release()
    assert await committed(one) == 2
    await rolling
    assert log.committed.manifest.end == 2
    assert log.state is LogState.OPEN


# -- foreign manifests -----------------------------------------------------------------------------


async def test_a_foreign_manifest_that_ends_on_our_chain_is_taken_up_in_place(harness: LogHarness):
    log = await harness.open()
    for at in range(4):
        await write(log, b"%d" % at)
    job = await harness.open()
    await write(log, b"4")
    await rollup.roll_up(job)
    waiting = append(log, make_batch(b"5"))
    assert await log.adopt_foreign()
    assert (
        log.committed.manifest.generation,
        log.committed.manifest.end,
        len(log.committed.tail),
    ) == (
        1,
        4,
        1,
    )
    assert await committed(waiting) == 5
    assert not await log.adopt_foreign()
    rows = await read_all(harness.reader(), log, log.lane(0))
    assert rows == [(at, b"%d" % at) for at in range(6)]


async def test_a_foreign_manifest_beyond_our_tail_opens_the_log_again(harness: LogHarness) -> None:
    log, other = await harness.open(flush_interval_s=3600), await harness.open()
    waiting = append(log, make_batch(b"x"))
    await write(other, b"a")
    await rollup.roll_up(other)
    assert await log.adopt_foreign()
    with pytest.raises(NotTheOwner):
        await committed(waiting)
    assert log.state is LogState.OPEN
    assert (log.lane(0).high, log.lane(0).end, log.committed.end) == (1, 1, 1)


async def test_being_cancelled_while_the_log_is_opened_again_leaves_it_open(
    harness: LogHarness,
) -> None:
    log, other = await harness.open(), await harness.open()
    await write(other, b"a")
    await rollup.roll_up(other)
    harness.plan.add(Rule(Fault.STALL_BEFORE, "find", skip=3, times=1))
    adopting = asyncio.ensure_future(log.adopt_foreign())
    await harness.plan.rules[0].reached.wait()
    assert log.state is LogState.OPENING
    adopting.cancel()
    await asyncio.gather(adopting, return_exceptions=True)
    harness.plan.clear()
    await settle()
    assert log.state is LogState.OPEN
    assert await write(log, b"b") == 1


async def test_an_older_manifest_read_late_does_not_replace_a_newer_one(
    harness: LogHarness,
) -> None:
    log = await harness.open()
    job = await harness.open()
    await write(job, b"a")
    await rollup.roll_up(job)
    stall = harness.plan.add(Rule(Fault.STALL_AFTER, "read", "*/manifest-*1", times=1))
    adopting = asyncio.ensure_future(log.adopt_foreign())
    await stall.reached.wait()
    await retention.raise_starts(job, {0: 1})
    await write(job, b"b")
    with pytest.raises(NotTheOwner):
        await write(log, b"x")
    await settle()
    assert (log.committed.manifest.generation, log.lane(0).start) == (2, 1)
    stall.release()
    await adopting
    assert (log.committed.manifest.generation, log.lane(0).start, log.committed.end) == (2, 1, 2)


async def test_what_is_written_after_a_newer_leader_does_not_look_older(
    harness: LogHarness,
) -> None:
    """A client would take what follows an epoch's end for gone, and begin anew."""
    old, new = await harness.open(epoch=1), await harness.open(epoch=2)
    await write(old, b"a")
    await new.reopen("a test says so")
    await write(new, b"b")
    with pytest.raises(NotTheOwner):
        await write(old, b"c")
    await opened_again(old)
    await write(old, b"c")
    assert [header.leader_epoch for header in headers_in(await harness.look())] == [1, 2, 2]
    assert old.lane(0).epochs == [(1, 0), (2, 1)]
