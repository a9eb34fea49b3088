"""What sleeps costs nothing: the requests of a broker that has nothing to do."""

import asyncio
from collections import Counter

import msgspec
import pytest

from kafscale.engine.partitions.reads import PartitionRead
from kafscale.log.catalog import notices
from kafscale.log.catalog.descriptors import Descriptors
from kafscale.log.catalog.notices import ChangeRecorder, Notice
from kafscale.log.upkeep import rollup
from kafscale.log.writer.log import Log
from kafscale.log.writer.tail_memory import TailMemory
from kafscale.log.writer.types import LogSettings
from kafscale.testing.faulty_store import Fault, Rule
from tests.unit.engine.engine_harness import EngineHarness, values_of

DAY_S = 86_400
PASS_S = 300  # housekeeping, ten times as rarely as by default: a day is many passes
LAYOUTS = {
    "dedicated": {},
    "virtual": {"physical.partitions": "1"},
    "shared": {"storage.placement": "shared"},
}


async def idle_day(partitions: int, configs: dict[str, str]) -> Counter[str]:
    """A day in which an exporter and a consumer look at every partition, and nothing is written."""
    async with EngineHarness() as harness:
        await harness.engine.topics.create("t", partitions, configs)
        topic = harness.engine.topics.get("t")
        for partition in range(partitions):
            await harness.append("t", b"x", partition=partition)
        for _ in range(4):  # what was begun comes to its end: a first checkpoint, a first look
            await _pass(harness)
        harness.store.calls.clear()
        for _ in range(0, DAY_S, 12 * PASS_S):
            for partition in range(partitions):
                bounds = await harness.engine.partitions.bounds(topic, partition, -1)
                assert bounds.end == 1
            reads = [PartitionRead(topic, partition, 1, 1 << 20) for partition in range(partitions)]
            assert not any(
                part.error for part in await harness.engine.partitions.fetch(reads, 1 << 20, 1, 1.0)
            )
            for _ in range(12):
                await _pass(harness)
        return Counter(verb for verb, _ in harness.store.calls)


async def _pass(harness: EngineHarness) -> None:
    harness.clock.advance_ms(PASS_S * 1000)
    await harness.parts.log_upkeep.tidy()
    await harness.parts.checkpoints.write()


@pytest.mark.parametrize("layout", LAYOUTS)
async def test_a_day_of_idleness_costs_the_same_whatever_the_number_of_partitions(
    layout: str,
) -> None:
    few = await idle_day(2, {"retention.ms": "-1"} | LAYOUTS[layout])
    many = await idle_day(40, {"retention.ms": "-1"} | LAYOUTS[layout])
    assert few == many
    assert set(few) <= {"read", "find"}
    assert few["read"] <= DAY_S // PASS_S + 1, "one look for notices in each pass"
    assert few["find"] <= DAY_S // 3600 + DAY_S // 300, "one for notices an hour; topics"


async def test_a_manifest_that_a_job_tells_of_is_taken_up_in_the_next_pass(
    harness: EngineHarness,
) -> None:
    await harness.engine.topics.create("t", 2, {})
    for partition in range(2):
        await harness.append("t", b"x", partition=partition)
    await harness.parts.log_upkeep.tidy()
    (_, ours), (_, other) = harness.parts.logs.each()
    recorder = ChangeRecorder(harness.store)
    await _roll_up_elsewhere(harness, recorder, ours.folder)
    await _roll_up_elsewhere(harness, ChangeRecorder(harness.store), other.folder)
    notice = recorder.take()
    assert notice == Notice(logs=[ours.folder])
    await harness.parts.log_upkeep.tidy()
    assert ours.committed.manifest.generation == 0, "no process has told of it"
    await notices.write(harness.store, "default", notice)
    await harness.parts.log_upkeep.tidy()
    assert ours.committed.manifest.generation == 1
    assert other.committed.manifest.generation == 0, "this one is told of by no notice"
    assert await harness.append("t", b"y", partition=1) == 1, "a writer finds it by rule 3"


async def _roll_up_elsewhere(harness: EngineHarness, store: ChangeRecorder, folder: str) -> None:
    log = Log(
        store,
        folder,
        epoch=0,
        author="a job",
        settings=LogSettings(),
        memory=TailMemory(1 << 20),
        clock=harness.clock,
        dice=harness._dice,
    )
    await log.open()
    await rollup.roll_up(log, merge=False)
    await log.abandon()


async def test_a_topic_that_a_job_tells_of_is_found(harness: EngineHarness) -> None:
    await harness.engine.topics.create("known", 1, {})
    descriptor = harness.engine.topics.get("known").descriptor
    recorder = ChangeRecorder(harness.store)
    made = msgspec.structs.replace(
        descriptor, name="loaded", topic_id="ab" * 16, folder="default/loaded"
    )
    await Descriptors(recorder, "default").put(made, 1)
    notice = recorder.take()
    assert notice == Notice(topics=["loaded"])
    await notices.write(harness.store, "default", notice)
    await harness.parts.log_upkeep.tidy()
    async with asyncio.timeout(30):
        while harness.engine.topics.find("loaded") is None:
            await asyncio.sleep(0.1)


async def test_a_notice_counts_until_the_store_has_answered(harness: EngineHarness) -> None:
    await harness.engine.topics.create("t", 1, {})
    await harness.append("t", b"x")
    ((_, log),) = harness.parts.logs.each()
    await _roll_up_elsewhere(harness, ChangeRecorder(harness.store), log.folder)
    await notices.write(harness.objects, "default", Notice(logs=[log.folder]))
    harness.plan.add(Rule(Fault.FAIL_BEFORE, "find", "*/t/*"))
    for _ in range(5):
        await harness.parts.log_upkeep.tidy()
    harness.plan.clear()
    await harness.parts.log_upkeep.tidy()
    assert log.committed.manifest.generation == 1
    assert values_of(await harness.read("t")) == [b"x"]


async def test_notices_that_were_missed_let_the_broker_ask_every_log(
    harness: EngineHarness,
) -> None:
    await harness.engine.topics.create("t", 1, {})
    await harness.append("t", b"x")
    await harness.parts.log_upkeep.tidy()
    ((_, log),) = harness.parts.logs.each()
    await _roll_up_elsewhere(harness, ChangeRecorder(harness.store), log.folder)
    for _ in range(2 * notices.KEPT + 2):
        await notices.write(harness.objects, "default", Notice(logs=["default/other/0"]))
    assert len(await notices.list_numbers(harness.objects, "default")) <= 2 * notices.KEPT
    await harness.parts.log_upkeep.tidy()
    assert log.committed.manifest.generation == 0
    harness.clock.advance_ms(3_600_000)
    await harness.parts.log_upkeep.tidy()
    assert log.committed.manifest.generation == 1
