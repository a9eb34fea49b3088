"""LeaveGroup: API 13, versions 0-5.

v3  several members, static ones by their name
"""

from typing import Final

from kafscale.gateways.kafka.call import Answer, Call
from kafscale.gateways.kafka.group_requests import apply, code_of_outcome, require_loaded
from kafscale.groups.events import Leave, Left, Rejected
from kafscale.wire.kafka.messages.leave_group import (
    LeaveGroupRequest,
    LeaveGroupResponse,
    MemberIdentity,
    MemberResponse,
)

API_KEY: Final = LeaveGroupRequest.api_key
VERSIONS: Final = LeaveGroupRequest.versions

_SEVERAL_FROM: Final = 3

prepare = require_loaded


def answer(call: Call) -> Answer:
    """Remove members from the group."""
    request: LeaveGroupRequest = call.message
    are_several = call.version >= _SEVERAL_FROM
    leavers = request.members if are_several else [MemberIdentity(request.member_id)]
    event = Leave(
        call=call.engine.groups.new_call(),
        leavers=tuple((row.member_id, row.group_instance_id) for row in leavers),
    )
    outcome = apply(call, event)
    if not isinstance(outcome, Left):
        return LeaveGroupResponse(error_code=code_of_outcome(call, outcome))
    codes = [0 if why is None else code_of_outcome(call, Rejected(why)) for why in outcome.problems]
    if not are_several:
        return LeaveGroupResponse(error_code=codes[0])
    return LeaveGroupResponse(
        members=[
            MemberResponse(row.member_id, row.group_instance_id, code)
            for row, code in zip(leavers, codes, strict=True)
        ]
    )
