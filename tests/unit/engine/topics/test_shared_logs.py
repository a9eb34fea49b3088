"""Shared placement: partitions of many topics are lanes of few logs; clients see no difference."""

import asyncio

import msgspec
import pytest

from kafscale.engine.upkeep import removals
from kafscale.engine.upkeep.logs import OVERDUE_MS
from kafscale.log.upkeep import rollup
from kafscale.model.errors import InvalidTopicConfig, UnknownTopic
from kafscale.settings.config import Config
from kafscale.testing.in_process import FOR_TESTS
from tests.unit.engine.engine_harness import EngineHarness, values_of
from tests.unit.engine.topics.test_changes import adding

SHARED = {"storage.placement": "shared"}


def logs_of(harness: EngineHarness) -> set[str]:
    return {log.folder for _, log in harness.parts.logs.each()}


async def names_below(harness: EngineHarness, folder: str) -> list[str]:
    return [key for key in await harness.keys(folder) if "/segment-" in key]


async def test_topics_share_logs_and_have_offsets_of_their_own(harness: EngineHarness) -> None:
    for name in ("a", "b", "c"):
        await harness.engine.topics.create(name, 2, SHARED)
    for name in ("a", "b", "c"):
        for partition in range(2):
            for turn in range(2):
                value = f"{name}-{partition}-{turn}".encode()
                assert await harness.append(name, value, partition=partition) == turn
    assert logs_of(harness) == {"default/@shared/0"}, "one broker, one log"
    await harness.reopen()
    for name in ("a", "b", "c"):
        for partition in range(2):
            found = await harness.read(name, partition=partition)
            assert values_of(found) == [f"{name}-{partition}-{turn}".encode() for turn in range(2)]
            assert (found.start, found.high) == (0, 2)


async def test_one_flush_of_many_topics_is_one_object(harness: EngineHarness) -> None:
    topics = [await harness.engine.topics.create(f"t{n}", 3, SHARED) for n in range(4)]
    await asyncio.gather(
        *(harness.append(topic.name, b"x", partition=p) for topic in topics for p in range(3))
    )
    written = await names_below(harness, "default/@shared/0")
    assert 1 <= len(written) <= 3, "the first at once, what came meanwhile together"


async def test_more_partitions_are_further_lanes(harness: EngineHarness) -> None:
    topic = await harness.engine.topics.create("t", 1, SHARED)
    await harness.engine.topics.create("between", 1, SHARED)
    await harness.append("t", b"old")
    await harness.engine.topics.create_partitions("t", 3)
    assert [topic.place(p).lane for p in range(3)] == [0, 2, 3]
    await harness.append("t", b"new", partition=2)
    await harness.reopen()
    assert values_of(await harness.read("t", partition=2)) == [b"new"]
    assert values_of(await harness.read("t")) == [b"old"]
    with pytest.raises(UnknownTopic):
        harness.engine.topics.get("t").place(3)


async def test_a_name_used_again_sees_nothing_of_before(harness: EngineHarness) -> None:
    await harness.engine.topics.create("t", 1, SHARED)
    await harness.append("t", b"old")
    await harness.engine.topics.delete("t")
    again = await harness.engine.topics.create("t", 1, SHARED)
    assert again.place(0).lane == 1, "lanes are not used again"
    assert values_of(await harness.read("t")) == []
    assert await harness.append("t", b"new") == 0
    await harness.reopen()
    assert values_of(await harness.read("t")) == [b"new"]


async def test_a_deleted_topic_takes_nothing_more(harness: EngineHarness) -> None:
    topic = await harness.engine.topics.create("t", 1, SHARED)
    await harness.append("t", b"old")
    await harness.engine.topics.delete("t")
    assert harness.parts.logs.resolve(topic, 0) is None
    with pytest.raises(UnknownTopic):
        await harness.parts.logs.open(topic, 0)


async def test_deleting_a_topic_touches_no_neighbour(harness: EngineHarness) -> None:
    for name in ("a", "b"):
        await harness.engine.topics.create(name, 1, SHARED)
        await harness.append(name, name.encode())
    await harness.engine.topics.delete("a")
    for _ in range(3):
        harness.clock.advance_ms(1_000_000)  # more than a grace period
        await harness.parts.log_upkeep.tidy()
        assert values_of(await harness.read("b")) == [b"b"]
    assert await names_below(harness, "default/@shared")
    await harness.reopen()
    assert values_of(await harness.read("b")) == [b"b"]


async def test_retention_goes_by_the_settings_of_each_topic(harness: EngineHarness) -> None:
    await harness.engine.topics.create("short", 1, SHARED | {"retention.bytes": "100"})
    await harness.engine.topics.create("long", 1, SHARED)
    for turn in range(5):
        await harness.append("short", b"%d" % turn * 60)
        await harness.append("long", b"%d" % turn * 60)
    await harness.parts.log_upkeep.tidy()
    short, long = await harness.read("short", offset=4), await harness.read("long")
    assert (short.start, short.high) == (4, 5)
    assert (long.start, len(values_of(long))) == (0, 5)


async def test_an_object_goes_with_its_last_lane(harness: EngineHarness) -> None:
    for name in ("a", "b"):
        await harness.engine.topics.create(name, 1, SHARED)
        await harness.append(name, b"x" * 500)
    (log,) = [log for _, log in harness.parts.logs.each()]
    await rollup.roll_up(log)
    for name in ("a", "b"):
        await harness.engine.topics.delete(name)
    await harness.parts.log_upkeep.tidy()
    assert log.committed.manifest.segments == []


async def test_what_is_half_dead_is_rewritten_without_the_dead(harness: EngineHarness) -> None:
    for name, size in (("large", 4000), ("small", 40)):
        await harness.engine.topics.create(name, 1, SHARED)
        await harness.append(name, name[:1].encode() * size)
    (log,) = [log for _, log in harness.parts.logs.each()]
    await rollup.roll_up(log)
    await harness.engine.topics.delete("large")
    await harness.parts.log_upkeep.tidy()
    (entry,) = log.committed.manifest.segments
    assert [span.lane for span in entry.spans()] == [1]
    assert entry.size < 400
    assert values_of(await harness.read("small")) == [b"s" * 40]
    await harness.reopen()
    assert values_of(await harness.read("small")) == [b"s" * 40]


async def test_a_broken_object_does_not_keep_its_log_from_being_swept(
    harness: EngineHarness,
) -> None:
    for name, size in (("large", 4000), ("small", 40)):
        await harness.engine.topics.create(name, 1, SHARED)
        await harness.append(name, name[:1].encode() * size)
    (log,) = [log for _, log in harness.parts.logs.each()]
    await rollup.roll_up(log)
    (entry,) = log.committed.manifest.segments
    key = f"{log.folder}/{entry.name}"
    body = bytearray(await harness.objects.read(key))
    body[entry.spans()[0].start + 70] ^= 1
    await harness.objects.delete([key])
    await harness.objects.put_new(key, [body])
    await harness.engine.topics.delete("large")
    for _ in range(3):
        harness.clock.advance_ms(700_000)
        await harness.parts.log_upkeep.tidy()
    left = [name for name in await names_below(harness, log.folder) if name.endswith(".kfs")]
    assert left == [key], "the flushes that were rolled up are gone"
    shown = harness.engine.metrics.registry.render().decode()
    assert "\nkafscale_broken_objects_total 1\n" in shown


async def test_a_little_of_a_deleted_topic_is_gone_when_its_time_is_up(
    harness: EngineHarness,
) -> None:
    for name, size in (("large", 4000), ("small", 40)):
        await harness.engine.topics.create(name, 1, SHARED | {"retention.ms": "-1"})
        await harness.append(name, name[:1].encode() * size)
    (log,) = [log for _, log in harness.parts.logs.each()]
    await rollup.roll_up(log)
    await harness.engine.topics.delete("small")
    await harness.parts.log_upkeep.tidy()
    assert len(log.committed.manifest.segments[0].spans()) == 2, (
        "too little to write all else again for"
    )
    harness.clock.advance_ms(OVERDUE_MS)
    await harness.parts.log_upkeep.tidy()
    (entry,) = log.committed.manifest.segments
    assert [span.lane for span in entry.spans()] == [0]
    assert values_of(await harness.read("large")) == [b"l" * 4000]


async def test_a_removal_is_over_when_no_object_names_its_lanes(
    harness: EngineHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(removals, "SEARCH_EVERY_S", 0.0)
    for name in ("gone", "stays"):
        await harness.engine.topics.create(name, 1, SHARED | {"retention.ms": "-1"})
        await harness.append(name, b"x" * 100)
    (log,) = [log for _, log in harness.parts.logs.each()]
    await rollup.roll_up(log)
    await harness.engine.topics.delete("gone")
    harness.clock.advance_ms(1_000_000)
    await harness.parts.removals.remove_deleted_topics()
    assert await harness.metadata.find("/kafscale/removals/")
    harness.clock.advance_ms(OVERDUE_MS)
    await harness.parts.log_upkeep.tidy()
    await harness.parts.log_upkeep.tidy()
    assert not await harness.metadata.find("/kafscale/removals/")
    assert values_of(await harness.read("stays")) == [b"x" * 100]


async def test_the_cluster_may_say_that_topics_share(harness: EngineHarness) -> None:
    storage = {"placement": "shared", "shared_logs": 3}
    config = _with_storage(**storage)
    async with EngineHarness(config) as other:
        topic = await other.engine.topics.create("t", 4, {})
        assert [topic.place(p) for p in range(4)] == [
            ("default/@shared/0", 0),
            ("default/@shared/1", 0),
            ("default/@shared/2", 0),
            ("default/@shared/0", 1),
        ]
        assert topic.descriptor.configs["storage.placement"] == "shared"
        own = await other.engine.topics.create("own", 1, {"storage.placement": "dedicated"})
        virtual = await other.engine.topics.create("v", 4, {"physical.partitions": "2"})
        assert own.place(0).folder == "default/own/0"
        assert virtual.place(3) == ("default/v/1", 1)


async def test_a_namespace_may_say_otherwise_than_the_cluster() -> None:
    said = {"default": "shared", "other": "dedicated"}
    async with EngineHarness(_with_storage(placement_by_namespace=said)) as harness:
        assert (await harness.engine.topics.create("t", 1, {})).uses_shared_logs


async def test_logs_of_its_own_and_shared_ones_exclude_each_other(harness: EngineHarness) -> None:
    with pytest.raises(InvalidTopicConfig, match=r"physical\.partitions"):
        await harness.engine.topics.create("t", 4, SHARED | {"physical.partitions": "2"})
    await harness.engine.topics.create("t", 4, SHARED)
    await harness.engine.topics.change_configs("t", adding("retention.ms", "5"))
    assert harness.engine.topics.get("t").settings.retention_ms == 5


def _with_storage(**changes: object) -> Config:
    storage = msgspec.structs.replace(FOR_TESTS.storage, **changes)
    return msgspec.structs.replace(FOR_TESTS, storage=storage)


async def test_looking_for_the_dead_does_not_cost_per_removal(harness: EngineHarness) -> None:
    await harness.engine.topics.create("stays", 1, SHARED)
    for number in range(20):
        await harness.engine.topics.create(f"t{number}", 1, SHARED)
        await harness.append(f"t{number}", b"x")
        await harness.append("stays", b"y" * 200)
    for number in range(20):
        await harness.engine.topics.delete(f"t{number}")
    harness.clock.advance_ms(7_200_000)
    await harness.parts.log_upkeep.tidy()
    before = len(harness.store.calls)
    harness.clock.advance_ms(700_000)
    await harness.parts.log_upkeep.tidy()
    made = [call for call in harness.store.calls[before:] if "@shared/0" in call[1]]
    assert len(made) < 40


async def test_a_deleted_topics_lanes_are_forgotten_in_the_end(harness: EngineHarness) -> None:
    await harness.engine.topics.create("stays", 1, SHARED)
    await harness.append("stays", b"y")
    for number in range(20):
        await harness.engine.topics.create(f"t{number}", 1, SHARED)
        await harness.append(f"t{number}", b"x")
        await harness.engine.topics.delete(f"t{number}")
    for _ in range(6):
        await harness.parts.log_upkeep.tidy()
        harness.clock.advance_ms(86_400_000)
    assert await harness.metadata.find("/kafscale/removals/") == []
    await harness.reopen()
    await harness.append("stays", b"z")
    (log,) = [log for topic, log in harness.parts.logs.each() if topic is None]
    assert set(log.committed.manifest.lanes) == {0}
