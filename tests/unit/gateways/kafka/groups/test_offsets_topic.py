"""Committed offsets as records of `__consumer_offsets`, and as the door writes them there."""

import asyncio

import pytest
from msgspec.structs import replace

from kafscale.engine.coordinator.offsets import OffsetCommit, OffsetNews
from kafscale.gateways.kafka.groups.offsets_topic import offset_key, offset_value
from kafscale.metadata.keys import CommittedOffset
from kafscale.model.names import CONSUMER_OFFSETS
from kafscale.settings.sections import ConsumerSection
from kafscale.testing.in_process import FOR_TESTS, InProcessBroker

COMMITTED = CommittedOffset(
    offset=7, metadata="m", committed_at="2026-11-17T00:00:00+00:00", leader_epoch=3
)
NEWS = OffsetNews("g", "orders", 2, COMMITTED)


def test_a_record_has_kafkas_format() -> None:
    assert offset_key(NEWS) == bytes.fromhex("0001 0001 67 0006 6f7264657273 00000002")
    value = offset_value(NEWS)
    assert value is not None
    assert value[:17] == bytes.fromhex("0003 0000000000000007 00000003 0001 6d")
    assert int.from_bytes(value[17:], "big") == 1_794_873_600_000
    assert offset_value(NEWS._replace(committed=None)) is None


@pytest.mark.real_time
async def test_every_commit_is_in_the_topic_but_not_those_about_it() -> None:
    wanted = replace(FOR_TESTS, consumer=ConsumerSection(offsets_topic=True))
    async with InProcessBroker(config=wanted) as broker:
        engine = broker.engine
        await engine.topics.create("orders", 1, {})
        while (topic := engine.topics.find(CONSUMER_OFFSETS)) is None:
            await asyncio.sleep(0.01)
        for group_id, name in (("a", "orders"), ("b", CONSUMER_OFFSETS), ("c", "orders")):
            await engine.offsets.commit_from_outside(group_id, OffsetCommit(name, 0, 1))
        while (await engine.partitions.bounds(topic, 0, -1)).end < 2:
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.1)
        assert (await engine.partitions.bounds(topic, 0, -1)).end == 2
