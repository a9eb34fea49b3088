"""A broker compacts topics by key without being asked."""

import asyncio

import pytest

from kafscale.log.upkeep import rollup
from kafscale.log.writer.log import Log
from kafscale.records import batch
from kafscale.records.record import Record, build_batch, open_batch
from kafscale.settings.sections import CompactionSection, StorageSection
from kafscale.settings.values import PositiveSize, Size
from kafscale.testing.faulty_store import Fault, Rule
from kafscale.testing.in_process import FOR_TESTS
from tests.unit.engine.engine_harness import EngineHarness
from tests.unit.gateways.kafka.settings import changed

DAY_MS = 86_400_000
COMPACT = {"cleanup.policy": "compact"}

Rows = list[tuple[int, bytes | None, bytes | None]]


async def put(
    harness: EngineHarness, topic: str, *rows: tuple[str, str | None], at: int = 0
) -> None:
    """Append one batch of keys and values to a partition."""
    found = harness.engine.topics.get(topic)
    await harness.parts.logs.open(found, at)
    records = [
        Record(n, harness.clock.now_ms(), key.encode(), None if value is None else value.encode())
        for n, (key, value) in enumerate(rows)
    ]
    data = memoryview(bytearray(build_batch(records, base_offset=0)))
    stored = harness.engine.partitions.append(found, at, data, acknowledged=False)
    assert stored.appended.committed is not None
    assert await stored.appended.committed is None


async def left(harness: EngineHarness, topic: str, at: int = 0) -> Rows:
    """What a client that fetches from the beginning gets."""
    rows: Rows = []
    found = harness.engine.topics.get(topic)
    offset, high, _ = await harness.engine.partitions.bounds(found, at, -1)
    while offset < high:
        part = await harness.read(topic, offset, partition=at)
        pieces = [
            piece[start : start + header.size]
            for piece in part.batches
            for start, header in batch.walk(piece)
        ]
        rows += [
            (row.offset, row.key, row.value)
            for piece in pieces
            for row in open_batch(piece, 1 << 20)
            if row.offset >= offset
        ]
        offset = batch.read_header(pieces[-1]).next_offset
    return rows


def log_of(harness: EngineHarness, topic: str) -> Log:
    (log,) = [log for owner, log in harness.parts.logs.each() if owner and owner.name == topic]
    return log


async def roll_up(harness: EngineHarness) -> None:
    for _, log in harness.parts.logs.each():
        await rollup.roll_up(log)


@pytest.fixture
async def filled(harness: EngineHarness) -> EngineHarness:
    """Topic c, compacted: nine updates of a and one of b, rolled up."""
    await harness.engine.topics.create("c", 1, COMPACT)
    for number in range(9):
        await put(harness, "c", ("a", str(number)))
    await put(harness, "c", ("b", "0"))
    await roll_up(harness)
    return harness


LEFT: Rows = [(8, b"a", b"8"), (9, b"b", b"0")]


async def test_what_is_due_is_compacted_and_served_at_once(filled: EngineHarness) -> None:
    await filled.parts.compactions.compact_due()
    assert await left(filled, "c") == LEFT
    metrics = filled.parts.metrics
    assert metrics.compactions.labels("c").value == 1
    assert metrics.compaction_removed_records.labels("c").value == 8
    assert metrics.compaction_removed_bytes.labels("c").value > 8 * 60
    await filled.reopen()
    assert await left(filled, "c") == LEFT


async def test_topics_that_are_not_compacted_keep_everything(harness: EngineHarness) -> None:
    await harness.engine.topics.create("d", 1, {})
    for _ in range(3):
        await put(harness, "d", ("a", "1"))
    await roll_up(harness)
    await harness.parts.compactions.compact_due()
    assert len(await left(harness, "d")) == 3


async def test_a_log_without_anything_new_costs_no_request(filled: EngineHarness) -> None:
    await filled.parts.compactions.compact_due()
    await put(filled, "c", ("a", "9"))  # in the tail, and little
    before = len(filled.store.calls)
    for _ in range(50):
        filled.clock.advance_ms(30_000)
        await filled.parts.compactions.compact_due()
    assert len(filled.store.calls) == before


async def test_even_with_a_ratio_of_zero(harness: EngineHarness) -> None:
    await harness.engine.topics.create("z", 1, COMPACT | {"min.cleanable.dirty.ratio": "0"})
    await put(harness, "z", ("a", "1"), ("a", None))
    await roll_up(harness)
    await harness.parts.compactions.compact_due()
    before = len(harness.store.calls)
    harness.clock.advance_ms(2 * DAY_MS)
    await harness.parts.compactions.compact_due()
    assert len(harness.store.calls) == before, "its tombstones wait for something new"
    await put(harness, "z", ("b", "1"))
    await roll_up(harness)
    await harness.parts.compactions.compact_due()
    assert await left(harness, "z") == [(2, b"b", b"1")]


@pytest.mark.parametrize("config", ["segment.ms", "max.compaction.lag.ms"])
async def test_an_old_tail_becomes_past_and_is_compacted(
    harness: EngineHarness, config: str
) -> None:
    await harness.engine.topics.create("c", 1, COMPACT | {config: "60000"})
    await put(harness, "c", ("a", "1"))
    await put(harness, "c", ("a", "2"))
    harness.clock.advance_ms(60_000)
    await harness.parts.compactions.compact_due()
    assert len(await left(harness, "c")) == 2, "not yet"
    harness.clock.advance_ms(1)
    await harness.parts.compactions.compact_due()
    assert await left(harness, "c") == [(1, b"a", b"2")]


async def test_a_loop_does_it_without_being_asked(filled: EngineHarness) -> None:
    async with asyncio.timeout(120):
        while await left(filled, "c") != LEFT:
            await asyncio.sleep(1)


async def test_virtual_and_shared_topics_are_compacted_too(harness: EngineHarness) -> None:
    await harness.engine.topics.create("v", 4, COMPACT | {"physical.partitions": "2"})
    await harness.engine.topics.create("s", 3, COMPACT | {"storage.placement": "shared"})
    await harness.engine.topics.create("plain", 2, {"storage.placement": "shared"})
    partitions = [("v", 4), ("s", 3), ("plain", 2)]
    for value in ("1", "2", "3"):
        for name, count in partitions:
            for number in range(count):
                await put(harness, name, ("a", value), at=number)
    await roll_up(harness)
    await harness.parts.compactions.compact_due()
    for name, count in partitions:
        for number in range(count):
            offsets = [row[0] for row in await left(harness, name, number)]
            assert offsets == ([0, 1, 2] if name == "plain" else [2]), (name, number)


# -- what is large -------------------------------------------------------------------------------


async def test_what_is_large_is_left_to_the_pipeline_and_shown() -> None:
    storage = StorageSection(compaction=CompactionSection(max_bytes=Size(2000)))
    async with EngineHarness(changed(FOR_TESTS, storage=storage)) as harness:
        for name in ("large", "small"):
            await harness.engine.topics.create(name, 1, COMPACT)
        for _ in range(3):
            await put(harness, "large", ("a", "x" * 1000))
            await put(harness, "small", ("a", "x"))
        await roll_up(harness)
        await harness.parts.compactions.compact_due()
        assert len(await left(harness, "large")) == 3
        assert len(await left(harness, "small")) == 1
        ((labels, size),) = harness.parts.compactions.left_to_pipeline()
        assert (labels, size > 3000) == (("large", "0"), True)


async def test_a_shared_log_that_is_too_large_is_compacted_by_topics_that_are_not() -> None:
    storage = StorageSection(compaction=CompactionSection(max_bytes=Size(3000)))
    async with EngineHarness(changed(FOR_TESTS, storage=storage)) as harness:
        for name in ("large", "small"):
            await harness.engine.topics.create(name, 1, COMPACT | {"storage.placement": "shared"})
        for _ in range(3):
            await put(harness, "small", ("a", "x"))
        await roll_up(harness)
        for _ in range(4):
            await put(harness, "large", ("a", "x" * 1000))
        await roll_up(harness)
        await harness.parts.compactions.compact_due()
        assert len(await left(harness, "large")) == 4
        assert len(await left(harness, "small")) == 1


async def test_more_keys_than_fit_are_compacted_in_passes() -> None:
    memory = CompactionSection(memory_bytes=PositiveSize(16_000))
    storage = StorageSection(compaction=memory)
    async with EngineHarness(changed(FOR_TESTS, storage=storage)) as harness:
        await harness.engine.topics.create("c", 1, COMPACT)
        for _ in range(2):
            for number in range(50):
                await put(harness, "c", (str(number), ""))
            await roll_up(harness)
        await harness.parts.compactions.compact_due()
        assert [row[0] for row in await left(harness, "c")] == list(range(50, 100))
        assert harness.parts.metrics.compactions.labels("c").value > 2


# -- trouble -------------------------------------------------------------------------------------


async def test_a_broken_object_is_looked_at_once_and_stops_no_other_log(
    filled: EngineHarness,
) -> None:
    await filled.engine.topics.create("other", 1, COMPACT)
    for _ in range(3):
        await put(filled, "other", ("a", "1"))
    await roll_up(filled)
    log = log_of(filled, "c")
    key = f"{log.folder}/{log.committed.manifest.segments[0].name}"
    body = bytearray(await filled.store.read(key))
    body[100] ^= 1
    await filled.store.delete([key])
    await filled.store.put_new(key, [body])
    for _ in range(3):
        await filled.parts.compactions.compact_due()
    assert filled.parts.metrics.broken_objects.value == 1
    assert len(await left(filled, "other")) == 1


async def test_a_mistake_in_one_log_does_not_end_the_compaction_of_others(
    filled: EngineHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    await filled.engine.topics.create("other", 1, COMPACT)
    for _ in range(3):
        await put(filled, "other", ("a", "1"))
    await roll_up(filled)
    honest = rollup.write_anew

    async def write_anew(log, *how):  # type: ignore[no-untyped-def]
        if "/c/" in log.folder:
            raise ZeroDivisionError
        return await honest(log, *how)

    monkeypatch.setattr("kafscale.log.upkeep.compaction.rollup.write_anew", write_anew)
    await filled.parts.compactions.compact_due()
    assert len(await left(filled, "other")) == 1
    assert len(await left(filled, "c")) == 10


async def test_a_store_that_refuses_for_a_while_delays_and_harms_nothing(
    filled: EngineHarness,
) -> None:
    filled.plan.add(Rule(Fault.FAIL_BEFORE, "put_new", times=3))
    await filled.parts.compactions.compact_due()
    assert await left(filled, "c") == LEFT


async def test_clients_go_on_while_it_works(filled: EngineHarness) -> None:
    compaction = asyncio.create_task(filled.parts.compactions.compact_due())
    for number in range(20):
        await put(filled, "c", ("a", f"later {number}"))
    await compaction
    rows = await left(filled, "c")
    assert rows[-1] == (29, b"a", b"later 19")
    assert [row for row in rows if row[0] < 10] == LEFT
