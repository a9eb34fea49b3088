"""Virtual topics: their partitions are lanes of few logs, and clients see no difference."""

import pytest

from kafscale.log.formats.index import RANGE
from kafscale.model.errors import (
    InvalidPartitionCount,
    InvalidTopicConfig,
    OffsetRangeExhausted,
    UnknownTopic,
)
from tests.unit.engine.engine_harness import EngineHarness, values_of
from tests.unit.engine.topics.test_changes import adding

ON_TWO = {"physical.partitions": "2"}


async def test_partitions_lie_on_few_logs_with_offsets_of_their_own(harness: EngineHarness) -> None:
    topic = await harness.engine.topics.create("t", 5, ON_TWO)
    lanes = [(0, 0), (1, 0), (0, 1), (1, 1), (0, 2)]
    assert [topic.place(p) for p in range(5)] == [(f"default/t/{log}", lane) for log, lane in lanes]
    for partition in range(5):
        for turn in range(2):
            await harness.append("t", b"%d-%d" % (partition, turn), partition=partition)
    await harness.reopen()
    for partition in range(5):
        found = await harness.read("t", partition=partition)
        assert values_of(found) == [b"%d-0" % partition, b"%d-1" % partition]
        assert (found.start, found.high) == (0, 2)
    with pytest.raises(UnknownTopic):
        topic.place(5)


async def test_more_partitions_are_more_lanes_of_the_same_logs(harness: EngineHarness) -> None:
    topic = await harness.engine.topics.create("t", 2, ON_TWO)
    await harness.append("t", b"old")
    await harness.engine.topics.create_partitions("t", 7)
    assert (topic.partitions, topic.place(6)) == (7, ("default/t/0", 3))
    await harness.append("t", b"new", partition=6)
    await harness.reopen()
    assert harness.engine.topics.get("t").descriptor.logs == 2
    assert values_of(await harness.read("t", partition=6)) == [b"new"]
    assert values_of(await harness.read("t")) == [b"old"]


async def test_what_a_topic_is_made_of_stays(harness: EngineHarness) -> None:
    topic = await harness.engine.topics.create("t", 4, ON_TWO)
    admin = harness.engine.topics
    with pytest.raises(InvalidTopicConfig, match=r"offset\.range"):
        await admin.change_configs("t", adding("offset.range", "2000000"))
    await admin.change_configs("t", adding("retention.ms", "5"))
    assert topic.descriptor.configs["physical.partitions"] == "2"
    assert topic.settings.retention_ms == 5
    ordinary = await harness.engine.topics.create("u", 4, {})
    with pytest.raises(InvalidTopicConfig):
        await admin.change_configs("u", adding("physical.partitions", "5"))
    assert ordinary.descriptor.logs == 4
    # Tools send back everything they were shown.
    await admin.change_configs("u", adding("physical.partitions", "-1"))
    await admin.change_configs("t", adding("physical.partitions", "2"))
    assert "physical.partitions" not in ordinary.descriptor.configs


@pytest.mark.parametrize(
    ("partitions", "configs", "refusal"),
    [
        (2, {"physical.partitions": "3"}, InvalidTopicConfig),
        (2, {"physical.partitions": "0"}, InvalidTopicConfig),
        (2, {"offset.range": "1000"}, InvalidTopicConfig),
        (2, {"offset.range": str(RANGE + 1)}, InvalidTopicConfig),
        (100_001, ON_TWO, InvalidPartitionCount),
        (1025, {}, InvalidPartitionCount),
    ],
)
async def test_numbers_that_cannot_be_are_refused(
    harness: EngineHarness, partitions: int, configs: dict[str, str], refusal: type[Exception]
) -> None:
    with pytest.raises(refusal):
        await harness.engine.topics.create("t", partitions, configs)


async def test_a_virtual_topic_may_have_more_partitions_than_logs_are_allowed(
    harness: EngineHarness,
) -> None:
    topic = await harness.engine.topics.create("t", 5000, ON_TWO)
    await harness.append("t", b"far", partition=4999)
    assert values_of(await harness.read("t", partition=4999)) == [b"far"]
    assert topic.place(4999) == ("default/t/1", 2499)


async def test_offsets_that_are_used_up_are_refused_and_counted(harness: EngineHarness) -> None:
    small = 1 << 20
    topic = await harness.engine.topics.create("t", 2, {**ON_TWO, "offset.range": str(small)})
    _, lane = await harness.parts.logs.open(topic, 0)
    lane.end = lane.high = small - 1
    await harness.append("t", b"last")
    with pytest.raises(OffsetRangeExhausted):
        await harness.append("t", b"one too many")
    await harness.append("t", b"a neighbour", partition=1)
    used_up = harness.engine.metrics.offset_range_exhausted.labels("t")
    assert used_up.value == 1
    assert lane.rules.offset_range == small


async def test_retention_goes_by_lane(harness: EngineHarness) -> None:
    await harness.engine.topics.create(
        "t", 3, {"physical.partitions": "1", "retention.bytes": "100"}
    )
    for turn in range(5):
        await harness.append("t", b"x" * 60, partition=0)
        if turn == 0:
            await harness.append("t", b"small", partition=1)
    await harness.parts.log_upkeep.tidy()
    assert (await harness.read("t", 5)).start > 0, "too much, so the oldest went"
    assert values_of(await harness.read("t", partition=1)) == [b"small"]
