"""Transactions in a lane: what is stable, what was aborted, and that no writer forgets it."""

from collections.abc import Sequence

import pytest

from kafscale.engine.partitions.visibility import (
    READ_COMMITTED,
    READ_UNCOMMITTED,
    filter_for,
    filter_of_slow_read,
)
from kafscale.log.formats.transactions import AbortedRange, OpenTransaction
from kafscale.log.protocol import survey
from kafscale.log.upkeep import retention, rollup
from kafscale.log.writer import transaction_ends
from kafscale.log.writer.lane import Lane
from kafscale.log.writer.log import Log
from kafscale.log.writer.types import wait_for_commit
from kafscale.model.errors import (
    InvalidTransactionState,
    StaleProducerEpoch,
    TransactionPending,
)
from kafscale.records import batch
from tests.unit.log.log_harness import FOLDER, LogHarness, append, committed, make_batch, values_of

TRANSACTIONAL_AT = 22


def in_transaction(
    *values: bytes, producer: int = 5, epoch: int = 0, sequence: int = 0
) -> memoryview:
    data = make_batch(*values, producer=producer, epoch=epoch, sequence=sequence)
    data[TRANSACTIONAL_AT] |= batch.TRANSACTIONAL
    batch.sign(data)
    return data


async def write(log: Log, data: memoryview, lane: int = 0) -> int:
    return await committed(append(log, data, lane))


async def end(
    log: Log, turn: int, *, committed: bool, producer: int = 5, epoch: int = 0, lane: int = 0
) -> None:
    waits = transaction_ends.end_transaction(log, lane, producer, epoch, turn, committed=committed)
    if waits is not None:
        await wait_for_commit(waits)


def seen(lane: Lane, pieces: Sequence[memoryview] | None = None) -> list[tuple[int, bytes | None]]:
    """What a reader of committed records gets, without markers."""
    if pieces is None:
        pieces = lane.read_memory(lane.start, 1 << 20, at_least_one=True) or []
    committed_only = filter_for(lane, READ_COMMITTED)
    if committed_only is not None:
        pieces = committed_only(pieces)
    plain = [
        piece[at : at + header.size]
        for piece in pieces
        for at, header in batch.walk(piece)
        if not header.is_control and header.record_count
    ]
    return values_of(plain)


async def test_the_stable_offset_stops_at_the_first_open_transaction(harness: LogHarness) -> None:
    log = await harness.open()
    lane = log.lane(0)
    await write(log, make_batch(b"plain"))
    await write(log, in_transaction(b"a", b"b"))
    await write(log, make_batch(b"behind"))
    assert (lane.stable, lane.high) == (1, 4)
    assert seen(lane) == [(0, b"plain")]
    await end(log, 1, committed=True)
    assert (lane.stable, lane.high) == (5, 5)
    assert seen(lane) == [(0, b"plain"), (1, b"a"), (2, b"b"), (3, b"behind")]


async def test_aborted_batches_are_left_out(harness: LogHarness) -> None:
    log = await harness.open()
    lane = log.lane(0)
    await write(log, in_transaction(b"gone"))
    await write(log, in_transaction(b"kept", producer=6))
    await end(log, 1, committed=False)
    assert lane.stable == 1
    await end(log, 1, committed=True, producer=6)
    assert lane.stable == lane.high == 4
    assert seen(lane) == [(1, b"kept")]
    await write(log, in_transaction(b"later", sequence=1))
    await end(log, 2, committed=True)
    assert seen(lane) == [(1, b"kept"), (4, b"later")]


async def test_a_reader_gets_past_a_stretch_that_is_all_aborted(harness: LogHarness) -> None:
    log = await harness.open()
    lane = log.lane(0)
    await write(log, in_transaction(b"gone", b"gone"))
    await end(log, 1, committed=False)
    committed_only = filter_for(lane, READ_COMMITTED)
    assert committed_only is not None
    (empty,) = committed_only(lane.read_memory(0, 1, at_least_one=True) or [])
    header = batch.read_header(empty)
    assert (header.base_offset, header.next_offset, header.record_count) == (0, 2, 0)


@pytest.mark.parametrize("ended", [None, False, True])
async def test_a_transaction_that_begins_while_the_store_is_read_is_not_seen(
    harness: LogHarness, ended: bool | None
) -> None:
    log = await harness.open()
    lane = log.lane(0)
    await write(log, make_batch(b"plain"))
    committed_only = filter_of_slow_read(lane, READ_COMMITTED)
    everything = filter_of_slow_read(lane, READ_UNCOMMITTED)
    read = lane.read_memory(0, 1 << 20, at_least_one=True) or []
    assert committed_only(read) is read
    await write(log, in_transaction(b"new"))
    if ended is not None:
        await end(log, 1, committed=ended)
    read = lane.read_memory(0, 1 << 20, at_least_one=True) or []
    assert values_of(committed_only(read)) == [(0, b"plain")]
    assert everything(read) is read


async def test_a_waiting_marker_changes_nothing_for_readers(harness: LogHarness) -> None:
    log = await harness.open(flush_interval_s=60)
    lane = log.lane(0)
    first = append(log, in_transaction(b"a"))
    log.flush_soon()
    await committed(first)
    waits = transaction_ends.end_transaction(log, 0, 5, 0, 1, committed=True)
    assert waits is not None
    assert (lane.stable, lane.end) == (0, 2)
    assert transaction_ends.end_transaction(log, 0, 5, 0, 1, committed=True) is waits
    log.flush_soon()
    await wait_for_commit(waits)
    assert lane.stable == 2


async def test_a_marker_is_taken_once(harness: LogHarness) -> None:
    log = await harness.open()
    await write(log, in_transaction(b"a"))
    await end(log, 7, committed=True)
    await end(log, 7, committed=False)
    await end(log, 6, committed=False)
    assert log.lane(0).high == 2
    await write(log, in_transaction(b"b", sequence=1))
    await end(log, 7, committed=True)  # of the transaction before: it must not end this one
    assert log.lane(0).stable == 2


@pytest.mark.parametrize("merge", [False, True])
async def test_roll_up_and_re_opening_keep_everything(harness: LogHarness, merge: bool) -> None:
    log = await harness.open()
    await write(log, in_transaction(b"gone"))
    await end(log, 1, committed=False)
    await write(log, in_transaction(b"open", sequence=1))
    await write(log, make_batch(b"plain"))
    for again in (False, True):
        if again:
            await rollup.roll_up(log, merge=merge)
            assert harness.logs
        found = await harness.open()
        lane = found.lane(0)
        assert lane.transactions.aborted == [AbortedRange(5, 0, 1)]
        assert list(lane.transactions.open.values()) == [OpenTransaction(5, 0, 2)]
        assert (lane.stable, lane.high) == (2, 4)
        assert lane.transactions.last_turn(5) == lane.producers.last_turn(5) == 1
        snapshot = await survey.take_snapshot(harness.inner, FOLDER)
        told = snapshot.transactions()[0]
        assert told.aborted == lane.transactions.aborted
        assert told.open == lane.transactions.open
    await end(found, 2, committed=False)
    lane = found.lane(0)
    pieces = await harness.reader().read(found, lane, 0, 1 << 20, at_least_one=True)
    if not merge:  # one read gives the first object that is not small
        pieces += lane.read_memory(4, 1 << 20, at_least_one=True) or []
    assert seen(lane, pieces) == [(3, b"plain")]


async def test_a_raised_epoch_refuses_late_batches_after_re_opening_too(
    harness: LogHarness,
) -> None:
    log = await harness.open()
    await write(log, in_transaction(b"a"))
    await end(log, 1, committed=True, epoch=1)
    await rollup.roll_up(log)
    for one in (log, await harness.open()):
        with pytest.raises(StaleProducerEpoch):
            append(one, in_transaction(b"late", sequence=1))
    found = harness.logs[-1]
    await write(found, in_transaction(b"next", epoch=1))
    assert found.lane(0).stable == 2


async def test_nothing_comes_between_the_batches_of_a_transaction(harness: LogHarness) -> None:
    log = await harness.open()
    await write(log, in_transaction(b"a"))
    with pytest.raises(TransactionPending):
        append(log, in_transaction(b"b", epoch=1))
    with pytest.raises(InvalidTransactionState):
        append(log, make_batch(b"b", producer=5, sequence=1))


async def test_what_no_row_claims_is_aborted_unless_it_has_ended(harness: LogHarness) -> None:
    log = await harness.open()
    await write(log, in_transaction(b"a"))
    ((lane, opened),) = transaction_ends.each_open(log)
    await end(log, 1, committed=True)
    await write(log, in_transaction(b"b", sequence=1))
    assert transaction_ends.abort_unclaimed(log, 0, opened) is None
    ((_, following),) = transaction_ends.each_open(log)
    waits = transaction_ends.abort_unclaimed(log, 0, following)
    assert waits is not None
    await wait_for_commit(waits)
    assert not list(transaction_ends.each_open(log))
    assert seen(lane) == [(0, b"a")]


async def test_an_open_transaction_outlives_silence_and_retention(harness: LogHarness) -> None:
    log = await harness.open(producer_expiry_ms=1000)
    await write(log, in_transaction(b"gone"))
    await end(log, 1, committed=False)
    await write(log, in_transaction(b"open", producer=6))
    harness.clock.advance_ms(3_600_000)
    await retention.raise_starts(log, {0: 2})
    lane = (await harness.open()).lane(0)
    assert lane.transactions.aborted == []
    assert lane.stable == 2
    assert list(lane.transactions.open) == [6]


async def test_a_registration_ends_with_the_marker_and_with_a_re_opening(
    harness: LogHarness,
) -> None:
    log = await harness.open()
    lane = log.lane(0)
    before = lane.markers
    assert lane.register(5, 0, before)
    await write(log, in_transaction(b"a"))
    await end(log, 1, committed=True)
    assert lane.registered == {}
    assert not lane.register(5, 0, before)
    assert lane.register(5, 0, lane.markers)
    await log.reopen("a test")
    assert lane.registered == {}


async def test_segments_without_transactions_stay_as_they_were(harness: LogHarness) -> None:
    log = await harness.open()
    await write(log, make_batch(b"a"))
    await write(log, in_transaction(b"b"))
    await write(log, make_batch(b"c"))
    first, second, third = (await harness.look()).tail
    assert first.content.transactions is None
    assert second.content.transactions is not None
    assert third.content.transactions is None
    assert [found.content.predecessor is None for found in (first, second, third)] == [
        True,
        False,
        True,
    ]
