import pytest

from kafscale.testing.in_process import InProcessBroker
from kafscale.wire.kafka.errors import ErrorCode
from kafscale.wire.kafka.messages.create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from kafscale.wire.kafka.messages.metadata import MetadataRequest, MetadataRequestTopic
from tests.unit.gateways.kafka.caller import Caller, make_batch, values_of


async def extend(
    caller: Caller,
    count: int,
    name: str = "t",
    assignments: list[list[int]] | None = None,
    version: int = 3,
    validate_only: bool = False,
) -> int:
    given = None
    if assignments is not None:
        given = [CreatePartitionsAssignment(row) for row in assignments]
    topic = CreatePartitionsTopic(name, count, given)
    request = CreatePartitionsRequest([topic], 10_000, validate_only)
    (result,) = (await caller.ask(request, version)).results
    assert bool(result.error_message) == bool(result.error_code)
    return int(result.error_code)


async def partitions(caller: Caller) -> list[int]:
    answer = await caller.ask(MetadataRequest([MetadataRequestTopic(name="t")]), 12)
    return [row.partition_index for row in answer.topics[0].partitions]


@pytest.mark.parametrize("version", range(4))
async def test_new_partitions_are_there_at_once_and_after_a_restart(
    broker: InProcessBroker, caller: Caller, version: int
) -> None:
    await caller.create("t")
    await caller.produce("t", make_batch(b"old"))
    assert (await caller.produce("t", make_batch(b"no"), partition=2)).error_code == 3
    assert await extend(caller, 3, version=version) == 0
    assert await partitions(caller) == [0, 1, 2]
    assert (await caller.produce("t", make_batch(b"new"), partition=2)).error_code == 0
    await broker.restart()
    async with Caller(broker.port) as later:
        assert await partitions(later) == [0, 1, 2]
        assert values_of(await later.fetch("t", partition=2)) == [b"new"]
        assert values_of(await later.fetch("t")) == [b"old"]


async def test_validate_only_adds_nothing(caller: Caller) -> None:
    await caller.create("t")
    assert await extend(caller, 3, validate_only=True) == 0
    assert await extend(caller, 1, validate_only=True) == ErrorCode.INVALID_PARTITIONS
    assert await partitions(caller) == [0]


@pytest.mark.parametrize("count", [-1, 0, 1, 2, 1025, 2**31 - 1])
async def test_partitions_never_get_fewer_nor_too_many(caller: Caller, count: int) -> None:
    await caller.create("t", 2)
    assert await extend(caller, count) == ErrorCode.INVALID_PARTITIONS
    assert await partitions(caller) == [0, 1]


@pytest.mark.parametrize(
    ("assignments", "code"),
    [
        ([[1], [1]], 0),
        ([[1]], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ([[1], []], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ([], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
    ],
)
async def test_assignments_name_a_broker_for_each_new_partition(
    caller: Caller, assignments: list[list[int]], code: int
) -> None:
    await caller.create("t")
    assert await extend(caller, 3, assignments=assignments) == code


async def test_unknown_topics_and_those_named_twice_are_refused(caller: Caller) -> None:
    await caller.create("t")
    assert await extend(caller, 3, "missing") == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    twice = CreatePartitionsRequest([CreatePartitionsTopic("t", 2), CreatePartitionsTopic("t", 3)])
    results = (await caller.ask(twice, 3)).results
    assert [row.error_code for row in results] == [ErrorCode.INVALID_REQUEST] * 2
    assert await partitions(caller) == [0]


async def test_a_topic_that_grew_leaves_nothing_behind_when_deleted(
    broker: InProcessBroker, caller: Caller
) -> None:
    await caller.create("t")
    await extend(caller, 3)
    await caller.produce("t", make_batch(b"new"), partition=2)
    await caller.delete("t")
    await broker.engine._parts.removals.remove_deleted_topics()
    left = [row.key for row in await broker.store.find("default")]
    assert all("/descriptor-" in key for key in left)
