import asyncio
import random

import pytest
from structlog.testing import capture_logs

from kafscale.log.formats import index, keys
from kafscale.log.reader import time_lookup
from kafscale.log.upkeep import rollup, sweep
from kafscale.log.writer.log import Log
from kafscale.model.errors import CorruptObject, ObjectMissing
from kafscale.testing.faulty_store import Fault, Rule
from tests.unit.log.log_harness import (
    FOLDER,
    GRACE_S,
    NOW_MS,
    LogHarness,
    append,
    everything,
    make_batch,
    read_all,
    settle,
    values_of,
    write,
)

BLOCK = 1024


async def rolled(harness: LogHarness, sizes: list[int], **how: object) -> Log:
    """A log whose past is one merged object, batches of these sizes, nothing in memory."""
    harness.memory.budget_bytes = 0
    log = await harness.open(**{"index_interval_bytes": 64} | how)  # type: ignore[arg-type]
    for at, size in enumerate(sizes):
        await write(log, b"%d" % at, b"x" * size)
    await rollup.roll_up(log)
    assert len(log.committed.manifest.segments) == 1
    return log


def reads(harness: LogHarness) -> list[str]:
    return [key for verb, key in harness.store.calls if verb == "read"]


@pytest.mark.parametrize("block_bytes", [100, 512, 4096, 1 << 20])
@pytest.mark.parametrize("max_bytes", [1, 150, 1000, 1 << 20])
async def test_everything_is_read_whatever_the_block_and_the_limit(
    harness: LogHarness, block_bytes: int, max_bytes: int
) -> None:
    dice = random.Random(block_bytes)
    log = await rolled(harness, [dice.choice([1, 50, 300, 2000]) for _ in range(40)])
    for _ in range(10):
        await write(log, b"tail", b"y" * dice.choice([1, 300]))
    reader = harness.reader(block_bytes=block_bytes, read_ahead=2)
    truth = await everything(harness)
    assert await read_all(reader, log, log.lane(0), max_bytes=max_bytes) == truth
    for start in range(0, 100, 7):
        rows = await read_all(reader, log, log.lane(0), start, max_bytes)
        assert rows == truth[start:]


async def test_no_more_is_handed_out_than_asked_for_but_for_the_first_batch(
    harness: LogHarness,
) -> None:
    log = await rolled(harness, [100] * 20)
    size = len(make_batch(b"0", b"x" * 100))
    reader = harness.reader(block_bytes=BLOCK)
    lane = log.lane(0)
    for limit in (0, 1, size - 1):
        assert await reader.read(log, lane, 4, limit, at_least_one=False) == []
        pieces = await reader.read(log, lane, 4, limit, at_least_one=True)
        assert [offset for offset, _ in values_of(pieces)] == [4, 5]
    pieces = await reader.read(log, lane, 4, 3 * size, at_least_one=False)
    assert [offset for offset, _ in values_of(pieces)] == [4, 5, 6, 7, 8, 9]
    assert sum(map(len, pieces)) <= 3 * size


async def test_an_offset_inside_a_batch_gives_the_whole_batch(harness: LogHarness) -> None:
    log = await rolled(harness, [10] * 5)
    pieces = await harness.reader().read(log, log.lane(0), 5, 1, at_least_one=True)
    assert [offset for offset, _ in values_of(pieces)] == [4, 5]


async def test_nothing_is_at_the_end(harness: LogHarness) -> None:
    log = await rolled(harness, [10] * 5)
    assert await harness.reader().read(log, log.lane(0), 10, 1000, at_least_one=True) == []


async def test_small_flushes_are_read_side_by_side(harness: LogHarness) -> None:
    harness.memory.budget_bytes = 0
    log = await harness.open()
    for at in range(10):
        await write(log, b"%d" % at)
    size = len(make_batch(b"0"))
    pieces = await harness.reader().read(log, log.lane(0), 2, 5 * size, at_least_one=True)
    assert [offset for offset, _ in values_of(pieces)] == [2, 3, 4, 5, 6]


async def test_one_ranged_read_gives_one_lane(harness: LogHarness) -> None:
    harness.memory.budget_bytes = 0
    log = await harness.open(flush_interval_s=3600)
    for lane in range(8):
        for at in range(5):
            append(log, make_batch(b"%d-%d" % (lane, at), b"x" * BLOCK), lane)
    await log.aclose()
    log = await harness.open()
    reader = harness.reader(block_bytes=BLOCK)
    for number in range(8):
        harness.store.calls.clear()
        rows = await read_all(reader, log, log.lane(number))
        assert [value for _, value in rows][::2] == [b"%d-%d" % (number, at) for at in range(5)]
        assert len(reads(harness)) <= 7  # of 44 blocks, those that hold the lane


async def test_a_batch_that_fails_its_checksum_is_never_handed_out(harness: LogHarness) -> None:
    log = await rolled(harness, [10] * 5)
    key = f"{FOLDER}/{log.committed.manifest.segments[0].name}"
    body = bytearray(await harness.inner.read(key))
    body[32 + 3 * len(make_batch(b"0", b"x" * 10)) + 70] ^= 1
    await harness.inner.delete([key])
    await harness.inner.put_new(key, [bytes(body)])
    reader = harness.reader()
    lane = log.lane(0)
    size = 2 * len(make_batch(b"0", b"x" * 10))
    assert await reader.read(log, lane, 0, size, at_least_one=True)
    with pytest.raises(CorruptObject, match="checksum"):
        await reader.read(log, lane, 6, size, at_least_one=True)


async def test_a_shortened_object_is_noticed(harness: LogHarness) -> None:
    log = await rolled(harness, [500] * 5)
    key = f"{FOLDER}/{log.committed.manifest.segments[0].name}"
    body = bytes(await harness.inner.read(key))
    await harness.inner.delete([key])
    await harness.inner.put_new(key, [body[:1500]])
    with pytest.raises(CorruptObject, match="shorter"):
        await read_all(harness.reader(block_bytes=BLOCK), log, log.lane(0))


async def test_a_span_whose_last_records_were_compacted_away_leads_to_the_next(harness: LogHarness):
    log = await rolled(harness, [10] * 5)
    for _ in range(2):
        await write(log, b"tail", b"-")
    # As if offsets 10 and 11 had belonged to the first object and existed no more.
    lane = log.lane(0)
    (span, entry), _, following = lane.spans
    lane.spans = [(span._replace(last=11), entry), following]
    lane.span_lasts = [11, 13]
    pieces = await harness.reader().read(log, log.lane(0), 10, 1 << 20, at_least_one=True)
    assert [offset for offset, _ in values_of(pieces)][:2] == [12, 13]


# -- the cache -----------------------------------------------------------------------------------


async def test_a_block_is_loaded_once_for_all_who_want_it(harness: LogHarness) -> None:
    log = await rolled(harness, [10] * 5)
    reader = harness.reader()
    stall = harness.plan.add(Rule(Fault.STALL_BEFORE, "read", times=1))
    harness.store.calls.clear()
    wanted = [
        asyncio.ensure_future(reader.read(log, log.lane(0), at, 1, at_least_one=True))
        for at in range(10)
    ]
    await stall.reached.wait()
    await settle()
    stall.release()
    assert all(await asyncio.gather(*wanted))
    assert len(reads(harness)) == 1


async def test_the_cache_is_bounded_and_history_does_not_push_out_the_tail(
    harness: LogHarness,
) -> None:
    harness.memory.budget_bytes = 1 << 20
    log = await harness.open(index_interval_bytes=64)
    for at in range(50):
        await write(log, b"%d" % at, b"x" * 500)
    await rollup.roll_up(log)
    in_memory = harness.memory.used_bytes
    reader = harness.reader(block_bytes=BLOCK, cache_bytes=4 * BLOCK)
    assert len(await read_all(reader, log, log.lane(0))) == 100
    assert 0 < reader.block_cache.used_bytes <= 4 * BLOCK
    assert harness.memory.used_bytes == in_memory
    recent = log.lane(0).read_memory(98, 1, at_least_one=True)
    assert recent is not None
    assert [offset for offset, _ in values_of(recent)] == [98, 99]


async def test_the_blocks_after_those_just_read_are_loaded_ahead(harness: LogHarness) -> None:
    log = await rolled(harness, [300] * 40)
    reader = harness.reader(block_bytes=BLOCK, read_ahead=2)
    harness.store.calls.clear()
    await reader.read(log, log.lane(0), 40, 1, at_least_one=True)
    await settle()
    name = f"{FOLDER}/{log.committed.manifest.segments[0].name}"
    here = [number for number in range(20) if (name, 32 + number * BLOCK) in reader.block_cache]
    assert len(here) == 3
    assert here == list(range(here[0], here[0] + 3))
    assert here[0] > 0
    before = len(reads(harness))
    await reader.read(log, log.lane(0), 40, 1, at_least_one=True)
    await settle()
    assert len(reads(harness)) == before


async def test_reading_ahead_goes_on_into_the_next_objects(harness: LogHarness) -> None:
    harness.memory.budget_bytes = 0
    log = await harness.open()
    for at in range(6):
        await write(log, b"%d" % at)
    reader = harness.reader(read_ahead=2)
    await reader.read(log, log.lane(0), 1, 1, at_least_one=True)
    await settle()
    here = [at for at in range(6) if (keys.segment(FOLDER, at), 32) in reader.block_cache]
    assert here == [1, 2, 3]


async def test_a_failure_to_read_ahead_fails_no_read(harness: LogHarness) -> None:
    log = await rolled(harness, [300] * 40)
    reader = harness.reader(block_bytes=BLOCK, read_ahead=2)
    harness.plan.add(Rule(Fault.FAIL_BEFORE, "read", skip=1, times=2))
    with capture_logs() as logged:
        assert await reader.read(log, log.lane(0), 0, 1, at_least_one=True)
        await settle()
    assert logged == []
    assert len(await read_all(reader, log, log.lane(0))) == 80


# -- the index -----------------------------------------------------------------------------------


def index_key(log: Log) -> str:
    return keys.index_of(f"{FOLDER}/{log.committed.manifest.segments[0].name}")


async def test_the_index_spares_reading_from_the_beginning(harness: LogHarness) -> None:
    log = await rolled(harness, [300] * 40)
    reader = harness.reader(block_bytes=BLOCK)
    harness.store.calls.clear()
    await reader.read(log, log.lane(0), 70, 1, at_least_one=True)
    assert len(reads(harness)) <= 3  # the index, and one block or two
    assert reads(harness)[0] == index_key(log)


@pytest.mark.parametrize("what", ["missing", "garbage", "of another attempt", "empty"])
async def test_an_index_that_is_missing_or_wrong_is_rebuilt(harness: LogHarness, what: str) -> None:
    log = await rolled(harness, [300] * 40)
    key = index_key(log)
    right = index.decode(await harness.inner.read(key))
    await harness.inner.delete([key])
    if what == "garbage":
        await harness.inner.put_new(key, [b"garbage"])
    elif what == "of another attempt":
        wrong = index.Index(right.addresses, [at + 8 for at in right.positions], 64)
        await harness.inner.put_new(key, [index.encode(wrong)])
    elif what == "empty":
        await harness.inner.put_new(key, [index.encode(index.Index([], [], 64))])
    reader = harness.reader(block_bytes=BLOCK)
    assert await read_all(reader, log, log.lane(0), 51) == (await everything(harness))[51:]
    again = index.decode(await harness.inner.read(key)) if what == "missing" else None
    assert again is None or again.find(0, 51) is not None
    harness.store.calls.clear()
    await reader.read(log, log.lane(0), 61, 1, at_least_one=True)
    assert reads(harness) == []  # the rebuilt one is in memory


async def test_an_index_that_cannot_be_stored_is_used_all_the_same(harness: LogHarness) -> None:
    log = await rolled(harness, [300] * 40)
    await harness.inner.delete([index_key(log)])
    harness.plan.add(Rule(Fault.FAIL_BEFORE, "put_new"))
    reader = harness.reader(block_bytes=BLOCK)
    assert await read_all(reader, log, log.lane(0), 51) == (await everything(harness))[51:]


async def test_every_flipped_byte_of_an_index_is_noticed_or_harmless(harness: LogHarness) -> None:
    log = await rolled(harness, [300] * 8)
    key = index_key(log)
    body = bytes(await harness.inner.read(key))
    truth = await everything(harness)
    for at in range(len(body)):
        for bit in (0x01, 0x80):
            broken = bytearray(body)
            broken[at] ^= bit
            await harness.inner.delete([key])
            await harness.inner.put_new(key, [bytes(broken)])
            reader = harness.reader(block_bytes=BLOCK)
            for offset in (1, 6, 11, 15):
                assert await read_all(reader, log, log.lane(0), offset) == truth[offset:], at


async def test_a_large_flush_is_read_by_its_own_index(harness: LogHarness) -> None:
    harness.memory.budget_bytes = 0
    log = await harness.open(flush_interval_s=3600, index_from_bytes=4000, index_interval_bytes=64)
    for at in range(40):
        append(log, make_batch(b"%d" % at, b"x" * 300))
    await log.aclose()
    assert await harness.names() == [
        keys.index_of(keys.segment_name(0)),
        keys.segment_name(0),
    ]
    log = await harness.open(index_from_bytes=4000)
    reader = harness.reader(block_bytes=BLOCK)
    harness.store.calls.clear()
    pieces = await reader.read(log, log.lane(0), 71, 1, at_least_one=True)
    assert [offset for offset, _ in values_of(pieces)] == [70, 71]
    assert len(reads(harness)) <= 3


# -- objects that go -----------------------------------------------------------------------------


async def rewritten_elsewhere(harness: LogHarness) -> Log:
    """An owner whose tail another broker rolled up and deleted."""
    harness.memory.budget_bytes = 0
    log = await harness.open()
    for at in range(5):
        await write(log, b"%d" % at)
    other = await harness.open()
    await rollup.roll_up(other)
    harness.clock.advance_ms(GRACE_S * 1000 + 1)
    assert await sweep.sweep(other) == 5
    return log


async def test_a_reader_whose_object_is_gone_takes_up_the_newer_manifest(
    harness: LogHarness,
) -> None:
    log = await rewritten_elsewhere(harness)
    reader = harness.reader()
    rows = await read_all(reader, log, log.lane(0))
    assert rows == [(at, b"%d" % at) for at in range(5)]
    assert log.committed.manifest.generation == 1


async def test_all_readers_who_meet_the_gap_at_once_get_over_it(harness: LogHarness) -> None:
    log = await rewritten_elsewhere(harness)
    reader = harness.reader()
    lane = log.lane(0)
    stall = harness.plan.add(Rule(Fault.STALL_BEFORE, "read", "*-*3.kfs", times=1))
    late = asyncio.ensure_future(reader.read(log, lane, 3, 1, at_least_one=True))
    await stall.reached.wait()
    assert await reader.read(log, lane, 0, 1, at_least_one=True)
    stall.release()
    assert values_of(await late)[0] == (3, b"3")


async def test_looking_for_a_time_gets_over_it_too(harness: LogHarness) -> None:
    log = await rewritten_elsewhere(harness)
    assert await time_lookup.find_time(harness.reader(), log, log.lane(0), NOW_MS) == (0, NOW_MS)


async def test_an_object_that_is_gone_for_good_is_reported(harness: LogHarness) -> None:
    log = await rolled(harness, [10] * 3)
    await harness.inner.delete([f"{FOLDER}/{log.committed.manifest.segments[0].name}"])
    with pytest.raises(ObjectMissing):
        await harness.reader().read(log, log.lane(0), 0, 1, at_least_one=True)
