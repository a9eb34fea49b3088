import asyncio

import pytest

from kafscale.log.catalog.descriptors import Descriptors
from kafscale.metadata import keys as metadata_keys
from kafscale.model.errors import (
    InvalidTopicName,
    MetadataUnavailable,
    StoreRefused,
    TopicExists,
    UnknownTopic,
    UnknownTopicId,
)
from kafscale.model.topics import TopicDescriptor
from kafscale.testing.faulty_store import Fault, Rule
from tests.unit.engine.engine_harness import EngineHarness, values_of


async def descriptors(harness: EngineHarness, topic: str = "t") -> list[TopicDescriptor]:
    """What the bucket says about a topic, oldest first."""
    found = [key for key in await harness.keys() if f"/{topic}/descriptor-" in key]
    return [TopicDescriptor.decode(await harness.objects.read(key)) for key in found]


# -- creating --------------------------------------------------------------------------------


async def test_a_topic_is_in_the_bucket_before_the_metadata_knows_it(
    harness: EngineHarness,
) -> None:
    harness.metadata.refuse_commits = 1
    with pytest.raises(MetadataUnavailable):
        await harness.engine.topics.create("t", 3, {})
    assert harness.engine.topics.find("t") is None
    (found,) = await descriptors(harness)
    assert (found.name, found.partitions, found.deleted) == ("t", 3, False)


async def test_a_creation_cut_short_is_taken_up_with_the_same_id(harness: EngineHarness) -> None:
    harness.metadata.refuse_commits = 1
    with pytest.raises(MetadataUnavailable):
        await harness.engine.topics.create("t", 3, {"retention.ms": "5"})
    (unfinished,) = await descriptors(harness)
    await harness.reopen()
    topic = await harness.engine.topics.create("t", 3, {"retention.ms": "5"})
    assert topic.descriptor.topic_id == unfinished.topic_id
    assert len(await descriptors(harness)) == 1


@pytest.mark.parametrize(
    ("partitions", "configs"), [(4, {"retention.ms": "5"}), (3, {}), (3, {"retention.ms": "6"})]
)
async def test_a_creation_cut_short_is_not_passed_off_as_another_wish(
    harness: EngineHarness, partitions: int, configs: dict[str, str | None]
) -> None:
    harness.metadata.refuse_commits = 1
    with pytest.raises(MetadataUnavailable):
        await harness.engine.topics.create("t", 3, {"retention.ms": "5"})
    with pytest.raises(TopicExists):
        await harness.engine.topics.create("t", partitions, configs)
    topic = harness.engine.topics.get("t")
    assert (topic.partitions, topic.settings.retention_ms) == (3, 5), "it exists as first wished"


async def test_the_lost_answer_of_the_descriptors_put_does_not_matter(
    harness: EngineHarness,
) -> None:
    harness.plan.add(Rule(Fault.FAIL_AFTER, "put_new", "*/descriptor-*", times=1))
    topic = await harness.engine.topics.create("t", 1, {})
    (found,) = await descriptors(harness)
    assert found.topic_id == topic.descriptor.topic_id


async def test_the_lost_answer_of_the_metadata_is_made_good_by_trying_again(
    harness: EngineHarness,
) -> None:
    harness.metadata.lose_answers = 1
    with pytest.raises(MetadataUnavailable):
        await harness.engine.topics.create("t", 1, {})
    topic = await harness.engine.topics.create("t", 1, {})
    assert harness.engine.topics.get("t") is topic
    assert len(await descriptors(harness)) == 1


async def test_a_store_that_refuses_creates_nothing(harness: EngineHarness) -> None:
    harness.plan.add(Rule(Fault.FAIL_BEFORE, "find", error=StoreRefused))
    with pytest.raises(StoreRefused):
        await harness.engine.topics.create("t", 1, {})
    harness.plan.clear()
    assert (await harness.engine.topics.create("t", 1, {})).name == "t"


async def test_two_who_create_at_once_get_one_topic_and_one_refusal(harness: EngineHarness) -> None:
    results = await asyncio.gather(
        *(harness.engine.topics.create("t", 1, {}) for _ in range(3)), return_exceptions=True
    )
    assert sorted(type(result).__name__ for result in results) == [
        "Topic",
        "TopicExists",
        "TopicExists",
    ]
    assert len(await descriptors(harness)) == 1


async def test_no_caller_hears_that_a_topic_exists_if_its_creation_fails(
    harness: EngineHarness,
) -> None:
    harness.plan.add(Rule(Fault.FAIL_BEFORE, "find", error=StoreRefused))
    results = await asyncio.gather(
        *(harness.engine.topics.create("t", 1, {}) for _ in range(2)), return_exceptions=True
    )
    assert [type(result) for result in results] == [StoreRefused, StoreRefused]


async def test_those_who_need_a_topic_at_once_share_one_creation(harness: EngineHarness) -> None:
    found = await asyncio.gather(*(harness.engine.topics.find_or_create("t") for _ in range(5)))
    assert {topic.topic_id for topic in found} == {harness.engine.topics.get("t").topic_id}
    assert len(await descriptors(harness)) == 1


async def test_names_that_metrics_cannot_tell_apart_collide(harness: EngineHarness) -> None:
    await harness.engine.topics.create("a.b", 1, {})
    with pytest.raises(InvalidTopicName):
        await harness.engine.topics.create("a_b", 1, {})


async def test_topics_are_there_after_a_restart(harness: EngineHarness) -> None:
    made = await harness.engine.topics.create("t", 2, {"retention.ms": "77"})
    await harness.append("t", b"kept", partition=1)
    await harness.reopen()
    topic = harness.engine.topics.get("t")
    assert (topic.topic_id, topic.partitions) == (made.topic_id, 2)
    assert topic.settings.retention_ms == 77
    assert harness.engine.topics.get_by_id(made.topic_id) is topic
    assert values_of(await harness.read("t", partition=1)) == [b"kept"]


# -- deleting --------------------------------------------------------------------------------


async def test_a_deleted_topic_leaves_a_tombstone_and_no_way_to_find_it(
    harness: EngineHarness,
) -> None:
    topic = await harness.engine.topics.create("t", 1, {})
    await harness.engine.topics.delete("t")
    assert [row.deleted for row in await descriptors(harness)] == [False, True]
    with pytest.raises(UnknownTopic):
        harness.engine.topics.get("t")
    with pytest.raises(UnknownTopicId):
        harness.engine.topics.get_by_id(topic.topic_id)
    with pytest.raises(UnknownTopic):
        await harness.engine.topics.delete("t")
    await harness.reopen()
    assert harness.engine.topics.all() == []


async def test_the_lost_answer_of_the_tombstones_put_does_not_matter(
    harness: EngineHarness,
) -> None:
    await harness.engine.topics.create("t", 1, {})
    harness.plan.add(Rule(Fault.FAIL_AFTER, "put_new", "*/descriptor-*", times=1))
    await harness.engine.topics.delete("t")
    assert [row.deleted for row in await descriptors(harness)] == [False, True]


async def test_a_deletion_cut_short_after_the_tombstone_is_finished_by_trying_again(
    harness: EngineHarness,
) -> None:
    await harness.engine.topics.create("t", 1, {})
    harness.metadata.refuse_commits = 1
    with pytest.raises(MetadataUnavailable):
        await harness.engine.topics.delete("t")
    await harness.reopen()
    await harness.engine.topics.delete("t")
    assert [row.deleted for row in await descriptors(harness)] == [False, True]
    assert harness.engine.topics.all() == []


async def test_a_deletion_that_comes_late_does_not_end_the_next_topic_of_that_name(
    harness: EngineHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    await harness.engine.topics.create("t", 1, {})
    arrived, may_go_on, honest = asyncio.Event(), asyncio.Event(), Descriptors.newest

    async def slow(self: Descriptors, name: str) -> tuple[int, TopicDescriptor | None]:
        arrived.set()
        await may_go_on.wait()
        return await honest(self, name)

    with monkeypatch.context() as patching:
        patching.setattr(Descriptors, "newest", slow)
        late = asyncio.ensure_future(harness.engine.topics.delete("t"))
        await arrived.wait()
    await harness.engine.topics.delete("t")
    again = await harness.engine.topics.create("t", 1, {})
    may_go_on.set()
    await late
    assert harness.engine.topics.find("t") is again
    await harness.reopen()
    assert harness.engine.topics.get("t").topic_id == again.topic_id


async def test_each_incarnation_has_its_own_folder_and_number(harness: EngineHarness) -> None:
    folders = []
    for number in range(1, 4):
        topic = await harness.engine.topics.create("t", 1, {})
        assert topic.descriptor.incarnation == number
        folders.append(topic.descriptor.folder)
        await harness.append("t", b"%d" % number)
        await harness.engine.topics.delete("t")
    assert folders[0] == "default/t"
    assert len(set(folders)) == 3


async def test_a_log_that_was_being_opened_when_its_topic_went_is_not_kept(
    harness: EngineHarness,
) -> None:
    topic = await harness.engine.topics.create("t", 1, {})
    stall = harness.plan.add(Rule(Fault.STALL_BEFORE, "find", "default/t/0"))
    opening = asyncio.ensure_future(harness.parts.logs.open(topic, 0))
    await stall.reached.wait()
    await harness.engine.topics.delete("t")
    stall.release()
    with pytest.raises(UnknownTopic):
        await opening
    assert list(harness.parts.logs.each()) == []


# -- removing objects ------------------------------------------------------------------------


async def objects_of_logs(harness: EngineHarness) -> list[str]:
    others = ("/descriptor-", "/@checkpoints/")
    return [key for key in await harness.keys() if not any(word in key for word in others)]


async def removals(harness: EngineHarness) -> int:
    return len(await harness.metadata.find(metadata_keys.REMOVALS))


async def test_the_objects_of_a_deleted_topic_go(harness: EngineHarness) -> None:
    await harness.engine.topics.create("t", 2, {})
    await harness.engine.topics.create("other", 1, {})
    await harness.append("t", b"a")
    await harness.append("t", b"b", partition=1)
    await harness.append("other", b"kept")
    await harness.engine.topics.delete("t")
    await harness.parts.removals.remove_deleted_topics()
    assert await objects_of_logs(harness) == ["default/other/0/segment-00000000000000000000.kfs"]


async def test_an_object_that_comes_late_goes_too(harness: EngineHarness) -> None:
    await harness.engine.topics.create("t", 1, {})
    await harness.engine.topics.delete("t")
    await harness.parts.removals.remove_deleted_topics()
    late = "default/t/0/segment-00000000000000000000.kfs"
    await harness.objects.put_new(late, [b"a PUT that was on its way for minutes"])
    harness.clock.advance_ms(599_000)
    await harness.parts.removals.remove_deleted_topics()
    assert await objects_of_logs(harness) == []
    assert await removals(harness) == 1, "still on the watch"
    harness.clock.advance_ms(2_000)
    await harness.parts.removals.remove_deleted_topics()
    assert await removals(harness) == 0, "the grace period is over"


async def test_removals_that_wait_are_taken_up_after_a_restart(harness: EngineHarness) -> None:
    await harness.engine.topics.create("t", 1, {})
    await harness.append("t", b"a")
    rule = harness.plan.add(Rule(Fault.FAIL_BEFORE, "delete"))
    await harness.engine.topics.delete("t")
    async with asyncio.timeout(20):
        await rule.reached.wait()
    assert len(await objects_of_logs(harness)) == 1
    harness.plan.clear()
    await harness.reopen()
    async with asyncio.timeout(20):
        while await objects_of_logs(harness):
            await asyncio.sleep(0.01)


async def test_a_new_topic_of_the_same_name_is_not_touched_by_the_removal(
    harness: EngineHarness,
) -> None:
    await harness.engine.topics.create("t", 1, {})
    await harness.append("t", b"old")
    await harness.engine.topics.delete("t")
    await harness.engine.topics.create("t", 1, {})
    await harness.append("t", b"new")
    await harness.parts.removals.remove_deleted_topics()
    assert values_of(await harness.read("t")) == [b"new"]
    assert all("/t@" in key for key in await objects_of_logs(harness))
