"""Batches that wait in memory for the end of their transaction, and go with its markers."""

import asyncio

import pytest

from kafscale.log.writer import transaction_ends
from kafscale.log.writer.log import Log
from kafscale.log.writer.types import Appended, wait_for_commit
from kafscale.model.errors import NotTheOwner, OffsetRangeExhausted
from kafscale.records import batch
from tests.unit.log.log_harness import LogHarness, make_batch, write
from tests.unit.log.writer.test_transactions import in_transaction, seen

PRODUCER = 5


def hold(log: Log, data: memoryview, lane: int = 0) -> Appended:
    header = batch.read_header(data)
    return log.append(lane, header, data, acknowledged=False, held=True)


async def end(log: Log, *lanes: int, committed: bool = True) -> None:
    done = transaction_ends.end_together(log, lanes, PRODUCER, 0, 1, committed=committed)
    if done is not None:
        await wait_for_commit(done)


async def test_records_and_markers_of_all_lanes_are_one_object(harness: LogHarness) -> None:
    log = await harness.open()
    for lane in (0, 1, 2):
        assert hold(log, in_transaction(b"%d" % lane), lane).committed is None
    await asyncio.sleep(0)
    assert await harness.segments() == []
    await end(log, 0, 1, 2)
    assert len(await harness.segments()) == 1
    for lane in (0, 1, 2):
        assert (log.lane(lane).stable, log.lane(lane).high) == (2, 2)
        assert seen(log.lane(lane)) == [(0, b"%d" % lane)]
        assert transaction_ends.outcome_of(log.lane(lane), PRODUCER, 1) is True
    await end(log, 0, 1, 2, committed=False)  # the first marker counts
    assert len(await harness.segments()) == 1


async def test_a_batch_that_is_not_held_takes_held_ones_with_it(harness: LogHarness) -> None:
    log = await harness.open()
    hold(log, in_transaction(b"held"))
    await write(log, b"plain")
    assert (log.lane(0).stable, log.lane(0).high) == (0, 2)
    assert len(await harness.segments()) == 1


async def test_what_is_held_goes_when_its_owner_keeps_it(harness: LogHarness) -> None:
    log = await harness.open()
    hold(log, in_transaction(b"held"))
    done = log.keep(PRODUCER)
    assert done is not None
    await wait_for_commit(done)
    assert log.lane(0).high == 1
    assert log.keep(PRODUCER) is None


async def test_beyond_a_flush_nothing_is_held(harness: LogHarness) -> None:
    log = await harness.open(flush_bytes=300)
    assert hold(log, in_transaction(b"x" * 400)).committed is None
    refused = hold(log, in_transaction(b"y", sequence=1))
    assert refused.committed is not None
    await wait_for_commit(refused.committed)
    assert log.lane(0).high == 2


async def test_the_same_batch_again_is_answered_at_once(harness: LogHarness) -> None:
    log = await harness.open()
    hold(log, in_transaction(b"once"))
    again = hold(log, in_transaction(b"once"))
    assert again == Appended(0, None, is_duplicate=True)
    await end(log, 0)
    assert log.lane(0).high == 2


async def test_markers_stay_in_one_object_whatever_its_size(harness: LogHarness) -> None:
    log = await harness.open(largest_flush_bytes=200)
    hold(log, in_transaction(b"a"))
    await end(log, *range(10))
    assert len(await harness.segments()) == 2  # the records, then all markers
    assert all(log.lane(lane).transactions.last_turn(PRODUCER) == 1 for lane in range(10))


async def test_what_was_held_is_not_appended_again(harness: LogHarness) -> None:
    log = await harness.open()
    session = log.session
    hold(log, in_transaction(b"lost"))
    await log.reopen("a test")
    assert log.session != session
    assert log.session == log.session
    await write(log, b"next")
    assert (log.lane(0).stable, log.lane(0).high) == (1, 1)


async def test_no_marker_is_written_if_one_lane_cannot_take_it(harness: LogHarness) -> None:
    log = await harness.open()
    hold(log, in_transaction(b"a"))
    appended = log.seal(1)
    assert appended.committed is not None
    await wait_for_commit(appended.committed)
    with pytest.raises(NotTheOwner):
        await end(log, 0, 1)
    full = log.lane(2)
    full.serve("t", 2, type(full.rules)(offset_range=0))
    with pytest.raises(OffsetRangeExhausted):
        await end(log, 0, 2)
    assert log.lane(0).producers.open_transaction(PRODUCER) == (0, 0)


async def test_an_owner_that_was_too_slow_commits_nothing(harness: LogHarness) -> None:
    old, new = await harness.open(), await harness.open()
    hold(old, in_transaction(b"lost"))
    await end(new, 0, committed=False)
    with pytest.raises(NotTheOwner):
        await end(old, 0)
    assert transaction_ends.outcome_of(old.lane(0), PRODUCER, 1) is not True
    await write(new, b"next")
    assert seen(new.lane(0)) == [(1, b"next")]


async def test_plain_batches_are_not_held(harness: LogHarness) -> None:
    log = await harness.open(flush_interval_s=100.0)
    hold(log, in_transaction(b"held"))
    data = make_batch(b"plain")
    appended = log.append(0, batch.read_header(data), data, acknowledged=False)
    assert appended.committed is not None
    log.flush_soon()
    await wait_for_commit(appended.committed)
