"""DescribeGroups: API 15, versions 0-5.

v4  static members show their name
A group that does not exist is Dead, without an error.
"""

from typing import Final

from kafscale.gateways.kafka.access.authorization import authorized_operations
from kafscale.gateways.kafka.access.requirements import EachRow, itself
from kafscale.gateways.kafka.calls.call import Answer, Call, Requirement
from kafscale.gateways.kafka.calls.errors import coordinator_code_of
from kafscale.gateways.kafka.calls.request_order import READS_GROUPS
from kafscale.groups.machine import Group
from kafscale.groups.states import GroupState
from kafscale.model.access import AccessOperation, ResourceType
from kafscale.model.errors import KafscaleError
from kafscale.wire.kafka.messages.describe_groups import (
    DescribedGroup,
    DescribedGroupMember,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)

API_KEY: Final = DescribeGroupsRequest.api_key
VERSIONS: Final = DescribeGroupsRequest.versions
ORDER: Final = READS_GROUPS
REQUIREMENTS: Final[tuple[Requirement, ...]] = (
    EachRow(
        AccessOperation.DESCRIBE,
        ResourceType.GROUP,
        "groups",
        itself,
        "groups",
        lambda row, code: DescribedGroup(code, row),
    ),
)


def answer(call: Call) -> Answer:
    """Describe every group asked for."""
    return _answer(call)


async def _answer(call: Call) -> DescribeGroupsResponse:
    request: DescribeGroupsRequest = call.message
    groups = [
        await _describe(call, name) async for name in call.each(dict.fromkeys(request.groups))
    ]
    async for group in call.each(groups):
        group.authorized_operations = authorized_operations(
            call, ResourceType.GROUP, group.group_id, asked=request.include_authorized_operations
        )
    return DescribeGroupsResponse(groups=groups)


async def _describe(call: Call, group_id: str) -> DescribedGroup:
    try:
        group = await call.engine.groups.describe(group_id)
    except KafscaleError as problem:
        code = coordinator_code_of(problem)
        return DescribedGroup(code, group_id, GroupState.DEAD.value)
    if group is None:
        return DescribedGroup(0, group_id, GroupState.DEAD.value)
    # During a rebalance protocol and assignments are not decided.
    protocol = group.protocol if group.state is GroupState.STABLE else ""
    return DescribedGroup(
        0, group_id, group.state.value, group.protocol_type, protocol, _members(group, protocol)
    )


def _members(group: Group, protocol: str) -> list[DescribedGroupMember]:
    return [
        DescribedGroupMember(
            member.member_id,
            member.instance_id,
            member.client_id,
            member.client_host,
            member.protocols.get(protocol, b"") if protocol else b"",
            member.assignment if protocol else b"",
        )
        for member in group.roster.by_id.values()
    ]
