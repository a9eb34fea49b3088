"""JoinGroup: API 11, versions 0-9.

v1  rebalance timeout; before, the session timeout counts
v4  a new member gets an id and must join again; v5 static members; v9 static leaders may skip
    assigning
The answer waits until all members have joined.
"""

import asyncio
from typing import Final

from kafscale.gateways.kafka.access.requirements import WholeRequest, by_group
from kafscale.gateways.kafka.calls.call import Answer, Call, Requirement
from kafscale.gateways.kafka.calls.request_order import CHANGES_MEMBERS
from kafscale.gateways.kafka.groups.group_requests import code_of_outcome, require_loaded
from kafscale.groups.classic.events import Join, Joined
from kafscale.groups.events import GroupOutcome, Rejected
from kafscale.model.errors import KafscaleError
from kafscale.model.security.access import AccessOperation, ResourceType
from kafscale.wire.kafka.errors import ErrorCode
from kafscale.wire.kafka.messages.join_group import (
    JoinGroupRequest,
    JoinGroupResponse,
    JoinGroupResponseMember,
)

API_KEY: Final = JoinGroupRequest.api_key
VERSIONS: Final = JoinGroupRequest.versions


def _refused(call: Call, code: ErrorCode) -> JoinGroupResponse:
    return JoinGroupResponse(error_code=code, member_id=call.message.member_id)


ORDER: Final = CHANGES_MEMBERS
REQUIREMENTS: Final[tuple[Requirement, ...]] = (
    WholeRequest(AccessOperation.READ, ResourceType.GROUP, by_group, _refused),
)

_ID_FIRST_FROM: Final = 4
_NULL_NAMES_FROM: Final = 7
_SKIPPING_FROM: Final = 9

prepare = require_loaded


def answer(call: Call) -> Answer:
    """Join now; the answer comes when the rebalance is over."""
    request: JoinGroupRequest = call.message
    groups = call.engine.groups
    event = _event(call)
    try:
        waiting = groups.ask(request.group_id, event)
    except KafscaleError as problem:
        return _response(call, Rejected(problem, request.member_id))
    request.protocols = []  # the group has its own copy: the frame need not wait with the answer
    return _answer(call, waiting)


async def _answer(call: Call, waiting: asyncio.Future[GroupOutcome]) -> JoinGroupResponse:
    request: JoinGroupRequest = call.message
    outcome = await call.engine.groups.settled(request.group_id, waiting, request.member_id)
    return _response(call, outcome)


def _event(call: Call) -> Join:
    request: JoinGroupRequest = call.message
    session_s = request.session_timeout_ms / 1000
    rebalance_s = request.rebalance_timeout_ms / 1000
    groups = call.engine.groups
    return Join(
        call=groups.new_call(),
        member_id=request.member_id,
        fresh_id=groups.fresh_member_id(request.group_instance_id or call.client_id),
        instance_id=request.group_instance_id,
        client_id=call.client_id,
        client_host=f"/{call.peer}",
        session_timeout_s=session_s,
        rebalance_timeout_s=rebalance_s if rebalance_s > 0 else session_s,
        protocol_type=request.protocol_type,
        protocols={row.name: row.metadata for row in request.protocols},
        needs_id=call.version >= _ID_FIRST_FROM,
        can_skip=call.version >= _SKIPPING_FROM,
    )


def _response(call: Call, outcome: GroupOutcome) -> JoinGroupResponse:
    if isinstance(outcome, Joined):
        return JoinGroupResponse(
            generation_id=outcome.generation,
            protocol_type=outcome.protocol_type,
            protocol_name=outcome.protocol,
            leader=outcome.leader,
            skip_assignment=outcome.skip_assignment,
            member_id=outcome.member_id,
            members=[
                JoinGroupResponseMember(row.member_id, row.instance_id, row.metadata)
                for row in outcome.members
            ],
        )
    assert isinstance(outcome, Rejected)
    return JoinGroupResponse(
        error_code=code_of_outcome(call, outcome),
        protocol_name=None if call.version >= _NULL_NAMES_FROM else "",
        member_id=outcome.member_id or call.message.member_id,
    )
