"""The APIs of group members over the wire: every version, order, disconnects, restarts."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from kafscale.testing.clock import ManualClock
from kafscale.testing.in_process import InProcessBroker
from kafscale.wire.kafka.errors import ErrorCode
from kafscale.wire.kafka.messages.delete_groups import DeleteGroupsRequest
from kafscale.wire.kafka.messages.describe_groups import DescribedGroup, DescribeGroupsRequest
from kafscale.wire.kafka.messages.heartbeat import HeartbeatRequest
from kafscale.wire.kafka.messages.join_group import (
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
)
from kafscale.wire.kafka.messages.leave_group import LeaveGroupRequest, MemberIdentity
from kafscale.wire.kafka.messages.list_groups import ListGroupsRequest
from kafscale.wire.kafka.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kafscale.wire.kafka.messages.sync_group import (
    SyncGroupRequest,
    SyncGroupRequestAssignment,
    SyncGroupResponse,
)
from tests.unit.engine.engine_harness import tick_groups
from tests.unit.gateways.kafka.caller import Caller


@pytest.fixture
async def other(broker: InProcessBroker) -> AsyncIterator[Caller]:
    async with Caller(broker.port) as connected:
        yield connected


def join_request(member_id: str = "", group: str = "g", **fields: Any) -> JoinGroupRequest:
    protocols = [JoinGroupRequestProtocol("range", b"about me")]
    given = {"session_timeout_ms": 10_000, "rebalance_timeout_ms": 60_000, **fields}
    return JoinGroupRequest(
        group, member_id=member_id, protocol_type="consumer", protocols=protocols, **given
    )


async def join(caller: Caller, version: int = 9, **fields: Any) -> JoinGroupResponse:
    """Join, with the detour by the id that newer versions take."""
    answer = await caller.ask(join_request(**fields), version)
    if answer.error_code == ErrorCode.MEMBER_ID_REQUIRED:
        answer = await caller.ask(join_request(answer.member_id, **fields), version)
    assert isinstance(answer, JoinGroupResponse)
    return answer


async def sync(
    caller: Caller, joined: JoinGroupResponse, version: int = 5, **shares: bytes
) -> SyncGroupResponse:
    rows = [SyncGroupRequestAssignment(joined.member_id, share) for share in shares.values()]
    request = SyncGroupRequest("g", joined.generation_id, joined.member_id, assignments=rows)
    answer = await caller.ask(request, version)
    assert isinstance(answer, SyncGroupResponse)
    return answer


async def beat(caller: Caller, member_id: str, generation: int, version: int = 4) -> int:
    request = HeartbeatRequest("g", generation, member_id)
    return int((await caller.ask(request, version)).error_code)


async def describe(caller: Caller, group: str = "g", version: int = 5) -> DescribedGroup:
    (row,) = (await caller.ask(DescribeGroupsRequest([group]), version)).groups
    assert isinstance(row, DescribedGroup)
    return row


async def commit(caller: Caller, member_id: str = "", generation: int = -1) -> int:
    rows = [OffsetCommitRequestTopic("t", [OffsetCommitRequestPartition(0, 7)])]
    request = OffsetCommitRequest("g", generation, member_id, topics=rows)
    return int((await caller.ask(request, 8)).topics[0].partitions[0].error_code)


@pytest.mark.parametrize("version", range(10))
async def test_every_version_joins_syncs_beats_and_leaves(caller: Caller, version: int) -> None:
    joined = await join(caller, version)
    assert joined.error_code == 0
    assert joined.generation_id == 1
    assert joined.leader == joined.member_id
    assert joined.member_id.startswith("tests-")
    assert joined.protocol_name == "range"
    assert joined.protocol_type == ("consumer" if version >= 7 else None)
    assert [(row.member_id, row.metadata) for row in joined.members] == [
        (joined.member_id, b"about me")
    ]
    synced = await sync(caller, joined, min(version, 5), share=b"\x00\xffmine")
    assert (synced.error_code, synced.assignment) == (0, b"\x00\xffmine")
    assert await beat(caller, joined.member_id, 1, min(version, 4)) == 0
    assert await beat(caller, joined.member_id, 2, min(version, 4)) == ErrorCode.ILLEGAL_GENERATION
    leave = LeaveGroupRequest("g", joined.member_id, [MemberIdentity(joined.member_id)])
    left = await caller.ask(leave, min(version, 5))
    assert left.error_code == 0
    assert [row.error_code for row in left.members] == ([0] if version >= 3 else [])
    assert await beat(caller, joined.member_id, 1) == ErrorCode.UNKNOWN_MEMBER_ID
    assert (await describe(caller)).group_state == "Empty"


@pytest.mark.parametrize("version", range(10))
async def test_refusals_are_answers_every_version_can_read(caller: Caller, version: int) -> None:
    for request, code in (
        (join_request(session_timeout_ms=1), ErrorCode.INVALID_SESSION_TIMEOUT),
        (join_request(group=""), ErrorCode.INVALID_GROUP_ID),
        (join_request("missing"), ErrorCode.UNKNOWN_MEMBER_ID),
    ):
        answer = await caller.ask(request, version)
        assert (answer.error_code, answer.members) == (code, [])
    unknown = LeaveGroupRequest("g", "missing", [MemberIdentity("missing")])
    left = await caller.ask(unknown, min(version, 5))
    codes = [row.error_code for row in left.members] if version >= 3 else [left.error_code]
    assert codes == [ErrorCode.UNKNOWN_MEMBER_ID]
    answer = await caller.ask(SyncGroupRequest("g", 1, "missing"), min(version, 5))
    assert answer.error_code == ErrorCode.UNKNOWN_MEMBER_ID


async def test_two_members_each_get_their_share(caller: Caller, other: Caller) -> None:
    first = await join(caller)
    await sync(caller, first, share=b"")
    second_id = (await other.ask(join_request(), 9)).member_id
    other.send(join_request(second_id), 9)
    while await beat(caller, first.member_id, 1) != ErrorCode.REBALANCE_IN_PROGRESS:
        await asyncio.sleep(0.01)
    leader = await caller.ask(join_request(first.member_id), 9)
    follower = await other.answer()
    assert {row.member_id for row in leader.members} == {first.member_id, second_id}
    assert (follower.generation_id, follower.leader) == (2, first.member_id)
    other.send(SyncGroupRequest("g", 2, second_id), 5)
    shares = [
        SyncGroupRequestAssignment(first.member_id, b"one"),
        SyncGroupRequestAssignment(second_id, b"two"),
    ]
    own = await caller.ask(SyncGroupRequest("g", 2, first.member_id, assignments=shares), 5)
    assert (own.assignment, (await other.answer()).assignment) == (b"one", b"two")
    row = await describe(caller)
    assert (row.group_state, row.protocol_type, row.protocol_data) == (
        "Stable",
        "consumer",
        "range",
    )
    assert [(m.client_id, m.client_host, m.member_metadata) for m in row.members] == [
        ("tests", "/127.0.0.1", b"about me")
    ] * 2
    assert [m.member_assignment for m in row.members] == [b"one", b"two"]


async def test_a_join_that_waits_holds_up_answers_but_not_requests(
    broker: InProcessBroker, caller: Caller, other: Caller
) -> None:
    await caller.create("t")
    first = await join(caller)
    await sync(caller, first, share=b"")
    waiting = (await other.ask(join_request(), 9)).member_id
    other.send(join_request(waiting), 9)
    rows = [OffsetCommitRequestTopic("t", [OffsetCommitRequestPartition(0, 3)])]
    other.send(OffsetCommitRequest("elsewhere", topics=rows), 8)
    while not await broker.engine.offsets.committed("elsewhere"):
        await asyncio.sleep(0.01)
    await caller.ask(join_request(first.member_id), 9)
    assert (await other.answer()).generation_id == 2
    assert (await other.answer()).topics[0].partitions[0].error_code == 0


async def test_a_client_that_goes_away_while_it_waits_is_a_member_until_its_session_ends(
    broker: InProcessBroker, caller: Caller, clock: ManualClock
) -> None:
    first = await join(caller)
    await sync(caller, first, share=b"")
    async with Caller(broker.port) as leaving:
        leaving.send(join_request(group_instance_id="i"), 9)
        while await beat(caller, first.member_id, 1) != ErrorCode.REBALANCE_IN_PROGRESS:
            await asyncio.sleep(0.01)
    joined = await caller.ask(join_request(first.member_id), 9)
    assert len(joined.members) == 2
    await sync(caller, joined, share=b"")
    clock.advance_ms(9_000)
    assert await beat(caller, first.member_id, 2) == 0
    clock.advance_ms(1_000)
    tick_groups(broker.engine.groups)
    assert await beat(caller, first.member_id, 2) == ErrorCode.REBALANCE_IN_PROGRESS
    again = await caller.ask(join_request(first.member_id), 9)
    assert len(again.members) == 1


async def test_members_of_a_restarted_broker_go_on_in_their_generation(
    broker: InProcessBroker, caller: Caller
) -> None:
    await caller.create("t")
    joined = await join(caller)
    await sync(caller, joined, share=b"mine")
    await broker.restart()
    async with Caller(broker.port) as back:
        assert await beat(back, joined.member_id, 1) == 0
        assert await commit(back, joined.member_id, 1) == 0
        assert (await sync(back, joined)).assignment == b"mine"
        assert await commit(back, joined.member_id, 2) == ErrorCode.ILLEGAL_GENERATION
        assert await commit(back, "missing", 1) == ErrorCode.UNKNOWN_MEMBER_ID
        assert await commit(back) == ErrorCode.UNKNOWN_MEMBER_ID


@pytest.mark.parametrize("version", range(6))
async def test_groups_are_listed_by_state_and_type(caller: Caller, version: int) -> None:
    await caller.create("t")
    assert (await caller.ask(ListGroupsRequest(), version)).groups == []
    await join(caller, group="joining")
    await commit(caller)
    found = (await caller.ask(ListGroupsRequest(), version)).groups
    assert [(row.group_id, row.protocol_type) for row in found] == [
        ("g", ""),
        ("joining", "consumer"),
    ]
    if version >= 4:
        assert [row.group_state for row in found] == ["Empty", "CompletingRebalance"]
        some = await caller.ask(ListGroupsRequest(["empty"]), version)
        assert [row.group_id for row in some.groups] == ["g"]
    if version >= 5:
        assert {row.group_type for row in found} == {"classic"}
        assert (await caller.ask(ListGroupsRequest([], ["consumer"]), version)).groups == []


@pytest.mark.parametrize("version", range(6))
async def test_an_unknown_group_is_dead_without_an_error(caller: Caller, version: int) -> None:
    row = await describe(caller, "missing", version)
    assert (row.error_code, row.group_state, row.members) == (0, "Dead", [])


@pytest.mark.parametrize("version", range(3))
async def test_a_group_without_members_is_deleted_with_its_offsets(
    broker: InProcessBroker, caller: Caller, version: int
) -> None:
    async def delete() -> int:
        answer = await caller.ask(DeleteGroupsRequest(["g"]), version)
        return int(answer.results[0].error_code)

    await caller.create("t")
    assert await delete() == ErrorCode.GROUP_ID_NOT_FOUND
    joined = await join(caller)
    await sync(caller, joined, share=b"")
    assert await commit(caller, joined.member_id, 1) == 0
    assert await delete() == ErrorCode.NON_EMPTY_GROUP
    await caller.ask(LeaveGroupRequest("g", joined.member_id), 0)
    assert await delete() == 0
    assert await broker.engine.offsets.committed("g") == {}
    assert (await describe(caller)).group_state == "Dead"
    assert (await join(caller)).generation_id == 1
