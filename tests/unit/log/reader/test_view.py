"""Rule 26: what is read by an old view is shown only after a LIST that found nothing newer."""

import asyncio

import pytest

from kafscale.log.formats import keys, manifest
from kafscale.log.formats.manifest import Replacement
from kafscale.log.formats.segment import LaneBatches
from kafscale.log.upkeep import rollup, sweep
from kafscale.log.writer.log import Log
from kafscale.model.errors import StoreUnavailable
from kafscale.testing.faulty_store import Fault, Rule
from tests.unit.log.log_harness import GRACE_S, LogHarness, read_all, write

OLD_MS = int(GRACE_S * 500) + 1  # just older than half a grace period


def lists(harness: LogHarness) -> int:
    return sum(verb == "find" for verb, _ in harness.store.calls)


async def without_memory(harness: LogHarness, *values: bytes) -> Log:
    harness.memory.budget_bytes = 0
    log = await harness.open()
    for value in values:
        await write(log, value)
    return log


async def test_a_young_view_is_read_by_without_a_list(harness: LogHarness) -> None:
    log = await without_memory(harness, b"a", b"b")
    before = lists(harness)
    harness.clock.advance_ms(OLD_MS - 1)
    assert await read_all(harness.reader(), log, log.lane(0)) == [(0, b"a"), (1, b"b")]
    assert lists(harness) == before


async def test_many_reads_by_an_old_view_need_one_list(harness: LogHarness) -> None:
    log = await without_memory(harness, *(b"%d" % at for at in range(5)))
    harness.clock.advance_ms(OLD_MS)
    before = lists(harness)
    reader = harness.reader(cache_bytes=0)
    reads = (read_all(reader, log, log.lane(0), at) for at in range(5))
    assert [rows[0][0] for rows in await asyncio.gather(*reads)] == list(range(5))
    assert lists(harness) == before + 1


async def test_what_the_cache_has_is_read_by_an_old_view_without_a_list(
    harness: LogHarness,
) -> None:
    log = await without_memory(harness, b"a")
    reader = harness.reader()
    await read_all(reader, log, log.lane(0))
    harness.clock.advance_ms(10 * OLD_MS)
    before = lists(harness)
    assert await read_all(reader, log, log.lane(0)) == [(0, b"a")]
    assert lists(harness) == before


async def test_a_name_that_came_back_is_not_shown(harness: LogHarness) -> None:
    log = await without_memory(harness, b"real")
    await rollup.roll_up(log, merge=False)  # the manifest names the flush itself
    await _replace_past(harness, await harness.open())
    # A writer that slept creates the deleted name again: same size, other records.
    stray = await harness.open("default/stray/0")
    await write(stray, b"lies")
    body = await harness.inner.read(keys.segment(stray.folder, 0))
    await harness.inner.put_new(keys.segment(log.folder, 0), [body])
    assert await read_all(harness.reader(), log, log.lane(0)) == [(0, b"real")]


async def _replace_past(harness: LogHarness, other: Log) -> None:
    """Rewrite the log's only old object under another name, and let the old one be deleted."""
    (entry,) = other.committed.manifest.segments
    data = await rollup.read_committed(other, entry, "test")
    (span,) = entry.spans()
    lane = LaneBatches(
        0,
        span.first,
        span.last,
        span.records,
        span.min_timestamp_ms,
        span.max_timestamp_ms,
        [data[span.start : span.start + span.length]],
    )
    output = await rollup.write_anew(other, entry.base, entry.end, [lane])
    replaced = Replacement((entry,), (output,))
    async with other.history:
        assert await other.history.commit(
            lambda old: manifest.replace(old, [replaced]), lambda newer: False, [output.name]
        )
    harness.clock.advance_ms(int(GRACE_S * 1000) + 1)
    assert await sweep.sweep(other) >= 1
    assert entry.name not in await harness.names()


async def test_an_old_view_shows_nothing_while_the_store_cannot_be_asked(
    harness: LogHarness,
) -> None:
    log = await without_memory(harness, b"a")
    harness.clock.advance_ms(OLD_MS)
    harness.plan.add(Rule(Fault.FAIL_BEFORE, "find"))
    with pytest.raises(StoreUnavailable):
        await read_all(harness.reader(), log, log.lane(0))


async def test_a_commit_does_not_renew_the_view(harness: LogHarness) -> None:
    log = await without_memory(harness, b"a")
    harness.clock.advance_ms(OLD_MS - 1)
    await write(log, b"b")  # proves the tail, and says nothing about rewritten history
    harness.clock.advance_ms(OLD_MS - 1)
    before = lists(harness)
    assert len(await read_all(harness.reader(), log, log.lane(0))) == 2
    assert lists(harness) == before + 1
