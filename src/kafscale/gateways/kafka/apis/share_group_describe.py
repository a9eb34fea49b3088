"""ShareGroupDescribe: API 77, version 1.

A group that does not exist, or is not of this type, gets GROUP_ID_NOT_FOUND.
"""

from typing import Final

from kafscale.gateways.kafka.access.authorization import authorized_operations, may_describe
from kafscale.gateways.kafka.access.requirements import EachRow, itself
from kafscale.gateways.kafka.calls.call import Answer, Call, Requirement
from kafscale.gateways.kafka.calls.errors import coordinator_code_of, words_of
from kafscale.gateways.kafka.calls.request_order import READS_GROUPS
from kafscale.groups.consumer.members import ConsumerMember, by_topic
from kafscale.groups.share.machine import ShareGroup
from kafscale.model.access import AccessOperation, ResourceType
from kafscale.model.errors import GroupNotFound, KafscaleError
from kafscale.wire.kafka.errors import ErrorCode
from kafscale.wire.kafka.messages.share_group_describe import (
    DescribedShareAssignment,
    DescribedShareGroup,
    DescribedShareMember,
    DescribedSharePartitions,
    ShareGroupDescribeRequest,
    ShareGroupDescribeResponse,
)

API_KEY: Final = ShareGroupDescribeRequest.api_key
VERSIONS: Final = ShareGroupDescribeRequest.versions
ORDER: Final = READS_GROUPS
REQUIREMENTS: Final[tuple[Requirement, ...]] = (
    EachRow(
        AccessOperation.DESCRIBE,
        ResourceType.GROUP,
        "group_ids",
        itself,
        "groups",
        lambda row, code: DescribedShareGroup(error_code=code, group_id=row),
    ),
)


def answer(call: Call) -> Answer:
    """Describe every group asked for."""
    return _answer(call)


async def _answer(call: Call) -> ShareGroupDescribeResponse:
    request: ShareGroupDescribeRequest = call.message
    names = dict.fromkeys(request.group_ids)
    groups = [await _describe(call, name) async for name in call.each(names)]
    return ShareGroupDescribeResponse(groups=groups)


async def _describe(call: Call, group_id: str) -> DescribedShareGroup:
    try:
        group = await call.engine.groups.describe(group_id)
        if not isinstance(group, ShareGroup):
            raise GroupNotFound(f"there is no share group {group_id!r}")
    except KafscaleError as problem:
        code = coordinator_code_of(problem, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        return DescribedShareGroup(code, words_of(problem), group_id)
    if not all(may_describe(call, name) for name in group.subscribed_topics()):
        words = "the group reads topics that the client may not describe"
        return DescribedShareGroup(ErrorCode.TOPIC_AUTHORIZATION_FAILED, words, group_id)
    asked = call.message.include_authorized_operations
    return DescribedShareGroup(
        group_id=group_id,
        group_state=group.state.value,
        group_epoch=group.epoch,
        assignment_epoch=group.target_epoch,
        assignor_name=group.assignor,
        members=[_member(group, member) for member in group.roster.by_id.values()],
        authorized_operations=authorized_operations(
            call, ResourceType.GROUP, group_id, asked=asked
        ),
    )


def _member(group: ShareGroup, member: ConsumerMember) -> DescribedShareMember:
    rows = by_topic(member.assigned).items()
    return DescribedShareMember(
        member_id=member.member_id,
        rack_id=member.rack,
        member_epoch=member.epoch,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=sorted(member.names),
        assignment=DescribedShareAssignment(
            [
                DescribedSharePartitions(topic_id, group.name_of(topic_id), numbers)
                for topic_id, numbers in rows
            ]
        ),
    )
