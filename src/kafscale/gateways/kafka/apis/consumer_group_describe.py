"""ConsumerGroupDescribe: API 69, versions 0-1.

v1  what kind of member each is
A group that does not exist, or is not of this type, gets GROUP_ID_NOT_FOUND: tools then ask by
DescribeGroups.
"""

from collections.abc import Iterable
from typing import Final

from kafscale.gateways.kafka.access.assigned_descriptions import describe_groups
from kafscale.gateways.kafka.access.requirements import EachRow, itself
from kafscale.gateways.kafka.calls.call import Answer, Call, Requirement
from kafscale.gateways.kafka.calls.request_order import READS_GROUPS
from kafscale.groups.consumer.events import MemberPartition
from kafscale.groups.consumer.machine import ConsumerGroup
from kafscale.groups.consumer.members import ConsumerMember, by_topic
from kafscale.model.security.access import AccessOperation, ResourceType
from kafscale.wire.kafka.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    DescribedAssignment,
    DescribedConsumerGroup,
    DescribedConsumerMember,
    DescribedTopicPartitions,
)

API_KEY: Final = ConsumerGroupDescribeRequest.api_key
VERSIONS: Final = ConsumerGroupDescribeRequest.versions
ORDER: Final = READS_GROUPS
REQUIREMENTS: Final[tuple[Requirement, ...]] = (
    EachRow(
        AccessOperation.DESCRIBE,
        ResourceType.GROUP,
        "group_ids",
        itself,
        "groups",
        lambda row, code: DescribedConsumerGroup(error_code=code, group_id=row),
    ),
)

_CLASSIC_MEMBER, _CONSUMER_MEMBER = 0, 1


def answer(call: Call) -> Answer:
    """Describe every group asked for."""
    return _answer(call)


async def _answer(call: Call) -> ConsumerGroupDescribeResponse:
    groups = await describe_groups(call, ConsumerGroup, DescribedConsumerGroup, _member)
    return ConsumerGroupDescribeResponse(groups=groups)


def _member(group: ConsumerGroup, member: ConsumerMember) -> DescribedConsumerMember:
    return DescribedConsumerMember(
        member_id=member.member_id,
        instance_id=member.instance_id,
        rack_id=member.rack,
        member_epoch=member.epoch,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=sorted(member.names),
        subscribed_topic_regex=member.regex or None,
        assignment=_assignment(group, member.assigned),
        target_assignment=_assignment(group, group.target.get(member.member_id, ())),
        member_type=_CLASSIC_MEMBER if member.is_classic else _CONSUMER_MEMBER,
    )


def _assignment(group: ConsumerGroup, places: Iterable[MemberPartition]) -> DescribedAssignment:
    return DescribedAssignment(
        [
            DescribedTopicPartitions(topic_id, group.name_of(topic_id), numbers)
            for topic_id, numbers in by_topic(places).items()
        ]
    )
