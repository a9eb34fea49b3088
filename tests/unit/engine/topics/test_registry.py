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
from tests.unit.engine.engine_harness import Shop, values_of


async def descriptors(shop: Shop, topic: str = "t") -> list[TopicDescriptor]:
    """What the bucket says about a topic, oldest first."""
    found = [key for key in await shop.keys() if f"/{topic}/descriptor-" in key]
    return [TopicDescriptor.decode(await shop.objects.read(key)) for key in found]


# -- creating --------------------------------------------------------------------------------


async def test_a_topic_is_in_the_bucket_before_the_metadata_knows_it(shop: Shop) -> None:
    shop.metadata.refuse_commits = 1
    with pytest.raises(MetadataUnavailable):
        await shop.engine.create_topic("t", 3, {})
    assert shop.engine.topics.find("t") is None
    (found,) = await descriptors(shop)
    assert (found.name, found.partitions, found.deleted) == ("t", 3, False)


async def test_a_creation_cut_short_is_taken_up_with_the_same_id(shop: Shop) -> None:
    shop.metadata.refuse_commits = 1
    with pytest.raises(MetadataUnavailable):
        await shop.engine.create_topic("t", 3, {"retention.ms": "5"})
    (unfinished,) = await descriptors(shop)
    await shop.reopen()
    topic = await shop.engine.create_topic("t", 3, {"retention.ms": "5"})
    assert topic.descriptor.topic_id == unfinished.topic_id
    assert len(await descriptors(shop)) == 1


@pytest.mark.parametrize(
    ("partitions", "configs"), [(4, {"retention.ms": "5"}), (3, {}), (3, {"retention.ms": "6"})]
)
async def test_a_creation_cut_short_is_not_passed_off_as_another_wish(
    shop: Shop, partitions: int, configs: dict[str, str | None]
) -> None:
    shop.metadata.refuse_commits = 1
    with pytest.raises(MetadataUnavailable):
        await shop.engine.create_topic("t", 3, {"retention.ms": "5"})
    with pytest.raises(TopicExists):
        await shop.engine.create_topic("t", partitions, configs)
    topic = shop.engine.topics.get("t")
    assert (topic.partitions, topic.settings.retention_ms) == (3, 5), "it exists as first wished"


async def test_the_lost_answer_of_the_descriptors_put_does_not_matter(shop: Shop) -> None:
    shop.plan.add(Rule(Fault.FAIL_AFTER, "put_new", "*/descriptor-*", times=1))
    topic = await shop.engine.create_topic("t", 1, {})
    (found,) = await descriptors(shop)
    assert found.topic_id == topic.descriptor.topic_id


async def test_the_lost_answer_of_the_metadata_is_made_good_by_trying_again(shop: Shop) -> None:
    shop.metadata.lose_answers = 1
    with pytest.raises(MetadataUnavailable):
        await shop.engine.create_topic("t", 1, {})
    topic = await shop.engine.create_topic("t", 1, {})
    assert shop.engine.topics.get("t") is topic
    assert len(await descriptors(shop)) == 1


async def test_a_store_that_refuses_creates_nothing(shop: Shop) -> None:
    shop.plan.add(Rule(Fault.FAIL_BEFORE, "find", error=StoreRefused))
    with pytest.raises(StoreRefused):
        await shop.engine.create_topic("t", 1, {})
    shop.plan.clear()
    assert (await shop.engine.create_topic("t", 1, {})).name == "t"


async def test_two_who_create_at_once_get_one_topic_and_one_refusal(shop: Shop) -> None:
    results = await asyncio.gather(
        *(shop.engine.create_topic("t", 1, {}) for _ in range(3)), return_exceptions=True
    )
    assert sorted(type(result).__name__ for result in results) == [
        "Topic",
        "TopicExists",
        "TopicExists",
    ]
    assert len(await descriptors(shop)) == 1


async def test_nobody_is_told_that_a_topic_exists_whose_creation_fails(shop: Shop) -> None:
    shop.plan.add(Rule(Fault.FAIL_BEFORE, "find", error=StoreRefused))
    results = await asyncio.gather(
        *(shop.engine.create_topic("t", 1, {}) for _ in range(2)), return_exceptions=True
    )
    assert [type(result) for result in results] == [StoreRefused, StoreRefused]


async def test_those_who_need_a_topic_at_once_share_one_creation(shop: Shop) -> None:
    found = await asyncio.gather(*(shop.engine.find_or_create("t") for _ in range(5)))
    assert {topic.topic_id for topic in found} == {shop.engine.topics.get("t").topic_id}
    assert len(await descriptors(shop)) == 1


async def test_names_that_metrics_cannot_tell_apart_collide(shop: Shop) -> None:
    await shop.engine.create_topic("a.b", 1, {})
    with pytest.raises(InvalidTopicName):
        await shop.engine.create_topic("a_b", 1, {})


async def test_topics_are_there_after_a_restart(shop: Shop) -> None:
    made = await shop.engine.create_topic("t", 2, {"retention.ms": "77"})
    await shop.append("t", b"kept", partition=1)
    await shop.reopen()
    topic = shop.engine.topics.get("t")
    assert (topic.topic_id, topic.partitions) == (made.topic_id, 2)
    assert topic.settings.retention_ms == 77
    assert shop.engine.topics.get_by_id(made.topic_id) is topic
    assert values_of(await shop.read("t", partition=1)) == [b"kept"]


# -- deleting --------------------------------------------------------------------------------


async def test_a_deleted_topic_leaves_a_tombstone_and_no_way_to_find_it(shop: Shop) -> None:
    topic = await shop.engine.create_topic("t", 1, {})
    await shop.engine.delete_topic("t")
    assert [row.deleted for row in await descriptors(shop)] == [False, True]
    with pytest.raises(UnknownTopic):
        shop.engine.topics.get("t")
    with pytest.raises(UnknownTopicId):
        shop.engine.topics.get_by_id(topic.topic_id)
    with pytest.raises(UnknownTopic):
        await shop.engine.delete_topic("t")
    await shop.reopen()
    assert shop.engine.topics.all() == []


async def test_the_lost_answer_of_the_tombstones_put_does_not_matter(shop: Shop) -> None:
    await shop.engine.create_topic("t", 1, {})
    shop.plan.add(Rule(Fault.FAIL_AFTER, "put_new", "*/descriptor-*", times=1))
    await shop.engine.delete_topic("t")
    assert [row.deleted for row in await descriptors(shop)] == [False, True]


async def test_a_deletion_cut_short_after_the_tombstone_is_finished_by_trying_again(
    shop: Shop,
) -> None:
    await shop.engine.create_topic("t", 1, {})
    shop.metadata.refuse_commits = 1
    with pytest.raises(MetadataUnavailable):
        await shop.engine.delete_topic("t")
    await shop.reopen()
    await shop.engine.delete_topic("t")
    assert [row.deleted for row in await descriptors(shop)] == [False, True]
    assert shop.engine.topics.all() == []


async def test_a_deletion_that_comes_late_does_not_end_the_next_topic_of_that_name(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    await shop.engine.create_topic("t", 1, {})
    arrived, may_go_on, honest = asyncio.Event(), asyncio.Event(), Descriptors.newest

    async def slow(self: Descriptors, name: str) -> tuple[int, TopicDescriptor | None]:
        arrived.set()
        await may_go_on.wait()
        return await honest(self, name)

    with monkeypatch.context() as patching:
        patching.setattr(Descriptors, "newest", slow)
        late = asyncio.ensure_future(shop.engine.delete_topic("t"))
        await arrived.wait()
    await shop.engine.delete_topic("t")
    again = await shop.engine.create_topic("t", 1, {})
    may_go_on.set()
    await late
    assert shop.engine.topics.find("t") is again
    await shop.reopen()
    assert shop.engine.topics.get("t").topic_id == again.topic_id


async def test_each_incarnation_has_its_own_folder_and_number(shop: Shop) -> None:
    folders = []
    for number in range(1, 4):
        topic = await shop.engine.create_topic("t", 1, {})
        assert topic.descriptor.incarnation == number
        folders.append(topic.descriptor.folder)
        await shop.append("t", b"%d" % number)
        await shop.engine.delete_topic("t")
    assert folders[0] == "default/t"
    assert len(set(folders)) == 3


async def test_a_log_that_was_being_opened_when_its_topic_went_is_not_kept(shop: Shop) -> None:
    topic = await shop.engine.create_topic("t", 1, {})
    stall = shop.plan.add(Rule(Fault.STALL_BEFORE, "find", "default/t/0"))
    opening = asyncio.ensure_future(shop.engine.logs.open(topic, 0))
    await stall.reached.wait()
    await shop.engine.delete_topic("t")
    stall.release()
    with pytest.raises(UnknownTopic):
        await opening
    assert list(shop.engine.logs.each()) == []


# -- removing objects ------------------------------------------------------------------------


async def objects_of_logs(shop: Shop) -> list[str]:
    others = ("/descriptor-", "/@checkpoints/")
    return [key for key in await shop.keys() if not any(word in key for word in others)]


async def removals(shop: Shop) -> int:
    return len(await shop.metadata.find(metadata_keys.REMOVALS))


async def test_the_objects_of_a_deleted_topic_go(shop: Shop) -> None:
    await shop.engine.create_topic("t", 2, {})
    await shop.engine.create_topic("other", 1, {})
    await shop.append("t", b"a")
    await shop.append("t", b"b", partition=1)
    await shop.append("other", b"kept")
    await shop.engine.delete_topic("t")
    await shop.engine.housekeeping.remove_deleted_topics()
    assert await objects_of_logs(shop) == ["default/other/0/segment-00000000000000000000.kfs"]


async def test_an_object_that_comes_late_goes_too(shop: Shop) -> None:
    await shop.engine.create_topic("t", 1, {})
    await shop.engine.delete_topic("t")
    await shop.engine.housekeeping.remove_deleted_topics()
    late = "default/t/0/segment-00000000000000000000.kfs"
    await shop.objects.put_new(late, [b"a PUT that was on its way for minutes"])
    shop.clock.advance_ms(599_000)
    await shop.engine.housekeeping.remove_deleted_topics()
    assert await objects_of_logs(shop) == []
    assert await removals(shop) == 1, "still on the watch"
    shop.clock.advance_ms(2_000)
    await shop.engine.housekeeping.remove_deleted_topics()
    assert await removals(shop) == 0, "the grace period is over"


async def test_removals_that_wait_are_taken_up_after_a_restart(shop: Shop) -> None:
    await shop.engine.create_topic("t", 1, {})
    await shop.append("t", b"a")
    rule = shop.plan.add(Rule(Fault.FAIL_BEFORE, "delete"))
    await shop.engine.delete_topic("t")
    async with asyncio.timeout(20):
        await rule.reached.wait()
    assert len(await objects_of_logs(shop)) == 1
    shop.plan.clear()
    await shop.reopen()
    async with asyncio.timeout(20):
        while await objects_of_logs(shop):
            await asyncio.sleep(0.01)


async def test_a_new_topic_of_the_same_name_is_not_touched_by_the_removal(shop: Shop) -> None:
    await shop.engine.create_topic("t", 1, {})
    await shop.append("t", b"old")
    await shop.engine.delete_topic("t")
    await shop.engine.create_topic("t", 1, {})
    await shop.append("t", b"new")
    await shop.engine.housekeeping.remove_deleted_topics()
    assert values_of(await shop.read("t")) == [b"new"]
    assert all("/t@" in key for key in await objects_of_logs(shop))
