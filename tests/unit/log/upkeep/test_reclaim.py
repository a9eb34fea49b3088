"""Reclaiming dead bytes of objects that still hold live records."""

from kafscale.log.upkeep import retention, rollup
from kafscale.log.upkeep.reclaim import is_worth_it, reclaim
from kafscale.log.writer.log import Log
from kafscale.testing.faulty_store import Fault, Rule
from tests.unit.log.log_harness import LogHarness, append, committed, make_batch


async def half_dead(harness: LogHarness, objects: int = 1) -> Log:
    """Objects of two lanes each; lane 0 has ended."""
    log = await harness.open()
    for _ in range(objects):
        await committed(append(log, make_batch(b"d" * 500), 0))
        await committed(append(log, make_batch(b"alive"), 1))
        await rollup.roll_up(log)
    await retention.raise_starts(log, {0: objects})
    return log


async def alive(harness: LogHarness, log: Log) -> int:
    """How many records of lane 1 can be read."""
    found = await harness.reader().read(log, log.lane(1), 0, 1 << 20, at_least_one=True)
    return len(found)


async def test_the_dead_half_goes_and_the_other_stays(harness: LogHarness) -> None:
    log = await half_dead(harness)
    before = log.committed.manifest.segments[0].size
    assert await reclaim(log, (), 1 << 30) == 1
    (entry,) = log.committed.manifest.segments
    assert [span.lane for span in entry.spans()] == [1]
    assert entry.size < before - 500
    assert await alive(harness, log) == 1
    assert await alive(harness, await harness.open()) == 1
    assert await reclaim(log, (), 1 << 30) == 0, "nothing is left to gain"


async def test_what_is_mostly_alive_waits_unless_it_must_go(harness: LogHarness) -> None:
    log = await harness.open()
    await committed(append(log, make_batch(b"d"), 0))
    await committed(append(log, make_batch(b"a" * 500), 1))
    await rollup.roll_up(log)
    await retention.raise_starts(log, {0: 1})
    (entry,) = log.committed.manifest.segments
    assert not is_worth_it(entry, log.committed.manifest.lanes, ())
    assert is_worth_it(entry, log.committed.manifest.lanes, {0})
    assert await reclaim(log, (), 1 << 30) == 0
    assert await reclaim(log, {0}, 1 << 30) == 1


async def test_one_pass_reads_no_more_than_it_may(harness: LogHarness) -> None:
    log = await half_dead(harness, objects=3)
    assert await reclaim(log, (), 1) == 1, "one at least, or it would never end"
    assert await reclaim(log, (), 1 << 30) == 2
    assert await alive(harness, log) == 3


async def test_objects_that_another_broker_rewrote_are_left_alone(harness: LogHarness) -> None:
    log, other = await half_dead(harness), await harness.open()
    assert await reclaim(other, (), 1 << 30) == 1
    assert await reclaim(log, (), 1 << 30) == 0
    assert log.committed.manifest.generation == other.committed.manifest.generation, (
        "the log takes up the manifest of the other broker"
    )
    assert await alive(harness, log) == 1


async def test_an_object_that_is_gone_ends_the_pass(harness: LogHarness) -> None:
    log = await half_dead(harness)
    key = f"{log.folder}/{log.committed.manifest.segments[0].name}"
    await harness.store.delete([key])
    assert await reclaim(log, (), 1 << 30) == 0


async def test_a_lost_answer_is_found_to_be_ours(harness: LogHarness) -> None:
    log = await half_dead(harness)
    harness.plan.add(Rule(Fault.FAIL_AFTER, "put_new", "*manifest*", times=1))
    assert await reclaim(log, (), 1 << 30) == 1
    assert await alive(harness, log) == 1


async def test_a_broken_object_is_left_alone_and_told_of_once(harness: LogHarness) -> None:
    log = await half_dead(harness, objects=3)
    entry = log.committed.manifest.segments[1]
    key = f"{log.folder}/{entry.name}"
    body = bytearray(await harness.store.read(key))
    body[entry.spans()[0].start + 70] ^= 1
    await harness.store.delete([key])
    await harness.store.put_new(key, [body])
    told: list[str] = []
    log.observer.found_broken = told.append
    broken: set[str] = set()
    assert await reclaim(log, (), 1 << 30, broken) == 2, "the others are rewritten"
    assert await reclaim(log, (), 1 << 30, broken) == 0
    assert told == [entry.name]
    assert broken == {entry.name}
    assert entry in log.committed.manifest.segments
