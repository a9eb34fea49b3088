"""Changes of topics: they take effect at once, survive a restart, and cannot be half made."""

import asyncio
from collections.abc import Mapping

import pytest

from kafscale.engine.administration import ConfigChange
from kafscale.metadata import keys as metadata_keys
from kafscale.model.errors import (
    InvalidTopicConfig,
    MetadataUnavailable,
    StoreRefused,
    UnknownTopic,
)
from kafscale.records.batch import read_header
from kafscale.testing.faulty_store import Fault, Rule
from tests.unit.engine.engine_harness import Shop, values_of
from tests.unit.engine.topics.test_registry import descriptors
from tests.unit.gateways.kafka.caller import make_batch


def adding(name: str, value: str) -> ConfigChange:
    def change(old: Mapping[str, str]) -> Mapping[str, str | None]:
        return {**old, name: value}

    return change


async def test_a_change_is_a_new_descriptor_and_survives_a_restart(shop: Shop) -> None:
    topic = await shop.engine.create_topic("t", 1, {"segment.bytes": "1000"})
    await shop.engine.admin.change_configs("t", adding("retention.ms", "5"))
    assert topic.settings.retention_ms == 5, "whoever holds the topic sees it"
    first, second = await descriptors(shop)
    assert first.configs == {"segment.bytes": "1000"}
    assert second.configs == {"segment.bytes": "1000", "retention.ms": "5"}
    await shop.reopen()
    again = shop.engine.topics.get("t")
    assert (again.settings.retention_ms, again.settings.segment_bytes) == (5, 1000)


async def test_open_logs_go_by_the_new_settings(shop: Shop) -> None:
    topic = await shop.engine.create_topic("t", 1, {})
    await shop.append("t", b"a")
    log, lane = await shop.engine.logs.open(topic, 0)
    await shop.engine.admin.change_configs("t", adding("segment.bytes", "777"))
    await shop.engine.admin.change_configs("t", adding("kafscale.fetch.buffered", "true"))
    await shop.engine.logs.open(topic, 0)
    assert (log.settings.segment_bytes, lane.rules.wake_on_append) == (777, True)


async def test_retention_goes_by_the_new_settings(shop: Shop) -> None:
    await shop.engine.create_topic("t", 1, {})
    await shop.append("t", b"a")
    shop.clock.advance_ms(60_000)
    await shop.engine.housekeeping.tidy()
    assert values_of(await shop.read("t")) == [b"a"]
    await shop.engine.admin.change_configs("t", adding("retention.ms", "1000"))
    await shop.engine.housekeeping.tidy()
    assert (await shop.read("t", 1)).start == 1


async def test_a_crash_before_the_metadata_store_knew_is_made_good_at_the_next_start(
    shop: Shop,
) -> None:
    await shop.engine.create_topic("t", 1, {})
    shop.metadata.refuse_after(1)  # the note is written, the rest is not
    with pytest.raises(MetadataUnavailable):
        await shop.engine.admin.change_configs("t", adding("retention.ms", "5"))
    assert len(await descriptors(shop)) == 2
    await shop.reopen()
    assert shop.engine.topics.get("t").settings.retention_ms == 5
    assert await shop.metadata.find(metadata_keys.CHANGES) == [], "no start looks again"


async def test_a_crash_before_the_descriptor_changes_nothing(shop: Shop) -> None:
    await shop.engine.create_topic("t", 1, {})
    shop.plan.add(Rule(Fault.FAIL_BEFORE, "find", error=StoreRefused))
    with pytest.raises(StoreRefused):
        await shop.engine.admin.change_configs("t", adding("retention.ms", "5"))
    assert shop.engine.topics.get("t").descriptor.configs == {}
    shop.plan.clear()
    await shop.reopen()
    assert shop.engine.topics.get("t").descriptor.configs == {}
    assert await shop.metadata.find(metadata_keys.CHANGES) == []


async def test_partitions_cut_short_are_there_after_the_next_start(shop: Shop) -> None:
    await shop.engine.create_topic("t", 1, {})
    shop.metadata.refuse_after(1)
    with pytest.raises(MetadataUnavailable):
        await shop.engine.admin.create_partitions("t", 3)
    await shop.reopen()
    assert shop.engine.topics.get("t").partitions == 3
    await shop.append("t", b"a", partition=2)
    assert values_of(await shop.read("t", partition=2)) == [b"a"]


async def test_a_start_without_the_bucket_goes_on_with_what_is_known(shop: Shop) -> None:
    await shop.engine.create_topic("t", 1, {})
    shop.metadata.refuse_after(1)
    with pytest.raises(MetadataUnavailable):
        await shop.engine.admin.change_configs("t", adding("retention.ms", "5"))
    shop.plan.add(Rule(Fault.FAIL_BEFORE, "find", "*", error=StoreRefused))
    await shop.reopen()
    assert shop.engine.topics.get("t").descriptor.configs == {}
    shop.plan.clear()
    await shop.reopen()
    assert shop.engine.topics.get("t").descriptor.configs == {"retention.ms": "5"}


async def test_a_start_with_a_descriptor_nobody_can_read_goes_on(shop: Shop) -> None:
    await shop.engine.create_topic("t", 1, {})
    shop.metadata.refuse_after(1)
    with pytest.raises(MetadataUnavailable):
        await shop.engine.admin.change_configs("t", adding("retention.ms", "5"))
    await shop.objects.put_new(f"default/t/descriptor-{3:020d}", [b"{"])
    await shop.reopen()
    assert shop.engine.topics.get("t").descriptor.configs == {}


async def test_changes_at_once_are_all_kept(shop: Shop) -> None:
    await shop.engine.create_topic("t", 1, {})
    names = ["retention.ms", "retention.bytes", "segment.bytes", "max.message.bytes"]
    change = shop.engine.admin.change_configs
    await asyncio.gather(*(change("t", adding(name, "5000")) for name in names))
    await shop.reopen()
    assert shop.engine.topics.get("t").descriptor.configs == dict.fromkeys(names, "5000")


async def test_another_brokers_change_in_between_is_built_upon(shop: Shop) -> None:
    topic = await shop.engine.create_topic("t", 1, {})
    theirs = (await descriptors(shop))[0].encode().replace(b'"configs": {}', OTHERS)
    await shop.objects.put_new(f"default/t/descriptor-{2:020d}", [theirs])
    await shop.engine.admin.change_configs("t", adding("retention.ms", "5"))
    assert topic.descriptor.configs == {"segment.bytes": "1000", "retention.ms": "5"}
    assert len(await descriptors(shop)) == 3


OTHERS = b'"configs": {"segment.bytes": "1000"}'


async def test_a_deleted_topic_is_not_brought_back_by_a_change(shop: Shop) -> None:
    await shop.engine.create_topic("t", 1, {})
    changing = asyncio.ensure_future(
        shop.engine.admin.change_configs("t", adding("retention.ms", "5"))
    )
    await shop.engine.delete_topic("t")
    await asyncio.gather(changing, return_exceptions=True)
    with pytest.raises(UnknownTopic):
        await shop.engine.admin.change_configs("t", adding("retention.ms", "5"))
    await shop.reopen()
    assert shop.engine.topics.find("t") is None


async def test_nothing_is_written_for_a_wish_that_cannot_be(shop: Shop) -> None:
    await shop.engine.create_topic("t", 1, {})
    with pytest.raises(InvalidTopicConfig):
        await shop.engine.admin.change_configs("t", adding("retention.ms", "soon"))
    assert len(await descriptors(shop)) == 1
    assert await shop.metadata.find(metadata_keys.CHANGES) == []


async def test_deleted_records_free_their_objects(shop: Shop) -> None:
    topic = await shop.engine.create_topic("t", 1, {})
    for at in range(3):
        await shop.append("t", b"%d" % at)
    assert await shop.engine.admin.delete_records(topic, 0, -1) == 3
    for _ in range(4):
        shop.clock.advance_ms(601_000)
        await shop.engine.housekeeping.tidy()
    assert [key for key in await shop.keys("default/t/0") if "/segment-" in key] == []
    assert await shop.append("t", b"more") == 3


async def test_deleting_while_others_append_loses_nothing(shop: Shop) -> None:
    topic = await shop.engine.create_topic("t", 1, {})
    await shop.append("t", b"old")

    async def append() -> None:
        for at in range(20):
            await shop.append("t", b"%d" % at)

    appending = asyncio.ensure_future(append())
    for _ in range(5):
        await asyncio.sleep(0)
        await shop.engine.admin.delete_records(topic, 0, 1)
    await appending
    assert len(values_of(await shop.read("t", 1))) == 20
    await shop.reopen()
    assert (await shop.read("t", 1)).start == 1


async def test_the_newest_epoch_that_wrote_has_an_end_though_we_are_an_older_one(
    shop: Shop,
) -> None:
    """A consumer that has read its records would else take them for lost and begin anew."""
    topic = await shop.engine.create_topic("t", 1, {})
    await shop.append("t", b"a")
    log, _ = await shop.engine.logs.open(topic, 0)
    newer = shop.engine.logs._make(topic, topic.folder(0))
    newer.epoch = log.epoch + 5
    await newer.open()
    batch = memoryview(bytearray(make_batch(b"b")))
    committed = newer.append(0, read_header(batch), batch, acknowledged=False).committed
    assert committed is not None
    assert await committed is None
    await newer.abandon()
    await log.reopen("a test says so")
    await shop.append("t", b"c")
    epoch_end = shop.engine.admin.epoch_end
    assert await epoch_end(topic, 0, newer.epoch, log.epoch) == (newer.epoch, 3)
    assert await epoch_end(topic, 0, log.epoch, log.epoch) == (log.epoch, 1)
    assert await epoch_end(topic, 0, newer.epoch + 1, log.epoch) == (-1, -1)
