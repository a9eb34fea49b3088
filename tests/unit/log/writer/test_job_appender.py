"""A job adds segments to a log that brokers may have open."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from kafscale.log.catalog import notices
from kafscale.log.catalog.notices import Notice
from kafscale.log.formats import keys
from kafscale.log.formats.segment import LaneBatches
from kafscale.log.protocol import survey
from kafscale.log.protocol.commits import LostRace
from kafscale.log.upkeep import rollup
from kafscale.log.writer.job_appender import JobAppender
from kafscale.log.writer.types import wait_for_commit
from kafscale.model.errors import NotTheOwner
from kafscale.records.record import Record, build_batch
from kafscale.testing.faulty_store import Fault, Rule
from tests.unit.engine.engine_harness import EngineHarness, values_of
from tests.unit.engine.topics.test_discovery import put_topic

FOLDER = "default/copy@636f7079000000000000000000000000/0"


@pytest.fixture
async def harness() -> AsyncIterator[EngineHarness]:
    async with EngineHarness() as opened:
        await put_topic(opened, "copy", 1)
        await opened.engine.topics.discover("copy")
        yield opened


def appender(harness: EngineHarness) -> JobAppender:
    return JobAppender(
        harness.store,
        FOLDER,
        harness.clock,
        harness._dice,
        author="test",
        index_interval_bytes=4096,
    )


async def tell(harness: EngineHarness) -> None:
    """What the pipeline does after a job has changed a log."""
    await notices.write(harness.store, "default", Notice(logs=[FOLDER]))


def lane(first: int, *values: bytes) -> LaneBatches:
    records = [Record(first + at, 1000 + at, None, value) for at, value in enumerate(values)]
    return LaneBatches(
        0,
        first,
        first + len(values) - 1,
        len(values),
        1000,
        1000 + len(values),
        [build_batch(records, base_offset=first, leader_epoch=0)],
    )


async def test_what_a_job_adds_is_read_by_those_who_open_the_log(harness: EngineHarness) -> None:
    log = appender(harness)
    await log.open()
    await log.append([lane(0, b"a", b"b")])
    await log.append([lane(2, b"c" * 2_000_000)])
    assert log.next() == 3
    assert values_of(await harness.read("copy"))[:2] == [b"a", b"b"]
    found = await survey.take_snapshot(harness.store, FOLDER)
    assert (found.end, found.tail, found.manifest.generation) == (3, [], 2)
    assert keys.index_of(keys.segment(FOLDER, 2)) in await harness.keys(FOLDER)
    with pytest.raises(ValueError, match="goes on at 3"):
        await log.append([lane(4, b"x")])


async def test_a_broker_that_has_it_open_takes_it_up_and_goes_on_behind_it(
    harness: EngineHarness,
) -> None:
    assert await harness.append("copy", b"first") == 0
    log = appender(harness)
    await log.open()
    await log.append([lane(1, b"copied")])
    assert values_of(await harness.read("copy")) == [b"first"]
    await tell(harness)
    await harness.parts.log_upkeep.tidy()
    assert values_of(await harness.read("copy")) == [b"first", b"copied"]
    assert await harness.append("copy", b"last") == 2
    assert values_of(await harness.read("copy")) == [b"first", b"copied", b"last"]
    await log.open()
    assert log.next() == 3


async def test_a_broker_that_writes_first_is_met_in_the_chain(harness: EngineHarness) -> None:
    log = appender(harness)
    await log.open()
    await harness.append("copy", b"broker")
    with pytest.raises(LostRace, match="another writer"):
        await log.append([lane(0, b"job")])
    await log.open()
    await log.append([lane(1, b"job")])
    await tell(harness)
    await harness.parts.log_upkeep.tidy()
    assert values_of(await harness.read("copy")) == [b"broker", b"job"]


async def test_a_broker_that_writes_second_meets_the_job(harness: EngineHarness) -> None:
    await harness.parts.logs.open(harness.engine.topics.get("copy"), 0)
    log = appender(harness)
    await log.open()
    await log.append([lane(0, b"job")])
    for _ in range(50):
        try:
            assert await harness.append("copy", b"broker") == 1
        except NotTheOwner:  # the log is being opened again
            await asyncio.sleep(0.01)
        else:
            break
    assert values_of(await harness.read("copy")) == [b"job", b"broker"]


async def test_of_two_jobs_one_looks_again(harness: EngineHarness) -> None:
    one, other = appender(harness), appender(harness)
    await one.open()
    await other.open()
    await one.append([lane(0, b"one")])
    with pytest.raises(LostRace):
        await other.append([lane(0, b"other")])
    await other.open()
    await other.append([lane(1, b"other")])
    assert values_of(await harness.read("copy")) == [b"one", b"other"]


@pytest.mark.parametrize("keys_", ["*/segment-*", "*/manifest-*"])
async def test_lost_answers_do_not_matter(harness: EngineHarness, keys_: str) -> None:
    log = appender(harness)
    await log.open()
    harness.plan.add(Rule(Fault.FAIL_AFTER, "put_new", keys_, times=1))
    await log.append([lane(0, b"a")])
    await log.append([lane(1, b"b")])
    assert values_of(await harness.read("copy")) == [b"a", b"b"]


async def test_a_segment_without_its_manifest_is_taken_up_by_the_next_run(
    harness: EngineHarness,
) -> None:
    log = appender(harness)
    await log.open()
    harness.plan.add(Rule(Fault.STALL_BEFORE, "put_new", "*/manifest-*"))
    dying = asyncio.ensure_future(log.append([lane(0, b"a")]))
    await harness.plan.rules[0].reached.wait()
    dying.cancel()
    harness.plan.rules.clear()
    again = appender(harness)
    await again.open()
    assert again.next() == 1
    await again.append([lane(1, b"b")])
    found = await survey.take_snapshot(harness.store, FOLDER)
    assert [entry.base for entry in found.manifest.segments] == [0, 1]


async def test_a_manifest_that_appears_meanwhile_makes_the_job_look_again(
    harness: EngineHarness,
) -> None:
    one, other = appender(harness), appender(harness)
    await one.open()
    await other.open()
    stall = harness.plan.add(Rule(Fault.STALL_BEFORE, "put_new", "*/segment-*1.kfs", times=1))
    await one.append([lane(0, b"a")])
    await other.open()
    late = asyncio.ensure_future(other.append([lane(1, b"late")]))
    await stall.reached.wait()
    await one.append([lane(1, b"b")])
    stall.release()
    with pytest.raises(LostRace):
        await late
    assert values_of(await harness.read("copy")) == [b"a", b"b"]


# -- several lanes ---------------------------------------------------------------------------


def lanes_of(*rows: tuple[int, int, int]) -> list[LaneBatches]:
    """Lane, first offset, how many."""
    return [
        lane(first, *(b"%d/%d" % (number, first + at) for at in range(count)))._replace(lane=number)
        for number, first, count in rows
    ]


async def test_a_segment_has_many_lanes_each_going_on_where_it_was(harness: EngineHarness) -> None:
    log = appender(harness)
    await log.open()
    assert log.is_new(7)
    await log.append(lanes_of((0, 0, 2), (3, 500, 4), (7, 9, 1)))
    assert [log.next(number) for number in (0, 3, 7)] == [2, 504, 10]
    assert not log.is_new(7)
    await log.append(lanes_of((3, 504, 1)))
    again = appender(harness)
    await again.open()
    assert again.next(3) == 505
    found = await survey.take_snapshot(harness.store, FOLDER)
    assert found.lanes() == {0: (0, 2), 3: (500, 505), 7: (9, 10)}
    assert found.end == 2 + 4 + 1 + 1
    for wrong in (lanes_of((3, 900, 1)), lanes_of((7, 10, 1), (3, 505, 1)), lanes_of()):
        with pytest.raises(ValueError, match="lane"):
            await log.append(wrong)


async def test_following_takes_up_what_others_added_without_reading_all_again(
    harness: EngineHarness,
) -> None:
    log = appender(harness)
    await log.open()
    await log.append(lanes_of((1, 0, 3)))
    for number in range(3):
        await harness.append("copy", b"%d" % number)  # lane 0, by its owner
    with pytest.raises(LostRace):
        await log.append(lanes_of((1, 3, 1)))
    reads = harness.plan.add(Rule(Fault.STALL_BEFORE, "read", "*/segment-*0.kfs"))
    await log.follow()
    assert not reads.reached.is_set(), "what is known is not read again"
    harness.plan.rules.clear()
    assert (log.next(0), log.next(1)) == (3, 3)
    await log.append(lanes_of((0, 3, 1), (1, 3, 2)))
    found = await survey.take_snapshot(harness.store, FOLDER)
    assert found.lanes() == {0: (0, 4), 1: (0, 5)}


async def test_following_looks_anew_where_the_past_has_changed(harness: EngineHarness) -> None:
    one, other = appender(harness), appender(harness)
    await one.open()
    await other.open()
    await one.append(lanes_of((1, 0, 3)))
    await one.append(lanes_of((2, 40, 3)))
    await other.follow()
    assert (other.next(1), other.next(2)) == (3, 43)
    await other.append(lanes_of((2, 43, 1)))


async def test_a_lane_whose_topic_has_moved_takes_nothing_from_jobs(harness: EngineHarness) -> None:
    await harness.append("copy", b"a")
    owner, _ = await harness.parts.logs.open(harness.engine.topics.get("copy"), 0)
    sealed = owner.seal(0).committed
    assert sealed is not None
    await wait_for_commit(sealed)
    log = appender(harness)
    await log.open()
    with pytest.raises(NotTheOwner, match="sealed"):
        await log.append([lane(2, b"late")])


async def test_a_lane_that_was_only_looked_at_may_still_begin_anywhere(
    harness: EngineHarness,
) -> None:
    await harness.append("copy", b"0")
    [held] = [log for _, log in harness.parts.logs.each()]
    held.lane(5)  # a client wanted to read a lane that is not there yet
    await rollup.roll_up(held)
    log = appender(harness)
    await log.open()
    assert log.is_new(6)
    harness.plan.add(Rule(Fault.STALL_BEFORE, "put_new", "*/manifest-*"))
    dying = asyncio.ensure_future(log.append(lanes_of((5, 500, 3))))
    await harness.plan.rules[0].reached.wait()
    dying.cancel()
    harness.plan.rules.clear()
    found = await survey.take_snapshot(harness.store, FOLDER)
    assert found.lanes() == {0: (0, 1), 5: (500, 503)}
    again = appender(harness)
    await again.open()
    assert again.next(5) == 503
    await again.append(lanes_of((5, 503, 1)))
    found = await survey.take_snapshot(harness.store, FOLDER)
    assert (found.manifest.lanes[5].start, found.manifest.lanes[5].next) == (500, 504)
    assert 6 not in found.manifest.lanes
