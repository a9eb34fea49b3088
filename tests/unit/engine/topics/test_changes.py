"""Changes of topics: they take effect at once, survive a restart, and cannot be half made."""

import asyncio
from collections.abc import Mapping

import pytest

from kafscale.engine.topics.changes import ConfigChange
from kafscale.metadata import keys as metadata_keys
from kafscale.model.errors import (
    InvalidTopicConfig,
    MetadataUnavailable,
    StoreRefused,
    UnknownTopic,
)
from kafscale.records.batch import read_header
from kafscale.testing.faulty_store import Fault, Rule
from tests.unit.engine.engine_harness import EngineHarness, values_of
from tests.unit.engine.topics.test_registry import descriptors
from tests.unit.gateways.kafka.caller import make_batch


def adding(name: str, value: str) -> ConfigChange:
    def change(old: Mapping[str, str]) -> Mapping[str, str | None]:
        return {**old, name: value}

    return change


async def test_a_change_is_a_new_descriptor_and_survives_a_restart(harness: EngineHarness) -> None:
    topic = await harness.engine.topics.create("t", 1, {"segment.bytes": "1000"})
    await harness.engine.topics.change_configs("t", adding("retention.ms", "5"))
    assert topic.settings.retention_ms == 5, "code that holds the topic sees it"
    first, second = await descriptors(harness)
    assert first.configs == {"segment.bytes": "1000"}
    assert second.configs == {"segment.bytes": "1000", "retention.ms": "5"}
    await harness.reopen()
    again = harness.engine.topics.get("t")
    assert (again.settings.retention_ms, again.settings.segment_bytes) == (5, 1000)


async def test_open_logs_go_by_the_new_settings(harness: EngineHarness) -> None:
    topic = await harness.engine.topics.create("t", 1, {})
    await harness.append("t", b"a")
    log, lane = await harness.parts.logs.open(topic, 0)
    await harness.engine.topics.change_configs("t", adding("segment.bytes", "777"))
    await harness.engine.topics.change_configs("t", adding("kafscale.fetch.buffered", "true"))
    await harness.parts.logs.open(topic, 0)
    assert (log.settings.segment_bytes, lane.rules.fetch_buffered) == (777, True)


async def test_retention_goes_by_the_new_settings(harness: EngineHarness) -> None:
    await harness.engine.topics.create("t", 1, {})
    await harness.append("t", b"a")
    harness.clock.advance_ms(60_000)
    await harness.parts.log_upkeep.tidy()
    assert values_of(await harness.read("t")) == [b"a"]
    await harness.engine.topics.change_configs("t", adding("retention.ms", "1000"))
    await harness.parts.log_upkeep.tidy()
    assert (await harness.read("t", 1)).start == 1


async def test_a_crash_before_the_metadata_store_knew_is_made_good_at_the_next_start(
    harness: EngineHarness,
) -> None:
    await harness.engine.topics.create("t", 1, {})
    harness.metadata.refuse_after(1)  # the note is written, the rest is not
    with pytest.raises(MetadataUnavailable):
        await harness.engine.topics.change_configs("t", adding("retention.ms", "5"))
    assert len(await descriptors(harness)) == 2
    await harness.reopen()
    assert harness.engine.topics.get("t").settings.retention_ms == 5
    assert await harness.metadata.find(metadata_keys.CHANGES) == [], "no start looks again"


async def test_a_crash_before_the_descriptor_changes_nothing(harness: EngineHarness) -> None:
    await harness.engine.topics.create("t", 1, {})
    harness.plan.add(Rule(Fault.FAIL_BEFORE, "find", error=StoreRefused))
    with pytest.raises(StoreRefused):
        await harness.engine.topics.change_configs("t", adding("retention.ms", "5"))
    assert harness.engine.topics.get("t").descriptor.configs == {}
    harness.plan.clear()
    await harness.reopen()
    assert harness.engine.topics.get("t").descriptor.configs == {}
    assert await harness.metadata.find(metadata_keys.CHANGES) == []


async def test_an_entry_that_the_watch_tells_of_late_does_not_take_a_change_back(
    harness: EngineHarness,
) -> None:
    topic = await harness.engine.topics.create("t", 1, {})
    before = await harness.metadata.get(metadata_keys.topic_config("t"))
    assert before is not None
    harness.metadata.refuse_after(1)  # the note is written, the topic's entry is not
    with pytest.raises(MetadataUnavailable):
        await harness.engine.topics.create_partitions("t", 3)
    assert topic.partitions == 3, "the bucket has it, so this broker goes by it"
    registry = harness.engine.topics._registry
    # Another broker has written the entry once more, as it was before the change.
    registry.apply_entry(before._replace(version=before.version + 100))
    assert topic.partitions == 3
    assert registry.version_of("t") == before.version + 100, "commits of offsets compare it"


async def test_partitions_cut_short_are_there_after_the_next_start(harness: EngineHarness) -> None:
    await harness.engine.topics.create("t", 1, {})
    harness.metadata.refuse_after(1)
    with pytest.raises(MetadataUnavailable):
        await harness.engine.topics.create_partitions("t", 3)
    await harness.reopen()
    assert harness.engine.topics.get("t").partitions == 3
    await harness.append("t", b"a", partition=2)
    assert values_of(await harness.read("t", partition=2)) == [b"a"]


async def test_a_start_without_the_bucket_goes_on_with_what_is_known(
    harness: EngineHarness,
) -> None:
    await harness.engine.topics.create("t", 1, {})
    harness.metadata.refuse_after(1)
    with pytest.raises(MetadataUnavailable):
        await harness.engine.topics.change_configs("t", adding("retention.ms", "5"))
    harness.plan.add(Rule(Fault.FAIL_BEFORE, "find", "*", error=StoreRefused))
    await harness.reopen()
    assert harness.engine.topics.get("t").descriptor.configs == {}
    harness.plan.clear()
    await harness.reopen()
    assert harness.engine.topics.get("t").descriptor.configs == {"retention.ms": "5"}


async def test_a_broker_starts_despite_a_descriptor_that_cannot_be_read(
    harness: EngineHarness,
) -> None:
    await harness.engine.topics.create("t", 1, {})
    harness.metadata.refuse_after(1)
    with pytest.raises(MetadataUnavailable):
        await harness.engine.topics.change_configs("t", adding("retention.ms", "5"))
    await harness.objects.put_new(f"default/t/descriptor-{3:020d}", [b"{"])
    await harness.reopen()
    assert harness.engine.topics.get("t").descriptor.configs == {}


async def test_changes_at_once_are_all_kept(harness: EngineHarness) -> None:
    await harness.engine.topics.create("t", 1, {})
    names = ["retention.ms", "retention.bytes", "segment.bytes", "max.message.bytes"]
    change = harness.engine.topics.change_configs
    await asyncio.gather(*(change("t", adding(name, "5000")) for name in names))
    await harness.reopen()
    assert harness.engine.topics.get("t").descriptor.configs == dict.fromkeys(names, "5000")


async def test_another_brokers_change_in_between_is_built_upon(harness: EngineHarness) -> None:
    topic = await harness.engine.topics.create("t", 1, {})
    theirs = (await descriptors(harness))[0].encode().replace(b'"configs": {}', OTHERS)
    await harness.objects.put_new(f"default/t/descriptor-{2:020d}", [theirs])
    await harness.engine.topics.change_configs("t", adding("retention.ms", "5"))
    assert topic.descriptor.configs == {"segment.bytes": "1000", "retention.ms": "5"}
    assert len(await descriptors(harness)) == 3


OTHERS = b'"configs": {"segment.bytes": "1000"}'


async def test_a_deleted_topic_is_not_brought_back_by_a_change(harness: EngineHarness) -> None:
    await harness.engine.topics.create("t", 1, {})
    changing = asyncio.ensure_future(
        harness.engine.topics.change_configs("t", adding("retention.ms", "5"))
    )
    await harness.engine.topics.delete("t")
    await asyncio.gather(changing, return_exceptions=True)
    with pytest.raises(UnknownTopic):
        await harness.engine.topics.change_configs("t", adding("retention.ms", "5"))
    await harness.reopen()
    assert harness.engine.topics.find("t") is None


async def test_nothing_is_written_for_a_wish_that_cannot_be(harness: EngineHarness) -> None:
    await harness.engine.topics.create("t", 1, {})
    with pytest.raises(InvalidTopicConfig):
        await harness.engine.topics.change_configs("t", adding("retention.ms", "soon"))
    assert len(await descriptors(harness)) == 1
    assert await harness.metadata.find(metadata_keys.CHANGES) == []


async def test_deleted_records_free_their_objects(harness: EngineHarness) -> None:
    topic = await harness.engine.topics.create("t", 1, {})
    for at in range(3):
        await harness.append("t", b"%d" % at)
    assert await harness.engine.partitions.delete_records(topic, 0, -1) == 3
    for _ in range(4):
        harness.clock.advance_ms(601_000)
        await harness.parts.log_upkeep.tidy()
    assert [key for key in await harness.keys("default/t/0") if "/segment-" in key] == []
    assert await harness.append("t", b"more") == 3


async def test_deleting_while_others_append_loses_nothing(harness: EngineHarness) -> None:
    topic = await harness.engine.topics.create("t", 1, {})
    await harness.append("t", b"old")

    async def append() -> None:
        for at in range(20):
            await harness.append("t", b"%d" % at)

    appending = asyncio.ensure_future(append())
    for _ in range(5):
        await asyncio.sleep(0)
        await harness.engine.partitions.delete_records(topic, 0, 1)
    await appending
    assert len(values_of(await harness.read("t", 1))) == 20
    await harness.reopen()
    assert (await harness.read("t", 1)).start == 1


async def test_the_newest_epoch_that_wrote_has_an_end_though_we_are_an_older_one(
    harness: EngineHarness,
) -> None:
    """A consumer that has read its records would else take them for lost and begin anew."""
    topic = await harness.engine.topics.create("t", 1, {})
    await harness.append("t", b"a")
    log, _ = await harness.parts.logs.open(topic, 0)
    newer = harness.parts.logs._make(topic, topic.folder(0))
    newer.epoch = log.epoch + 5
    await newer.open()
    batch = memoryview(bytearray(make_batch(b"b")))
    committed = newer.append(0, read_header(batch), batch, acknowledged=False).committed
    assert committed is not None
    assert await committed is None
    await newer.abandon()
    await log.reopen("a test says so")
    await harness.append("t", b"c")
    epoch_end = harness.engine.partitions.epoch_end
    assert await epoch_end(topic, 0, newer.epoch, log.epoch) == (newer.epoch, 3)
    assert await epoch_end(topic, 0, log.epoch, log.epoch) == (log.epoch, 1)
    assert await epoch_end(topic, 0, newer.epoch + 1, log.epoch) == (-1, -1)
