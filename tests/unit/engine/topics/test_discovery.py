"""Topics that somebody put into the bucket without asking a broker."""

import asyncio
from functools import partial

import msgspec
import pytest

from kafscale.engine.topics import discovery
from kafscale.log.catalog.descriptors import Descriptors, Wish
from kafscale.log.formats import keys
from kafscale.log.moves import end_of_topic
from kafscale.metadata import keys as metadata_keys
from kafscale.model.errors import StoreRefused
from kafscale.model.topics import TopicDescriptor
from kafscale.testing.clock import SeededDice
from kafscale.testing.faulty_store import Fault, Rule
from tests.unit.engine.engine_harness import Shop, values_of


async def put_topic(shop: Shop, name: str, partitions: int = 2, topic_id: str = "") -> None:
    wish = Wish(
        name,
        topic_id or name.encode().hex().ljust(32, "0"),
        partitions,
        {"retention.ms": "-1"},
        "2026-01-01T00:00:00.000Z",
        own_folder=True,
    )
    tools = end_of_topic.Tools(shop.objects, shop.clock, SeededDice(1))
    await Descriptors(shop.objects, "default").create(wish, partial(end_of_topic.end_topic, tools))


async def bury(shop: Shop, name: str) -> None:
    descriptors = Descriptors(shop.objects, "default")
    version, newest = await descriptors.newest(name)
    assert newest is not None
    await descriptors.put(msgspec.structs.replace(newest, deleted=True), version + 1)


def looks(shop: Shop, name: str) -> int:
    return shop.store.calls.count(("find", f"default/{name}"))


async def test_a_topic_in_the_bucket_is_found_when_it_is_asked_for(shop: Shop) -> None:
    await put_topic(shop, "loaded", 3)
    found = await shop.engine.discovery.look_for("loaded")
    assert found is not None
    assert (found.partitions, found.settings.retention_ms) == (3, -1)
    assert shop.engine.topics.get("loaded") is found
    assert await shop.append("loaded", b"one", partition=2) == 0
    assert values_of(await shop.read("loaded", partition=2)) == [b"one"]
    await shop.reopen()
    assert shop.engine.topics.get("loaded").topic_id == found.topic_id
    assert await shop.metadata.find(metadata_keys.CHANGES) == []


async def test_unknown_names_cost_one_look_a_second_whoever_asks(shop: Shop) -> None:
    look_for = shop.engine.discovery.look_for
    assert await asyncio.gather(*(look_for("none") for _ in range(50))) == [None] * 50
    assert looks(shop, "none") == 1
    shop.clock.advance_ms(900)
    assert await look_for("none") is None
    assert looks(shop, "none") == 1
    shop.clock.advance_ms(200)
    assert await look_for("none") is None
    assert looks(shop, "none") == 2


async def test_many_unknown_names_are_bounded_in_all(shop: Shop) -> None:
    before = len(shop.store.calls)
    for number in range(200):
        await shop.engine.discovery.look_for(f"none-{number}")
    assert len(shop.store.calls) - before == discovery.PER_SECOND
    assert await shop.engine.discovery.look_for("not/a name") is None


async def test_only_some_looks_are_under_way_at_once(shop: Shop) -> None:
    stall = shop.plan.add(Rule(Fault.STALL_BEFORE, "find", "default/none-*"))
    asked = [
        asyncio.ensure_future(shop.engine.discovery.look_for(f"none-{number}"))
        for number in range(40)
    ]
    await stall.reached.wait()
    await asyncio.sleep(0)
    assert sum(not task.done() for task in asked) == discovery.AT_ONCE
    shop.plan.clear()
    assert await asyncio.gather(*asked) == [None] * 40


async def test_a_store_in_trouble_means_not_found_and_is_asked_again(shop: Shop) -> None:
    await put_topic(shop, "loaded")
    shop.plan.add(Rule(Fault.FAIL_BEFORE, "find", error=StoreRefused, times=1))
    assert await shop.engine.discovery.look_for("loaded") is None
    shop.clock.advance_ms(1100)
    assert await shop.engine.discovery.look_for("loaded") is not None


async def test_a_topic_that_is_wanted_anyway_is_taken_as_it_is(shop: Shop) -> None:
    await put_topic(shop, "loaded", 5)
    asked = [shop.engine.find_or_create("loaded") for _ in range(3)]
    assert [topic.partitions for topic in await asyncio.gather(*asked)] == [5] * 3


async def test_a_deleted_topic_is_not_found(shop: Shop) -> None:
    await put_topic(shop, "gone")
    await bury(shop, "gone")
    assert await shop.engine.discovery.look_for("gone") is None
    await shop.engine.discovery.scan()
    assert shop.engine.topics.find("gone") is None


async def test_a_topic_deleted_while_it_is_taken_up_does_not_come_back(shop: Shop) -> None:
    await put_topic(shop, "brief")
    stall = shop.plan.add(Rule(Fault.STALL_AFTER, "read", "*/brief/descriptor-*", times=1))
    looking = asyncio.ensure_future(shop.engine.discovery.look_for("brief"))
    await stall.reached.wait()
    await bury(shop, "brief")
    shop.plan.clear()
    assert await looking is None
    assert await shop.metadata.get(metadata_keys.topic_config("brief")) is None
    await shop.reopen()
    assert shop.engine.topics.find("brief") is None


@pytest.mark.parametrize("commits", range(3))
async def test_taking_up_that_is_cut_short_is_made_good(shop: Shop, commits: int) -> None:
    await put_topic(shop, "loaded")
    shop.metadata.refuse_after(commits)
    assert await shop.engine.discovery.look_for("loaded") is None
    await shop.reopen()
    shop.clock.advance_ms(2000)
    assert await shop.engine.discovery.look_for("loaded") is not None
    assert await shop.metadata.find(metadata_keys.CHANGES) == []


async def test_a_deletion_that_was_cut_short_is_finished_with_the_change(shop: Shop) -> None:
    await put_topic(shop, "brief")
    shop.metadata.refuse_after(2)
    assert await shop.engine.discovery.look_for("brief") is None  # the row is in, the note too
    await bury(shop, "brief")
    await shop.reopen()
    assert shop.engine.topics.find("brief") is None
    removals = await shop.metadata.find(metadata_keys.REMOVALS)
    assert ["brief" in entry.key for entry in removals] == [True]


async def test_a_scan_finds_what_nobody_asked_for(shop: Shop) -> None:
    for number in range(5):
        await put_topic(shop, f"loaded-{number}")
    await shop.objects.put_new("default/@replay/x/1", [b""])
    await shop.engine.discovery.scan()
    names = [topic.name for topic in shop.engine.topics.all()]
    assert names == [f"loaded-{number}" for number in range(5)]


async def test_names_without_a_topic_are_visited_in_turn(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(discovery, "_KNOWN_EMPTY_PER_SCAN", 2)
    for number in range(5):
        await shop.objects.put_new(f"default/dead-{number}/x", [b""])
    await shop.engine.discovery.scan()
    before = [looks(shop, f"dead-{number}") for number in range(5)]
    for _ in range(5):
        await shop.engine.discovery.scan()
    assert [looks(shop, f"dead-{number}") - old for number, old in enumerate(before)] == [2] * 5
    shop.plan.add(Rule(Fault.FAIL_BEFORE, "folders", error=StoreRefused, times=1))
    await shop.engine.discovery.scan()


async def test_a_name_used_again_by_a_load_is_found_under_its_new_folder(shop: Shop) -> None:
    await shop.engine.create_topic("t", 1, {})
    await shop.append("t", b"old")
    await shop.engine.delete_topic("t")
    await put_topic(shop, "t", 2, "ab" * 16)
    found = await shop.engine.discovery.look_for("t")
    assert found is not None
    assert (found.descriptor.incarnation, found.descriptor.folder) == (2, f"default/t@{'ab' * 16}")
    assert values_of(await shop.read("t")) == []
    newest = await shop.objects.read(keys.descriptor("default/t", 3))
    assert TopicDescriptor.decode(newest).topic_id == "ab" * 16
