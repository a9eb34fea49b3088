"""Logs that are ended beside their owners, which still want to write (rule 25)."""

import pytest

from kafscale.log.formats import keys, segment
from kafscale.log.protocol import end_of_log
from kafscale.log.upkeep import rollup
from kafscale.log.writer.states import LogState
from kafscale.model.errors import LogEnded, NotTheOwner
from kafscale.testing.faulty_store import Fault, Rule
from tests.unit.log.log_harness import FOLDER, GRACE_S, LogHarness, settle, write

LAST = [f"manifest-{generation:020d}" for generation in (keys.ENDING, keys.ENDED)]


async def end(harness: LogHarness) -> None:
    await end_of_log.end_log(harness.store, FOLDER)


async def test_an_owner_that_knows_nothing_commits_nothing_more(harness: LogHarness) -> None:
    log = await harness.open()
    await write(log, b"a")
    await end(harness)
    with pytest.raises(NotTheOwner):
        await write(log, b"b")
    await settle()
    with pytest.raises(LogEnded):
        await write(log, b"c")
    assert log.state is LogState.ENDED


async def test_an_empty_log_ends_at_once(harness: LogHarness) -> None:
    log = await harness.open()
    await end(harness)
    with pytest.raises(NotTheOwner):
        await write(log, b"a")


async def test_a_log_that_has_ended_cannot_be_opened(harness: LogHarness) -> None:
    log = await harness.open()
    await write(log, b"a")
    await rollup.roll_up(log)
    await end(harness)
    with pytest.raises(LogEnded):
        await harness.open()
    assert await log.adopt_foreign()
    with pytest.raises(LogEnded):
        log.require_open()


async def test_an_end_is_behind_what_was_rolled_up(harness: LogHarness) -> None:
    log = await harness.open()
    for value in (b"a", b"b", b"c"):
        await write(log, value)
    await rollup.roll_up(log)
    await end(harness)
    assert keys.segment_name(3) in await harness.names()
    with pytest.raises(NotTheOwner):
        await write(log, b"d")


async def test_what_comes_between_is_in_front_of_the_end(harness: LogHarness) -> None:
    log = await harness.open()
    await write(log, b"a")
    held = harness.plan.add(
        Rule(Fault.STALL_BEFORE, "put_new", f"*/{keys.segment_name(1)}", times=1)
    )
    ended = harness.tasks.spawn(end(harness), "end", awaited=True)
    await held.reached.wait()
    await write(log, b"b")
    held.release()
    await ended
    assert await harness.segments() == [keys.segment_name(base) for base in (0, 1, 2)]
    with pytest.raises(NotTheOwner):
        await write(log, b"c")


async def test_a_roll_up_while_the_tail_is_looked_for_is_noticed(harness: LogHarness) -> None:
    log = await harness.open()
    await write(log, b"a")
    held = harness.plan.add(
        Rule(Fault.STALL_BEFORE, "put_new", f"*/{keys.segment_name(1)}", times=1)
    )
    ended = harness.tasks.spawn(end(harness), "end", awaited=True)
    await held.reached.wait()
    await write(log, b"b")
    with pytest.raises(LogEnded):  # its manifest is there, and counts for nothing
        await rollup.roll_up(log)
    # As if a grace period had passed meanwhile: the name that is about to be taken is free.
    await harness.inner.delete([keys.segment(FOLDER, base) for base in (0, 1)])
    held.release()
    await ended
    assert keys.segment_name(2) in await harness.names()


async def test_answers_that_are_lost_do_not_matter(harness: LogHarness) -> None:
    log = await harness.open()
    await write(log, b"a")
    harness.plan.add(Rule(Fault.FAIL_AFTER, "put_new", times=3))
    await end(harness)
    await end(harness)
    assert [*LAST, keys.segment_name(0), keys.segment_name(1)] == await harness.names()


async def test_an_end_that_is_known_costs_one_look(harness: LogHarness) -> None:
    await end(harness)
    before = len(harness.store.calls)
    await end(harness)
    assert [verb for verb, _ in harness.store.calls[before:]] == ["find"]


async def test_an_owner_with_an_old_proof_finds_the_end_when_the_tail_is_gone(
    harness: LogHarness,
) -> None:
    log = await harness.open()
    await write(log, b"a")
    assert await remains(harness) == []
    harness.clock.advance_ms(int(GRACE_S * 1000))
    gone = await remains(harness)
    assert gone == [keys.segment_name(base) for base in (0, 1)]
    await harness.inner.delete([f"{FOLDER}/{name}" for name in gone])
    with pytest.raises(NotTheOwner):
        await write(log, b"b")


async def remains(harness: LogHarness, *, is_new: bool = True) -> list[str]:
    found = await end_of_log.remains(harness.store, FOLDER, GRACE_S, is_new=is_new)
    return [row.key.rpartition("/")[2] for row in found]


async def test_names_that_no_writer_creates_go_at_once_and_the_end_stays_for_a_day(
    harness: LogHarness,
) -> None:
    log = await harness.open()
    for value in (b"a", b"b"):
        await write(log, value)
    await rollup.roll_up(log)
    rewritten = [name for name in await harness.names() if keys.is_rewritten(f"{FOLDER}/{name}")]
    assert rewritten
    assert set(rewritten) < set(await remains(harness))
    assert not any(keys.is_flush(f"{FOLDER}/{name}") for name in await remains(harness))
    harness.clock.advance_ms(int(end_of_log.REMEMBERED_S * 1000) - 1)
    assert not set(LAST) & set(await remains(harness))
    harness.clock.advance_ms(1)
    assert sorted(await remains(harness)) == sorted(await harness.names())
    await harness.inner.delete([f"{FOLDER}/{name}" for name in await harness.names()])
    assert await remains(harness, is_new=False) == []
    assert await harness.names() == []


async def test_a_log_ends_at_a_tail_that_cannot_be_read(harness: LogHarness) -> None:
    await harness.inner.put_new(keys.segment(FOLDER, 0), [b"x" * 100])
    await end(harness)
    assert await harness.names() == [*LAST, keys.segment_name(0)]


async def test_who_meets_the_end_before_its_manifest_is_told_so(harness: LogHarness) -> None:
    await harness.inner.put_new(keys.segment(FOLDER, 0), [segment.THE_END])
    with pytest.raises(LogEnded):
        await harness.open()
