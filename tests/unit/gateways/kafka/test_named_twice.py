"""A request of a few bytes must not ask for the same long answer a hundred thousand times."""

from typing import Any

import pytest

from kafscale.wire.kafka.messages.describe_groups import DescribeGroupsRequest
from kafscale.wire.kafka.messages.describe_log_dirs import (
    DescribableLogDirTopic,
    DescribeLogDirsRequest,
)
from kafscale.wire.kafka.messages.describe_producers import DescribeProducersRequest, TopicRequest
from kafscale.wire.kafka.messages.metadata import MetadataRequest, MetadataRequestTopic
from kafscale.wire.kafka.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from kafscale.wire.kafka.schema import NO_UUID
from tests.unit.gateways.kafka.caller import Caller


@pytest.mark.parametrize("version", [0, 4, 12])
async def test_a_topic_is_described_once(caller: Caller, version: int) -> None:
    await caller.create("t", 3)
    await caller.create("u")
    named = [MetadataRequestTopic(NO_UUID, name) for name in ("u", "t", "u", "t")]
    answer = await caller.ask(MetadataRequest(named), version)
    assert [(row.name, len(row.partitions)) for row in answer.topics] == [("u", 1), ("t", 3)]


async def test_a_topic_named_by_its_id_is_described_once(caller: Caller) -> None:
    created = await caller.create("t", 3)
    named = [MetadataRequestTopic(created.topic_id, None)] * 3
    (row,) = (await caller.ask(MetadataRequest(named), 12)).topics
    assert (row.name, len(row.partitions)) == ("t", 3)


async def test_a_group_is_described_once(caller: Caller) -> None:
    answer = await caller.ask(DescribeGroupsRequest(["g", "h", "g"]), 5)
    assert [row.group_id for row in answer.groups] == ["g", "h"]


async def test_the_offsets_of_a_group_are_told_once(caller: Caller) -> None:
    groups = [OffsetFetchRequestGroup(name, topics=None) for name in ("g", "h", "g")]
    answer = await caller.ask(OffsetFetchRequest(groups=groups), 8)
    assert [row.group_id for row in answer.groups] == ["g", "h"]


def _numbers(rows: list[Any]) -> dict[str, list[int]]:
    return {row.name: [one.partition_index for one in row.partitions] for row in rows}


async def test_the_producers_of_a_partition_are_told_once(caller: Caller) -> None:
    await caller.create("t", 2)
    named = [TopicRequest("t", [1, 1]), TopicRequest("t", [0, 1])]
    topics = (await caller.ask(DescribeProducersRequest(named), 0)).topics
    assert (len(topics), _numbers(topics)) == (1, {"t": [1, 0]})


async def test_the_size_of_a_partition_is_told_once(caller: Caller) -> None:
    await caller.create("t", 2)
    named = [DescribableLogDirTopic("t", [1, 1]), DescribableLogDirTopic("t", [0, 1])]
    (directory,) = (await caller.ask(DescribeLogDirsRequest(named), 4)).results
    assert (len(directory.topics), _numbers(directory.topics)) == (1, {"t": [0, 1]})
