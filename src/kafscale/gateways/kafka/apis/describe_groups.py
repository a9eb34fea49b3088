"""DescribeGroups: API 15, versions 0-6.

v4  static members show their name; v6 a group that does not exist is an error
Before version 6 such a group is Dead, without an error. Consumer groups do not exist for this API:
tools ask for them by ConsumerGroupDescribe.
"""

from typing import Final

from kafscale.gateways.kafka.access.authorization import authorized_operations
from kafscale.gateways.kafka.access.requirements import EachRow, itself
from kafscale.gateways.kafka.calls.call import Answer, Call, Requirement
from kafscale.gateways.kafka.calls.errors import coordinator_code_of, words_of
from kafscale.gateways.kafka.calls.request_order import READS_GROUPS
from kafscale.groups.classic.machine import ClassicGroup
from kafscale.groups.classic.states import GroupState
from kafscale.model.errors import GroupNotFound, KafscaleError
from kafscale.model.security.access import AccessOperation, ResourceType
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
        lambda row, code: DescribedGroup(code, group_id=row),
    ),
)

_NOT_FOUND_FROM: Final = 6


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
        if call.version >= _NOT_FOUND_FROM and not isinstance(group, ClassicGroup):
            raise GroupNotFound(f"there is no classic group {group_id!r}")
    except KafscaleError as problem:
        code = coordinator_code_of(problem)
        return DescribedGroup(code, words_of(problem), group_id, GroupState.DEAD.value)
    if not isinstance(group, ClassicGroup):
        return DescribedGroup(group_id=group_id, group_state=GroupState.DEAD.value)
    # During a rebalance protocol and assignments are not decided.
    protocol = group.protocol if group.state is GroupState.STABLE else ""
    return DescribedGroup(
        group_id=group_id,
        group_state=group.state.value,
        protocol_type=group.protocol_type,
        protocol_data=protocol,
        members=_members(group, protocol),
    )


def _members(group: ClassicGroup, protocol: str) -> list[DescribedGroupMember]:
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
