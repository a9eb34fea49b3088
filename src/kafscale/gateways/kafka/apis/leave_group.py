"""LeaveGroup: API 13, versions 0-5.

v3  several members, static ones by their name
"""

from collections.abc import Sequence
from typing import Final

from kafscale.gateways.kafka.access.requirements import WholeRequest, by_group, error_alone
from kafscale.gateways.kafka.calls.call import Answer, Call, Requirement
from kafscale.gateways.kafka.calls.request_order import CHANGES_MEMBERS
from kafscale.gateways.kafka.groups.group_requests import apply, code_of_outcome, require_loaded
from kafscale.groups.classic.events import Leave, Left
from kafscale.groups.events import Rejected
from kafscale.model.security.access import AccessOperation, ResourceType
from kafscale.wire.kafka.messages.leave_group import (
    LeaveGroupRequest,
    LeaveGroupResponse,
    MemberIdentity,
    MemberResponse,
)

API_KEY: Final = LeaveGroupRequest.api_key
VERSIONS: Final = LeaveGroupRequest.versions
ORDER: Final = CHANGES_MEMBERS
REQUIREMENTS: Final[tuple[Requirement, ...]] = (
    WholeRequest(
        AccessOperation.READ, ResourceType.GROUP, by_group, error_alone(LeaveGroupResponse)
    ),
)

_SEVERAL_FROM: Final = 3
_AT_ONCE: Final = 256

prepare = require_loaded


def answer(call: Call) -> Answer:
    """Remove members from the group."""
    request: LeaveGroupRequest = call.message
    if call.is_long:
        return _answer_in_turns(call)
    are_several = call.version >= _SEVERAL_FROM
    leavers = request.members if are_several else [MemberIdentity(request.member_id)]
    left = _leave(call, leavers)
    if isinstance(left, int):
        return LeaveGroupResponse(error_code=left)
    if not are_several:
        return LeaveGroupResponse(error_code=left[0].error_code)
    return LeaveGroupResponse(members=left)


async def _answer_in_turns(call: Call) -> LeaveGroupResponse:
    """Remove very many members, some at a time. Most of them cannot be members of the group."""
    leavers: list[MemberIdentity] = call.message.members
    rows: list[MemberResponse] = []
    async for begin in call.each(range(0, len(leavers), _AT_ONCE)):
        left = _leave(call, leavers[begin : begin + _AT_ONCE])
        if isinstance(left, int):
            return LeaveGroupResponse(error_code=left)
        rows += left
    return LeaveGroupResponse(members=rows)


def _leave(call: Call, leavers: Sequence[MemberIdentity]) -> list[MemberResponse] | int:
    """The result of each member that leaves, or the error of the whole request."""
    event = Leave(
        call=call.engine.groups.new_call(),
        leavers=tuple((row.member_id, row.group_instance_id) for row in leavers),
    )
    outcome = apply(call, event)
    if not isinstance(outcome, Left):
        return code_of_outcome(call, outcome)
    codes = [0 if why is None else code_of_outcome(call, Rejected(why)) for why in outcome.problems]
    return [
        MemberResponse(row.member_id, row.group_instance_id, code)
        for row, code in zip(leavers, codes, strict=True)
    ]
