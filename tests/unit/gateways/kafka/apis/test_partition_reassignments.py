import pytest

from kafscale.wire.kafka.errors import ErrorCode
from kafscale.wire.kafka.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from kafscale.wire.kafka.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsTopics,
)
from tests.unit.gateways.kafka.caller import Caller


async def test_no_reassignment_is_ever_under_way(caller: Caller) -> None:
    await caller.create("t")
    for topics in (None, [ListPartitionReassignmentsTopics("t", [0])]):
        answer = await caller.ask(ListPartitionReassignmentsRequest(topics=topics), 0)
        assert (answer.error_code, answer.topics) == (0, [])


@pytest.mark.parametrize("version", [0, 1])
async def test_every_partition_is_refused_with_its_own_reason(caller: Caller, version: int) -> None:
    await caller.create("t", 2)
    rows = [
        ReassignableTopic("t", [ReassignablePartition(0, [7]), ReassignablePartition(1, None)]),
        ReassignableTopic("missing", [ReassignablePartition(0, [7])]),
    ]
    answer = await caller.ask(AlterPartitionReassignmentsRequest(topics=rows), version)
    assert answer.error_code == 0
    found = {
        (topic.name, row.partition_index): row
        for topic in answer.responses
        for row in topic.partitions
    }
    assert {place: row.error_code for place, row in found.items()} == {
        ("t", 0): ErrorCode.INVALID_REPLICA_ASSIGNMENT,
        ("t", 1): ErrorCode.NO_REASSIGNMENT_IN_PROGRESS,
        ("missing", 0): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }
    assert all(row.error_message for row in found.values())
    assert "one replica" in found["t", 0].error_message
