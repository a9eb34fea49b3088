import asyncio

import pytest

from kafscale.log.upkeep import retention, rollup
from kafscale.records.record import Record, build_batch
from kafscale.settings.sections import StorageSection
from kafscale.testing.faulty_store import Fault, Rule
from kafscale.testing.in_process import FOR_TESTS
from tests.unit.engine.engine_harness import EngineHarness, values_of
from tests.unit.gateways.kafka.caller import NOW_MS
from tests.unit.gateways.kafka.settings import changed

HOUR_MS = 3_600_000


async def segments(harness: EngineHarness) -> list[str]:
    return [key for key in await harness.keys() if key.endswith(".kfs")]


async def test_retention_by_time_moves_the_start_and_frees_the_objects(
    harness: EngineHarness,
) -> None:
    await harness.engine.topics.create("t", 1, {"retention.ms": str(HOUR_MS)})
    for hour in range(3):
        await harness.append("t", b"%d" % hour, timestamp_ms=NOW_MS + hour * HOUR_MS // 2)
    harness.clock.advance_ms(HOUR_MS + 1)
    await harness.parts.log_upkeep.tidy()
    part = await harness.read("t", 0)
    assert type(part.error).__name__ == "OffsetOutOfRange"
    assert part.start == 1
    assert values_of(await harness.read("t", 1)) == [b"1", b"2"]
    assert len(await segments(harness)) > 1, "readers of before may still want them"
    for _ in range(8):  # a grace period for each step: superseded, dropped, deleted
        harness.clock.advance_ms(700_000)
        await harness.parts.log_upkeep.tidy()
    left = await segments(harness)
    assert all("00000000000000000000.kfs" not in key for key in left)


async def test_retention_by_size_keeps_the_newest(harness: EngineHarness) -> None:
    await harness.engine.topics.create("t", 1, {"retention.bytes": "2500", "retention.ms": "-1"})
    for number in range(10):
        await harness.append("t", b"%d" % number + b"x" * 1000)
    await harness.parts.log_upkeep.tidy()
    start, high, _ = await harness.engine.partitions.bounds(harness.engine.topics.get("t"), 0, -1)
    assert (start, high) == (7, 10)


async def test_everything_may_expire_and_offsets_go_on(harness: EngineHarness) -> None:
    await harness.engine.topics.create("t", 1, {"retention.ms": "1000"})
    await harness.append("t", b"a", b"b")
    harness.clock.advance_ms(5000)
    await harness.parts.log_upkeep.tidy()
    start, high, _ = await harness.engine.partitions.bounds(harness.engine.topics.get("t"), 0, -1)
    assert (start, high) == (2, 2)
    assert await harness.append("t", b"c", timestamp_ms=NOW_MS + 5000) == 2
    await harness.reopen()
    assert values_of(await harness.read("t", 2)) == [b"c"]


async def test_a_topic_that_is_only_compacted_does_not_expire(harness: EngineHarness) -> None:
    await harness.engine.topics.create(
        "t", 1, {"retention.ms": "1000", "cleanup.policy": "compact"}
    )
    topic = harness.engine.topics.get("t")
    await harness.parts.logs.open(topic, 0)
    keyed = build_batch([Record(0, NOW_MS, b"key", b"value")], base_offset=0)
    stored = harness.engine.partitions.append(
        topic, 0, memoryview(bytearray(keyed)), acknowledged=False
    )
    assert stored.appended.committed is not None
    assert await stored.appended.committed is None
    harness.clock.advance_ms(5000)
    await harness.parts.log_upkeep.tidy()
    assert values_of(await harness.read("t")) == [b"value"]


async def test_a_long_tail_is_rolled_up_without_being_asked() -> None:
    storage = StorageSection(rollup_objects=5)
    async with EngineHarness(changed(FOR_TESTS, storage=storage)) as harness:
        await harness.engine.topics.create("t", 1, {})
        for number in range(6):
            await harness.append("t", b"%d" % number)
        ((_, log),) = harness.parts.logs.each()
        assert rollup.roll_up_is_due(log)
        async with asyncio.timeout(30):
            while rollup.roll_up_is_due(log):
                await asyncio.sleep(0.05)
        assert log.committed.manifest.generation == 1
        await harness.reopen()
        assert values_of(await harness.read("t")) == [b"%d" % number for number in range(6)]


async def test_a_sick_store_postpones_and_harms_nothing(harness: EngineHarness) -> None:
    await harness.engine.topics.create("a", 1, {"retention.ms": "1000"})
    await harness.engine.topics.create("b", 1, {"retention.ms": "1000"})
    for name in ("a", "b"):
        await harness.append(name, b"old")
    harness.clock.advance_ms(5000)
    rule = harness.plan.add(Rule(Fault.FAIL_BEFORE, "find"))
    await harness.parts.log_upkeep.tidy()
    assert rule.happened >= 2, "both logs had their try"
    harness.plan.clear()
    await harness.parts.log_upkeep.tidy()
    for name in ("a", "b"):
        start, _, _ = await harness.engine.partitions.bounds(harness.engine.topics.get(name), 0, -1)
        assert start == 1


async def test_a_mistake_in_one_log_does_not_end_the_housekeeping_of_others(
    harness: EngineHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("a", "b"):
        await harness.engine.topics.create(name, 1, {"retention.ms": "1000"})
        await harness.append(name, b"old")
    harness.clock.advance_ms(5000)
    honest = retention.retain

    async def retain(log, *limits):  # type: ignore[no-untyped-def]
        if "/a/" in log.folder:
            raise ZeroDivisionError
        return await honest(log, *limits)

    monkeypatch.setattr(retention, "retain", retain)
    await harness.parts.log_upkeep.tidy()
    starts = [
        (await harness.engine.partitions.bounds(harness.engine.topics.get(name), 0, -1))[0]
        for name in ("a", "b")
    ]
    assert starts == [0, 1]
