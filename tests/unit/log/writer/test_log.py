import asyncio
from itertools import pairwise
from typing import Any

import pytest

from kafscale.log.formats import index, keys
from kafscale.log.formats.segment import ContentId
from kafscale.log.protocol import commits
from kafscale.log.upkeep import rollup
from kafscale.log.writer.lane import LaneRules
from kafscale.log.writer.states import LogState
from kafscale.log.writer.types import Observer
from kafscale.model.errors import (
    LogStopped,
    NotTheOwner,
    OffsetRangeExhausted,
    OutcomeUnknown,
    StoreRefused,
    StoreUnavailable,
)
from kafscale.testing.faulty_store import Fault, Rule
from kafscale.turns import MOST_BEGUN, Turns
from tests.unit.log.log_harness import (
    FOLDER,
    LogHarness,
    append,
    committed,
    everything,
    headers_in,
    make_batch,
    settle,
    values_of,
    write,
)

# -- group commit ----------------------------------------------------------------------------------


async def test_a_batch_gets_the_next_offsets_and_is_visible_when_committed(
    any_harness: LogHarness,
) -> None:
    log = await any_harness.open(epoch=4)
    first = append(log, make_batch(b"a", b"b"))
    second = append(log, make_batch(b"c"))
    lane = log.lane(0)
    assert (first.first, second.first) == (0, 2)
    assert (lane.end, lane.high) == (3, 0)
    assert lane.read_memory(0, 1 << 20, at_least_one=True) == []
    await committed(first)
    await committed(second)
    assert (lane.end, lane.high, lane.epochs) == (3, 3, [(4, 0)])
    pieces = lane.read_memory(0, 1 << 20, at_least_one=True)
    assert pieces is not None
    assert values_of(pieces) == [(0, b"a"), (1, b"b"), (2, b"c")]
    assert await everything(any_harness) == [(0, b"a"), (1, b"b"), (2, b"c")]
    assert {header.leader_epoch for header in headers_in(await any_harness.look())} == {4}


async def test_one_flush_is_in_flight_and_what_arrives_meanwhile_is_the_next(
    harness: LogHarness,
) -> None:
    log = await harness.open()
    stall = harness.plan.add(Rule(Fault.STALL_BEFORE, "put_new", times=1))
    first = append(log, make_batch(b"a"))
    await stall.reached.wait()
    later = [append(log, make_batch(b"x")) for _ in range(50)]
    await settle()
    assert len(harness.puts()) == 1
    stall.release()
    await committed(first)
    for one in later:
        await committed(one)
    assert await harness.segments() == [keys.segment_name(0), keys.segment_name(1)]
    assert log.lane(0).high == 51


async def test_a_lone_batch_is_flushed_by_the_timer(harness: LogHarness) -> None:
    log = await harness.open(flush_interval_s=0.01)
    one = append(log, make_batch(b"a"))
    await settle()
    assert harness.puts() == []
    other = append(log, make_batch(b"b"))
    await committed(one)
    await committed(other)
    assert harness.puts() == [keys.segment_name(0)]


@pytest.mark.parametrize("limit", [{"flush_bytes": 200}, {"flush_messages": 3}])
async def test_a_full_flush_does_not_wait_for_the_timer(harness: LogHarness, limit: dict[str, int]):
    log = await harness.open(flush_interval_s=3600, **limit)
    batches = [append(log, make_batch(b"x")) for _ in range(3)]
    for one in batches:
        await committed(one)
    assert harness.puts() == [keys.segment_name(0)]


async def test_what_waited_through_a_flush_longer_than_the_interval_is_flushed_next(
    harness: LogHarness,
) -> None:
    log = await harness.open(flush_interval_s=3600, flush_messages=2)
    stall = harness.plan.add(Rule(Fault.STALL_BEFORE, "put_new", times=1))
    append(log, make_batch(b"a", b"b"))
    await stall.reached.wait()
    later = append(log, make_batch(b"c"))
    harness.clock.advance_ms(3_600_000)
    stall.release()
    assert await committed(later) == 2


async def test_a_flush_grows_no_larger_than_told(harness: LogHarness) -> None:
    size = len(make_batch(b"x"))
    log = await harness.open(largest_flush_bytes=3 * size)
    stall = harness.plan.add(Rule(Fault.STALL_BEFORE, "put_new", times=1))
    batches = [append(log, make_batch(b"x")) for _ in range(8)]
    stall.release()
    for one in batches:
        await committed(one)
    opened = await harness.look()
    assert [found.content.records for found in opened.tail] == [1, 3, 3, 1]


async def test_the_observer_hears_of_every_byte_that_waits_and_goes(harness: LogHarness) -> None:
    buffered: list[int] = []
    flushed: list[tuple[int, int]] = []
    observer = Observer(
        flushed=lambda _base, size, records, _seconds: flushed.append((size, records)),
        buffered=buffered.append,
    )
    log = await harness.open(observer=observer)
    for at in range(3):
        await write(log, b"x" * at, b"y")
    assert [row[1] for row in flushed] == [2, 2, 2]
    assert sum(buffered) == 0
    harness.plan.add(Rule(Fault.STALL_BEFORE, "put_new"))
    for _ in range(3):
        append(log, make_batch(b"x"))
    assert sum(buffered) == 3 * len(make_batch(b"x"))
    await log.abandon()
    assert sum(buffered) == 0


async def test_what_waits_is_told_by_lane(harness: LogHarness) -> None:
    log = await harness.open()
    stall = harness.plan.add(Rule(Fault.STALL_BEFORE, "put_new", times=1))
    append(log, make_batch(b"a"), 1)
    await stall.reached.wait()
    last = append(log, make_batch(b"b"), 1)
    size = len(make_batch(b"a"))
    assert log.pending_bytes() == {1: 2 * size}
    stall.release()
    await committed(last)
    assert log.pending_bytes() == {}


async def test_what_waits_can_be_read_by_those_who_ask_for_it(harness: LogHarness) -> None:
    log = await harness.open()
    lane = log.lane(1)
    lane.rules = LaneRules(fetch_buffered=True)
    woken = []
    lane.watchers.add(lambda _: woken.append(lane.end))
    stall = harness.plan.add(Rule(Fault.STALL_BEFORE, "put_new", times=1))
    append(log, make_batch(b"a", b"b"), 1)
    await stall.reached.wait()
    last = append(log, make_batch(b"c"), 1)
    append(log, make_batch(b"other lane"), 0)
    assert woken == [2, 3]
    size = len(make_batch(b"a", b"b"))
    both = [(0, b"a"), (1, b"b"), (2, b"c")]
    assert values_of(log.read_pending(lane, 0, 1 << 20)) == both
    assert values_of(log.read_pending(lane, 1, size)) == both[:2]
    assert values_of(log.read_pending(lane, 1, 1)) == both[:2]
    assert values_of(log.read_pending(lane, 2, 1)) == both[2:]
    assert log.read_pending(lane, 3, 1 << 20) == []
    stall.release()
    await committed(last)
    assert log.read_pending(lane, 0, 1 << 20) == []


async def test_an_offset_that_would_reach_the_range_is_refused(harness: LogHarness) -> None:
    log = await harness.open()
    log.lane(0).end = log.lane(0).high = index.RANGE - 2
    with pytest.raises(OffsetRangeExhausted):
        append(log, make_batch(b"a", b"b", b"c"))
    assert append(log, make_batch(b"a", b"b")).first == index.RANGE - 2
    with pytest.raises(OffsetRangeExhausted):
        append(log, make_batch(b"a"))


# -- uploads that fail -----------------------------------------------------------------------------


class Bodies:
    """Notes the bytes of every attempt to create a segment."""

    def __init__(self, harness: LogHarness) -> None:
        self.seen: list[tuple[str, bytes]] = []
        inner = harness.store.put_new

        async def put_new(key: str, body: Any) -> None:
            self.seen.append((key.rpartition("/")[2], b"".join(body)))
            await inner(key, body)

        harness.store.put_new = put_new  # type: ignore[method-assign]


@pytest.mark.parametrize("error", [StoreUnavailable, StoreRefused])
async def test_a_failed_upload_is_repeated_with_identical_bytes(
    harness: LogHarness, error: type[Exception]
) -> None:
    log = await harness.open()
    bodies = Bodies(harness)
    harness.plan.add(Rule(Fault.FAIL_BEFORE, "put_new", times=4, error=error))
    first = append(log, make_batch(b"a"))
    await settle(3)
    second = append(log, make_batch(b"b"))
    assert (await committed(first), await committed(second)) == (0, 1)
    assert len(bodies.seen) == 6
    assert len(set(bodies.seen[:5])) == 1
    assert await everything(harness) == [(0, b"a"), (1, b"b")]


async def test_an_upload_that_happened_although_its_answer_was_lost_is_ours(
    any_harness: LogHarness,
) -> None:
    log = await any_harness.open()
    any_harness.plan.add(Rule(Fault.FAIL_AFTER, "put_new", times=2))
    assert await write(log, b"a") == 0
    assert await write(log, b"b") == 1
    assert await everything(any_harness) == [(0, b"a"), (1, b"b")]
    assert log.state is LogState.OPEN


@pytest.mark.parametrize("more", [b"", b"x"])
async def test_an_object_is_ours_only_to_the_last_byte(harness: LogHarness, more: bytes) -> None:
    body = bytes(range(64)) + bytes(64)
    await harness.inner.put_new(f"{FOLDER}/x", [body + more])
    token, crc = int.from_bytes(body[28:32]), int.from_bytes(body[-16:-12])
    ours = commits.is_stored(harness.store, f"{FOLDER}/x", ContentId(token, 128, crc))
    assert await ours == (not more)
    for other in (
        ContentId(token + 1, 128, crc),
        ContentId(token, 127, crc),
        ContentId(token, 200, crc),
    ):
        assert not await commits.is_stored(harness.store, f"{FOLDER}/x", other)
    assert not await commits.is_stored(harness.store, f"{FOLDER}/y", ContentId(token, 128, crc))


async def test_an_upload_that_never_answers_leaves_other_logs_alone(harness: LogHarness) -> None:
    stuck = await harness.open("default/stuck/0")
    fine = await harness.open("default/fine/0")
    harness.plan.add(Rule(Fault.STALL_BEFORE, "put_new", "default/stuck/*"))
    waiting = append(stuck, make_batch(b"a"))
    for at in range(5):
        assert await write(fine, b"x") == at
    assert waiting.committed is not None
    assert not waiting.committed.done()


async def test_a_flush_with_an_unexpected_error_leaves_no_producer_waiting(
    harness: LogHarness,
) -> None:
    buffered: list[int] = []
    log = await harness.open(observer=Observer(buffered=buffered.append))
    woken = []
    log.lane(0).watchers.add(lambda _: woken.append(1))
    gate = asyncio.Event()

    async def explode(_key: str, _body: object) -> None:
        await gate.wait()
        raise ValueError("a bug in an adapter")

    harness.store.put_new = explode  # type: ignore[method-assign]
    first = append(log, make_batch(b"a"))
    await settle()
    second = append(log, make_batch(b"b"))
    gate.set()
    with pytest.raises(OutcomeUnknown):
        await committed(first)
    with pytest.raises(LogStopped):
        await committed(second)
    with pytest.raises(LogStopped):
        append(log, make_batch(b"c"))
    assert log.state is LogState.STOPPED
    assert woken
    assert sum(buffered) == 0
    await log.aclose()
    assert log.state is LogState.STOPPED


# -- closing ---------------------------------------------------------------------------------------


async def test_closing_commits_what_waits_and_takes_nothing_new(harness: LogHarness) -> None:
    log = await harness.open(flush_interval_s=3600, largest_flush_bytes=150)
    batches = [append(log, make_batch(b"x")) for _ in range(5)]
    closing = asyncio.ensure_future(log.aclose())
    await asyncio.sleep(0)
    with pytest.raises(NotTheOwner):
        append(log, make_batch(b"late"))
    await closing
    assert [await committed(one) for one in batches] == [0, 1, 2, 3, 4]
    assert log.state is LogState.CLOSED
    assert len(await everything(harness)) == 5
    assert harness.memory.used_bytes == 0
    with pytest.raises(NotTheOwner):
        log.require_open()
    await log.aclose()


async def test_closing_waits_for_a_re_opening_and_for_what_it_appends_again(
    harness: LogHarness,
) -> None:
    ours, theirs = await harness.open(), await harness.open()
    await write(ours, b"a")
    stall = harness.plan.add(Rule(Fault.STALL_BEFORE, "find", times=1))
    append(theirs, make_batch(b"early"), acknowledged=True)
    await stall.reached.wait()
    closing = asyncio.ensure_future(theirs.aclose())
    await settle()
    stall.release()
    await closing
    assert await everything(harness) == [(0, b"a"), (1, b"early")]


@pytest.mark.parametrize("fault", [Fault.STALL_BEFORE, Fault.FAIL_BEFORE])
async def test_closing_on_a_dead_store_can_be_given_up(harness: LogHarness, fault: Fault) -> None:
    log = await harness.open()
    harness.plan.add(Rule(fault, "put_new"))
    waiting = append(log, make_batch(b"a"))
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(log.aclose(), 0.02)
    assert log.state is LogState.CLOSED
    with pytest.raises(NotTheOwner):
        await committed(waiting)


async def test_flushes_of_many_logs_begin_so_many_in_a_turn_and_all_come_to_their_end(
    harness: LogHarness,
) -> None:
    turns = Turns(harness.clock)
    logs = [await harness.open(f"ns/t/{number}", turns=turns) for number in range(60)]
    bodies = Bodies(harness)
    appended = [append(log, make_batch(b"v")) for log in logs]
    counts = [0]
    while len(bodies.seen) < len(logs):
        await asyncio.sleep(0)
        counts.append(len(bodies.seen))
    steps = [after - before for before, after in pairwise(counts)]
    assert max(steps) <= MOST_BEGUN
    assert [await committed(one) for one in appended] == [0] * len(logs)


async def test_a_log_that_is_closed_before_its_flush_begins_commits_it_and_a_left_one_does_not(
    harness: LogHarness,
) -> None:
    turns = Turns(harness.clock)
    closed, left = [await harness.open(f"ns/t/{number}", turns=turns) for number in range(2)]
    for _ in range(5 * MOST_BEGUN):
        turns.begin(lambda: None)
    kept, lost = append(closed, make_batch(b"a")), append(left, make_batch(b"b"))
    bodies = Bodies(harness)
    await left.abandon()
    with pytest.raises(NotTheOwner):
        await committed(lost)
    await closed.aclose()
    assert await committed(kept) == 0
    assert len(bodies.seen) == 1


async def test_abandoning_writes_nothing_more(harness: LogHarness) -> None:
    log = await harness.open(flush_interval_s=0.001)
    woken = []
    log.lane(0).watchers.add(lambda _: woken.append(1))
    waiting = append(log, make_batch(b"a"))
    await log.abandon()
    with pytest.raises(NotTheOwner):
        await committed(waiting)
    await asyncio.sleep(0.005)
    assert harness.puts() == []
    assert woken == [1]


async def test_a_log_closed_while_it_is_opened_stays_closed(harness: LogHarness) -> None:
    log = harness.make_log()
    stall = harness.plan.add(Rule(Fault.STALL_BEFORE, "find", times=1))
    opening = asyncio.ensure_future(log.open())
    await stall.reached.wait()
    await log.aclose()
    stall.release()
    with pytest.raises(NotTheOwner):
        await opening
    assert log.state is LogState.CLOSED


async def test_a_log_closed_by_its_owner_is_not_revived_by_housekeeping(
    harness: LogHarness,
) -> None:
    log, other = await harness.open(), await harness.open()
    await write(other, b"a")
    await rollup.roll_up(other)
    stall = harness.plan.add(Rule(Fault.STALL_BEFORE, "find", skip=2, times=1))
    adopting = asyncio.ensure_future(log.adopt_foreign())
    await stall.reached.wait()
    await log.abandon()
    stall.release()
    await asyncio.gather(adopting, return_exceptions=True)
    await settle()
    assert log.state is LogState.CLOSED
    assert log.lane(0).recent.chunks == []


async def test_what_waits_goes_at_once_when_nothing_more_is_to_come(harness: LogHarness) -> None:
    log = await harness.open(flush_interval_s=60.0)
    log.flush_soon()
    assert await harness.segments() == [], "nothing waits"
    waiting = append(log, make_batch(b"a"))
    await settle()
    assert await harness.segments() == []
    log.flush_soon()
    assert await committed(waiting) == 0
    await log.aclose()
