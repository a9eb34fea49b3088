"""The answers of one broker of several."""

from collections.abc import AsyncIterator

import pytest

from kafscale.access.quotas import QuotaKey, entity_of
from kafscale.wire.kafka.errors import ErrorCode
from kafscale.wire.kafka.messages.delete_topics import DeleteTopicsRequest
from kafscale.wire.kafka.messages.describe_cluster import DescribeClusterRequest
from kafscale.wire.kafka.messages.describe_groups import DescribeGroupsRequest
from kafscale.wire.kafka.messages.describe_log_dirs import DescribeLogDirsRequest
from kafscale.wire.kafka.messages.find_coordinator import FindCoordinatorRequest
from kafscale.wire.kafka.messages.heartbeat import HeartbeatRequest
from kafscale.wire.kafka.messages.list_groups import ListGroupsRequest
from kafscale.wire.kafka.messages.metadata import MetadataRequest, MetadataRequestTopic
from kafscale.wire.kafka.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kafscale.wire.kafka.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestTopic
from tests.unit.engine.fleet_harness import FleetHarness, Member, eventually
from tests.unit.gateways.kafka.caller import Caller, make_batch

PARTITIONS = 12


@pytest.fixture
async def fleet() -> AsyncIterator[FleetHarness]:
    async with FleetHarness(gather_s=0.05) as opened:
        members = await opened.start_all(3)
        await members[0].engine.topics.create("t", PARTITIONS, {})
        await eventually(lambda: all(member.engine.topics.find("t") for member in members))
        yield opened


def metadata_request() -> MetadataRequest:
    return MetadataRequest([MetadataRequestTopic(name="t")])


def not_owner(fleet: FleetHarness, partition: int) -> Member:
    return next(member for member in fleet.members if member is not fleet.owner("t", partition))


def not_coordinating(fleet: FleetHarness, group: str) -> tuple[Member, Member]:
    """A broker that does not coordinate the group, and the one that does."""
    (ours,) = [member for member in fleet.members if member.fleet.may_coordinate(group)]
    return next(member for member in fleet.members if member is not ours), ours


async def test_every_broker_describes_the_same_cluster(fleet: FleetHarness) -> None:
    said = []
    for member in fleet.members:
        async with Caller(member.broker.port) as caller:
            answer = await caller.ask(metadata_request(), 12)
            cluster = await caller.ask(DescribeClusterRequest(), 0)
        nodes = [(row.node_id, row.host, row.port) for row in answer.brokers]
        assert nodes == [(row.broker_id, row.host, row.port) for row in cluster.brokers]
        assert answer.controller_id == cluster.controller_id
        (topic,) = answer.topics
        leaders = [(row.leader_id, row.leader_epoch) for row in topic.partitions]
        said.append((nodes, answer.controller_id, leaders))
    assert said[0] == said[1] == said[2]
    nodes, controller, leaders = said[0]
    assert nodes == [(n, "127.0.0.1", member.broker.port) for n, member in enumerate(fleet.members)]
    assert controller in (0, 1, 2)
    assert {leader for leader, _ in leaders} == {0, 1, 2}
    assert {epoch for _, epoch in leaders} == {fleet.members[0].fleet.generation}


async def test_partitions_of_others_are_refused_so_that_clients_look_for_their_leader(
    fleet: FleetHarness,
) -> None:
    for partition in range(3):
        async with Caller(not_owner(fleet, partition).broker.port) as caller:
            wrong = ErrorCode.NOT_LEADER_OR_FOLLOWER
            produced = await caller.produce("t", make_batch(b"x"), partition=partition)
            assert produced.error_code == wrong
            fetched = await caller.fetch("t", partition=partition, max_wait_ms=10)
            assert fetched.error_code == wrong
            assert (await caller.offset("t", -1, partition=partition)).error_code == wrong
        async with Caller(fleet.owner("t", partition).broker.port) as caller:
            produced = await caller.produce("t", make_batch(b"x"), partition=partition)
            assert (produced.error_code, produced.base_offset) == (0, 0)


async def test_a_partition_whose_owner_has_no_known_address_has_no_leader(
    fleet: FleetHarness,
) -> None:
    member = fleet.members[0]
    owner = fleet.members[1].fleet.identity.broker_id
    # The broker knows of the member, but its registration ended before the broker could read it.
    del member.fleet.state.brokers[owner]
    del member.fleet.state._last_rows[owner]
    async with Caller(member.broker.port) as caller:
        (topic,) = (await caller.ask(metadata_request(), 12)).topics
    orphans = [row for row in topic.partitions if row.leader_id == -1]
    assert orphans
    assert {row.error_code for row in orphans} == {ErrorCode.LEADER_NOT_AVAILABLE}
    assert all(row.replica_nodes == [] for row in orphans)


async def test_a_broker_that_vanished_is_still_named_to_clients_that_read_and_write(
    fleet: FleetHarness,
) -> None:
    left, vanished = fleet.members[0], fleet.members[1]
    gone = (vanished.fleet.identity.broker_id, vanished.broker.port)
    vanished.wire.is_cut = True
    (lease,) = [lease for lease in vanished.wire.leases if lease.remaining_s() > 0]
    await lease.revoke()  # as if it had not been renewed in time
    await eventually(lambda: len(left.fleet.nodes()) == 2)
    async with Caller(left.broker.port) as caller:
        by_topic = await caller.ask(metadata_request(), 12)
        every_topic = await caller.ask(MetadataRequest(None), 12)
        only_brokers = await caller.ask(MetadataRequest([]), 12)
        cluster = await caller.ask(DescribeClusterRequest(), 0)
    assert gone in [(row.node_id, row.port) for row in by_topic.brokers]
    assert gone[0] not in {row.leader_id for row in by_topic.topics[0].partitions}
    for answer in (every_topic, only_brokers):
        assert gone[0] not in {row.node_id for row in answer.brokers}
    assert gone[0] not in {row.broker_id for row in cluster.brokers}


async def test_sizes_are_told_by_the_leader_alone(fleet: FleetHarness) -> None:
    told = []
    for member in fleet.members:
        async with Caller(member.broker.port) as caller:
            (directory,) = (await caller.ask(DescribeLogDirsRequest(None), 4)).results
        told += [row.partition_index for topic in directory.topics for row in topic.partitions]
    assert sorted(told) == list(range(PARTITIONS))


async def test_groups_are_found_and_served_by_their_coordinator_alone(fleet: FleetHarness) -> None:
    wrong = ErrorCode.NOT_COORDINATOR
    topics = [OffsetCommitRequestTopic("t", [OffsetCommitRequestPartition(0, 5)])]
    commit = OffsetCommitRequest("g", topics=topics)
    asked = [OffsetFetchRequestTopic("t", [0])]
    other, coordinator = not_coordinating(fleet, "g")
    async with Caller(other.broker.port) as caller:
        found = await caller.ask(FindCoordinatorRequest("g"), 3)
        assert (found.node_id, found.port) == (
            coordinator.fleet.identity.broker_id,
            coordinator.broker.port,
        )
        assert (await caller.ask(HeartbeatRequest("g", 1, "m"), 4)).error_code == wrong
        refused = await caller.ask(commit, 8)
        assert refused.topics[0].partitions[0].error_code == wrong
        assert (await caller.ask(OffsetFetchRequest("g", asked), 7)).error_code == wrong
        (row,) = (await caller.ask(DescribeGroupsRequest(["g"]), 5)).groups
        assert row.error_code == wrong
    async with Caller(coordinator.broker.port) as caller:
        taken = await caller.ask(commit, 8)
        assert taken.topics[0].partitions[0].error_code == 0
        read = await caller.ask(OffsetFetchRequest("g", asked), 7)
        assert read.topics[0].partitions[0].committed_offset == 5
        listed = await caller.ask(ListGroupsRequest(), 4)
        assert [row.group_id for row in listed.groups] == ["g"]
    async with Caller(other.broker.port) as caller:
        assert (await caller.ask(ListGroupsRequest(), 4)).groups == []


async def test_a_coordinator_without_a_known_address_is_not_available(fleet: FleetHarness) -> None:
    member = fleet.members[0]
    member.fleet.state.brokers.clear()
    member.fleet.state._last_rows.clear()
    names = (f"group-{number}" for number in range(100))
    elsewhere = next(name for name in names if not member.fleet.may_coordinate(name))
    async with Caller(member.broker.port) as caller:
        found = await caller.ask(FindCoordinatorRequest(elsewhere), 3)
    assert (found.error_code, found.node_id) == (ErrorCode.COORDINATOR_NOT_AVAILABLE, -1)


async def test_topics_can_be_created_at_any_broker(fleet: FleetHarness) -> None:
    for number, member in enumerate(fleet.members):
        async with Caller(member.broker.port) as caller:
            assert (await caller.create(f"made-{number}", 2)).error_code == 0
    for member in fleet.members:
        async with Caller(member.broker.port) as caller:
            for number in range(3):
                request = MetadataRequest([MetadataRequestTopic(name=f"made-{number}")])
                (topic,) = (await caller.ask(request, 12)).topics
                assert (topic.error_code, len(topic.partitions)) == (0, 2)


async def test_a_quota_reaches_every_broker_and_holds_without_the_metadata_store(
    fleet: FleetHarness,
) -> None:
    first, second, _ = fleet.members
    entity = entity_of([("client-id", "tests")])
    await first.engine.quotas.alter(entity, {QuotaKey.MUTATIONS: 0.01})
    await eventually(lambda: all(one.engine.quotas.limits_clients for one in fleet.members))
    second.wire.is_cut = True
    async with Caller(second.broker.port) as caller:
        gone = DeleteTopicsRequest(topic_names=["t"], timeout_ms=1000)
        await caller.ask(gone, 5)
        answer = await caller.ask(gone, 5)
    assert answer.responses[0].error_code == ErrorCode.THROTTLING_QUOTA_EXCEEDED
    assert answer.throttle_time_ms > 0
    second.wire.is_cut = False
    await first.engine.quotas.alter(entity, {QuotaKey.MUTATIONS: None})
    await eventually(lambda: not any(one.engine.quotas.limits_clients for one in fleet.members))
