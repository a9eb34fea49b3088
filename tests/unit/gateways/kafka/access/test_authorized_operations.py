"""Who asks what it may do is told all that can be done; who does not ask is told nothing."""

from kafscale.gateways.kafka.access.authorization import NOT_ASKED
from kafscale.wire.kafka.messages.describe_cluster import DescribeClusterRequest
from kafscale.wire.kafka.messages.describe_groups import DescribeGroupsRequest
from kafscale.wire.kafka.messages.metadata import MetadataRequest, MetadataRequestTopic
from kafscale.wire.kafka.schema import NO_UUID
from tests.unit.gateways.kafka.caller import Caller

# The numbers that Kafka's clients have for operations.
READ, WRITE, CREATE, DELETE, ALTER, DESCRIBE, CLUSTER_ACTION = range(3, 10)
DESCRIBE_CONFIGS, ALTER_CONFIGS, IDEMPOTENT_WRITE = range(10, 13)
CONFIGS = {DESCRIBE_CONFIGS, ALTER_CONFIGS}
TOPIC = {READ, WRITE, CREATE, DELETE, ALTER, DESCRIBE, *CONFIGS}
CLUSTER = {CREATE, ALTER, DESCRIBE, CLUSTER_ACTION, IDEMPOTENT_WRITE, *CONFIGS}
GROUP = {3, 6, 8, 10, 11}


def operations(bits: int) -> set[int]:
    return {number for number in range(32) if bits >> number & 1}


async def test_metadata_tells_what_may_be_done_when_asked(caller: Caller) -> None:
    await caller.create("t")
    request = MetadataRequest([MetadataRequestTopic(NO_UUID, "t")])
    for version in (8, 10, 12):
        answer = await caller.ask(request, version)
        assert answer.topics[0].topic_authorized_operations == NOT_ASKED
        assert answer.cluster_authorized_operations == NOT_ASKED
    request.include_topic_authorized_operations = True
    assert operations((await caller.ask(request, 12)).topics[0].topic_authorized_operations) == (
        TOPIC
    )
    request.include_cluster_authorized_operations = True
    assert operations((await caller.ask(request, 10)).cluster_authorized_operations) == CLUSTER


async def test_describing_the_cluster_tells_what_may_be_done_when_asked(caller: Caller) -> None:
    answer = await caller.ask(DescribeClusterRequest(), 1)
    assert answer.cluster_authorized_operations == NOT_ASKED
    answer = await caller.ask(DescribeClusterRequest(True), 1)
    assert operations(answer.cluster_authorized_operations) == CLUSTER


async def test_describing_a_group_tells_what_may_be_done_when_asked(caller: Caller) -> None:
    (row,) = (await caller.ask(DescribeGroupsRequest(["g"]), 5)).groups
    assert row.authorized_operations == NOT_ASKED
    request = DescribeGroupsRequest(["g"], include_authorized_operations=True)
    (row,) = (await caller.ask(request, 5)).groups
    assert operations(row.authorized_operations) == GROUP
