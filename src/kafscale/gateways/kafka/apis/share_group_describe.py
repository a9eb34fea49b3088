"""ShareGroupDescribe: API 77, version 1.

A group that does not exist, or is not of this type, gets GROUP_ID_NOT_FOUND.
"""

from typing import Final

from kafscale.gateways.kafka.access.assigned_descriptions import describe_groups
from kafscale.gateways.kafka.access.requirements import EachRow, itself
from kafscale.gateways.kafka.calls.call import Answer, Call, Requirement
from kafscale.gateways.kafka.calls.request_order import READS_GROUPS
from kafscale.groups.consumer.members import ConsumerMember, by_topic
from kafscale.groups.share.machine import ShareGroup
from kafscale.model.security.access import AccessOperation, ResourceType
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
    groups = await describe_groups(call, ShareGroup, DescribedShareGroup, _member)
    return ShareGroupDescribeResponse(groups=groups)


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
