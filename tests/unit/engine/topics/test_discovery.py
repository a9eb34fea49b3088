"""Topics that a job put into the bucket without asking a broker."""

import asyncio
from functools import partial

import msgspec
import pytest

from kafscale.engine.topics import discovery
from kafscale.log.catalog.descriptors import Descriptors, TopicSpec
from kafscale.log.formats import keys
from kafscale.log.moves import end_of_topic
from kafscale.metadata import keys as metadata_keys
from kafscale.model.errors import StoreRefused
from kafscale.model.topics import TopicDescriptor
from kafscale.testing.clock import SeededDice
from kafscale.testing.faulty_store import Fault, Rule
from tests.unit.engine.engine_harness import EngineHarness, values_of


async def put_topic(
    harness: EngineHarness, name: str, partitions: int = 2, topic_id: str = ""
) -> None:
    wish = TopicSpec(
        name,
        topic_id or name.encode().hex().ljust(32, "0"),
        partitions,
        {"retention.ms": "-1"},
        "2026-01-01T00:00:00.000Z",
        own_folder=True,
    )
    tools = end_of_topic.Tools(harness.objects, harness.clock, SeededDice(1))
    await Descriptors(harness.objects, "default").create(
        wish, partial(end_of_topic.end_topic, tools)
    )


async def bury(harness: EngineHarness, name: str) -> None:
    descriptors = Descriptors(harness.objects, "default")
    version, newest = await descriptors.newest(name)
    assert newest is not None
    await descriptors.put(msgspec.structs.replace(newest, deleted=True), version + 1)


def looks(harness: EngineHarness, name: str) -> int:
    return harness.store.calls.count(("find", f"default/{name}"))


async def test_a_topic_in_the_bucket_is_found_when_it_is_asked_for(harness: EngineHarness) -> None:
    await put_topic(harness, "loaded", 3)
    found = await harness.engine.topics.discover("loaded")
    assert found is not None
    assert (found.partitions, found.settings.retention_ms) == (3, -1)
    assert harness.engine.topics.get("loaded") is found
    assert await harness.append("loaded", b"one", partition=2) == 0
    assert values_of(await harness.read("loaded", partition=2)) == [b"one"]
    await harness.reopen()
    assert harness.engine.topics.get("loaded").topic_id == found.topic_id
    assert await harness.metadata.find(metadata_keys.CHANGES) == []


async def test_unknown_names_cost_one_look_a_second_however_many_ask(
    harness: EngineHarness,
) -> None:
    look_for = harness.engine.topics.discover
    assert await asyncio.gather(*(look_for("none") for _ in range(50))) == [None] * 50
    assert looks(harness, "none") == 1
    harness.clock.advance_ms(900)
    assert await look_for("none") is None
    assert looks(harness, "none") == 1
    harness.clock.advance_ms(200)
    assert await look_for("none") is None
    assert looks(harness, "none") == 2


async def test_many_unknown_names_are_bounded_in_all(harness: EngineHarness) -> None:
    before = len(harness.store.calls)
    for number in range(200):
        await harness.engine.topics.discover(f"none-{number}")
    assert len(harness.store.calls) - before == discovery.PER_SECOND
    assert await harness.engine.topics.discover("not/a name") is None


async def test_only_some_looks_are_under_way_at_once(harness: EngineHarness) -> None:
    stall = harness.plan.add(Rule(Fault.STALL_BEFORE, "find", "default/none-*"))
    asked = [
        asyncio.ensure_future(harness.engine.topics.discover(f"none-{number}"))
        for number in range(40)
    ]
    await stall.reached.wait()
    await asyncio.sleep(0)
    assert sum(not task.done() for task in asked) == discovery.AT_ONCE
    harness.plan.clear()
    assert await asyncio.gather(*asked) == [None] * 40


async def test_a_store_in_trouble_means_not_found_and_is_asked_again(
    harness: EngineHarness,
) -> None:
    await put_topic(harness, "loaded")
    harness.plan.add(Rule(Fault.FAIL_BEFORE, "find", error=StoreRefused, times=1))
    assert await harness.engine.topics.discover("loaded") is None
    harness.clock.advance_ms(1100)
    assert await harness.engine.topics.discover("loaded") is not None


async def test_a_topic_that_is_wanted_anyway_is_taken_as_it_is(harness: EngineHarness) -> None:
    await put_topic(harness, "loaded", 5)
    asked = [harness.engine.topics.find_or_create("loaded") for _ in range(3)]
    assert [topic.partitions for topic in await asyncio.gather(*asked)] == [5] * 3


async def test_a_deleted_topic_is_not_found(harness: EngineHarness) -> None:
    await put_topic(harness, "gone")
    await bury(harness, "gone")
    assert await harness.engine.topics.discover("gone") is None
    await harness.parts.topics.discovery.scan()
    assert harness.engine.topics.find("gone") is None


async def test_a_topic_deleted_while_it_is_taken_up_does_not_come_back(
    harness: EngineHarness,
) -> None:
    await put_topic(harness, "brief")
    stall = harness.plan.add(Rule(Fault.STALL_AFTER, "read", "*/brief/descriptor-*", times=1))
    looking = asyncio.ensure_future(harness.engine.topics.discover("brief"))
    await stall.reached.wait()
    await bury(harness, "brief")
    harness.plan.clear()
    assert await looking is None
    assert await harness.metadata.get(metadata_keys.topic_config("brief")) is None
    await harness.reopen()
    assert harness.engine.topics.find("brief") is None


@pytest.mark.parametrize("commits", range(3))
async def test_taking_up_that_is_cut_short_is_made_good(
    harness: EngineHarness, commits: int
) -> None:
    await put_topic(harness, "loaded")
    harness.metadata.refuse_after(commits)
    assert await harness.engine.topics.discover("loaded") is None
    await harness.reopen()
    harness.clock.advance_ms(2000)
    assert await harness.engine.topics.discover("loaded") is not None
    assert await harness.metadata.find(metadata_keys.CHANGES) == []


async def test_a_deletion_that_was_cut_short_is_finished_with_the_change(
    harness: EngineHarness,
) -> None:
    await put_topic(harness, "brief")
    harness.metadata.refuse_after(2)
    assert await harness.engine.topics.discover("brief") is None  # the row is in, the note too
    await bury(harness, "brief")
    await harness.reopen()
    assert harness.engine.topics.find("brief") is None
    removals = await harness.metadata.find(metadata_keys.REMOVALS)
    assert ["brief" in entry.key for entry in removals] == [True]


async def test_a_scan_finds_topics_that_no_client_asked_for(harness: EngineHarness) -> None:
    for number in range(5):
        await put_topic(harness, f"loaded-{number}")
    await harness.objects.put_new("default/@replay/x/1", [b""])
    await harness.parts.topics.discovery.scan()
    names = [topic.name for topic in harness.engine.topics.all()]
    assert names == [f"loaded-{number}" for number in range(5)]


async def test_names_without_a_topic_are_visited_in_turn(
    harness: EngineHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(discovery, "_KNOWN_EMPTY_PER_SCAN", 2)
    for number in range(5):
        await harness.objects.put_new(f"default/dead-{number}/x", [b""])
    await harness.parts.topics.discovery.scan()
    before = [looks(harness, f"dead-{number}") for number in range(5)]
    for _ in range(5):
        await harness.parts.topics.discovery.scan()
    assert [looks(harness, f"dead-{number}") - old for number, old in enumerate(before)] == [2] * 5
    harness.plan.add(Rule(Fault.FAIL_BEFORE, "folders", error=StoreRefused, times=1))
    await harness.parts.topics.discovery.scan()


async def test_a_name_used_again_by_a_load_is_found_under_its_new_folder(
    harness: EngineHarness,
) -> None:
    await harness.engine.topics.create("t", 1, {})
    await harness.append("t", b"old")
    await harness.engine.topics.delete("t")
    await put_topic(harness, "t", 2, "ab" * 16)
    found = await harness.engine.topics.discover("t")
    assert found is not None
    assert (found.descriptor.incarnation, found.descriptor.folder) == (2, f"default/t@{'ab' * 16}")
    assert values_of(await harness.read("t")) == []
    newest = await harness.objects.read(keys.descriptor("default/t", 3))
    assert TopicDescriptor.decode(newest).topic_id == "ab" * 16
