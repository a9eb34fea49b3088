"""Logs that are ended beside their owners, which still want to write (rule 25)."""

import pytest

from kafscale.log.formats import keys, segment
from kafscale.log.protocol import end_of_log
from kafscale.log.upkeep import rollup
from kafscale.log.writer.states import LogState
from kafscale.model.errors import LogEnded, NotTheOwner
from kafscale.testing.faulty_store import Fault, Rule
from tests.unit.log.log_harness import FOLDER, GRACE_S, Bench, settle, write

LAST = [f"manifest-{generation:020d}" for generation in (keys.ENDING, keys.ENDED)]


async def end(bench: Bench) -> None:
    await end_of_log.end_log(bench.store, FOLDER)


async def test_an_owner_that_knows_nothing_commits_nothing_more(bench: Bench) -> None:
    log = await bench.open()
    await write(log, b"a")
    await end(bench)
    with pytest.raises(NotTheOwner):
        await write(log, b"b")
    await settle()
    with pytest.raises(LogEnded):
        await write(log, b"c")
    assert log.state is LogState.ENDED


async def test_an_empty_log_ends_at_once(bench: Bench) -> None:
    log = await bench.open()
    await end(bench)
    with pytest.raises(NotTheOwner):
        await write(log, b"a")


async def test_nobody_opens_a_log_that_has_ended(bench: Bench) -> None:
    log = await bench.open()
    await write(log, b"a")
    await rollup.roll_up(log)
    await end(bench)
    with pytest.raises(LogEnded):
        await bench.open()
    assert await log.adopt_foreign()
    with pytest.raises(LogEnded):
        log.require_open()


async def test_an_end_is_behind_what_was_rolled_up(bench: Bench) -> None:
    log = await bench.open()
    for value in (b"a", b"b", b"c"):
        await write(log, value)
    await rollup.roll_up(log)
    await end(bench)
    assert keys.segment_name(3) in await bench.names()
    with pytest.raises(NotTheOwner):
        await write(log, b"d")


async def test_what_comes_between_is_in_front_of_the_end(bench: Bench) -> None:
    log = await bench.open()
    await write(log, b"a")
    held = bench.plan.add(Rule(Fault.STALL_BEFORE, "put_new", f"*/{keys.segment_name(1)}", times=1))
    ended = bench.tasks.spawn(end(bench), "end", awaited=True)
    await held.reached.wait()
    await write(log, b"b")
    held.release()
    await ended
    assert await bench.segments() == [keys.segment_name(base) for base in (0, 1, 2)]
    with pytest.raises(NotTheOwner):
        await write(log, b"c")


async def test_a_roll_up_while_the_tail_is_looked_for_is_noticed(bench: Bench) -> None:
    log = await bench.open()
    await write(log, b"a")
    held = bench.plan.add(Rule(Fault.STALL_BEFORE, "put_new", f"*/{keys.segment_name(1)}", times=1))
    ended = bench.tasks.spawn(end(bench), "end", awaited=True)
    await held.reached.wait()
    await write(log, b"b")
    with pytest.raises(LogEnded):  # its manifest is there, and counts for nothing
        await rollup.roll_up(log)
    # As if a grace period had passed meanwhile: the name that is about to be taken is free.
    await bench.inner.delete([keys.segment(FOLDER, base) for base in (0, 1)])
    held.release()
    await ended
    assert keys.segment_name(2) in await bench.names()


async def test_answers_that_are_lost_do_not_matter(bench: Bench) -> None:
    log = await bench.open()
    await write(log, b"a")
    bench.plan.add(Rule(Fault.FAIL_AFTER, "put_new", times=3))
    await end(bench)
    await end(bench)
    assert [*LAST, keys.segment_name(0), keys.segment_name(1)] == await bench.names()


async def test_an_end_that_is_known_costs_one_look(bench: Bench) -> None:
    await end(bench)
    before = len(bench.store.calls)
    await end(bench)
    assert [verb for verb, _ in bench.store.calls[before:]] == ["find"]


async def test_an_owner_with_an_old_proof_finds_the_end_when_the_tail_is_gone(bench: Bench) -> None:
    log = await bench.open()
    await write(log, b"a")
    assert await remains(bench) == []
    bench.clock.advance_ms(int(GRACE_S * 1000))
    gone = await remains(bench)
    assert gone == [keys.segment_name(base) for base in (0, 1)]
    await bench.inner.delete([f"{FOLDER}/{name}" for name in gone])
    with pytest.raises(NotTheOwner):
        await write(log, b"b")


async def remains(bench: Bench, *, is_new: bool = True) -> list[str]:
    found = await end_of_log.remains(bench.store, FOLDER, GRACE_S, is_new=is_new)
    return [row.key.rpartition("/")[2] for row in found]


async def test_names_that_nobody_creates_go_at_once_and_the_end_is_remembered_for_a_day(
    bench: Bench,
) -> None:
    log = await bench.open()
    for value in (b"a", b"b"):
        await write(log, value)
    await rollup.roll_up(log)
    rewritten = [name for name in await bench.names() if keys.is_rewritten(f"{FOLDER}/{name}")]
    assert rewritten
    assert set(rewritten) < set(await remains(bench))
    assert not any(keys.is_flush(f"{FOLDER}/{name}") for name in await remains(bench))
    bench.clock.advance_ms(int(end_of_log.REMEMBERED_S * 1000) - 1)
    assert not set(LAST) & set(await remains(bench))
    bench.clock.advance_ms(1)
    assert sorted(await remains(bench)) == sorted(await bench.names())
    await bench.inner.delete([f"{FOLDER}/{name}" for name in await bench.names()])
    assert await remains(bench, is_new=False) == []
    assert await bench.names() == []


async def test_a_log_whose_tail_nobody_can_read_ends_there(bench: Bench) -> None:
    await bench.inner.put_new(keys.segment(FOLDER, 0), [b"x" * 100])
    await end(bench)
    assert await bench.names() == [*LAST, keys.segment_name(0)]


async def test_who_meets_the_end_before_its_manifest_is_told_so(bench: Bench) -> None:
    await bench.inner.put_new(keys.segment(FOLDER, 0), [segment.THE_END])
    with pytest.raises(LogEnded):
        await bench.open()
