"""What ConsumerGroupDescribe and ShareGroupDescribe share: a row about a group that brokers assign.

Next door: what their heartbeats share (groups/assigned_members.py).
"""

from collections.abc import Callable
from typing import TypeVar

from kafscale.gateways.kafka.access.authorization import authorized_operations
from kafscale.gateways.kafka.access.requirements import are_hidden
from kafscale.gateways.kafka.calls.call import Call
from kafscale.gateways.kafka.calls.errors import coordinator_code_of, words_of
from kafscale.groups.consumer.assigned import AssignedGroup
from kafscale.groups.consumer.members import ConsumerMember
from kafscale.model.errors import GroupNotFound, KafscaleError
from kafscale.model.security.access import ResourceType
from kafscale.wire.kafka.errors import ErrorCode

_Group = TypeVar("_Group", bound=AssignedGroup)
_Row = TypeVar("_Row")


async def describe_groups(
    call: Call,
    kind: type[_Group],
    row: Callable[..., _Row],
    member_row: Callable[[_Group, ConsumerMember], object],
) -> list[_Row]:
    """A row for every group asked for, with an error where there is no group of this kind."""
    names = dict.fromkeys(call.message.group_ids)
    return [await _describe(call, name, kind, row, member_row) async for name in call.each(names)]


async def _describe(
    call: Call,
    group_id: str,
    kind: type[_Group],
    row: Callable[..., _Row],
    member_row: Callable[[_Group, ConsumerMember], object],
) -> _Row:
    try:
        group = await call.engine.groups.describe(group_id)
        if not isinstance(group, kind):
            raise GroupNotFound(f"there is no group {group_id!r} of this type")
    except KafscaleError as problem:
        code = coordinator_code_of(problem, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        return row(code, words_of(problem), group_id)
    if are_hidden(call, group.subscribed_topics()):
        words = "the group reads topics that the client may not describe"
        return row(ErrorCode.TOPIC_AUTHORIZATION_FAILED, words, group_id)
    asked = call.message.include_authorized_operations
    return row(
        group_id=group_id,
        group_state=group.state.value,
        group_epoch=group.epoch,
        assignment_epoch=group.target_epoch,
        assignor_name=group.assignor,
        members=[member_row(group, member) for member in group.roster.by_id.values()],
        authorized_operations=authorized_operations(
            call, ResourceType.GROUP, group_id, asked=asked
        ),
    )
