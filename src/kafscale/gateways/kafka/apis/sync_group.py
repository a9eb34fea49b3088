"""SyncGroup: API 14, versions 0-5.

v3  static members; v5 the protocol is named and checked
The answer waits until the leader's assignment is there and saved.
"""

import asyncio
from typing import Final

from kafscale.gateways.kafka.access.requirements import WholeRequest, by_group, error_alone
from kafscale.gateways.kafka.calls.call import Answer, Call, Requirement
from kafscale.gateways.kafka.calls.request_order import CHANGES_MEMBERS
from kafscale.gateways.kafka.groups.group_requests import code_of_outcome, require_loaded
from kafscale.groups.classic.events import Sync, Synced
from kafscale.groups.events import GroupOutcome, Rejected
from kafscale.model.errors import KafscaleError
from kafscale.model.security.access import AccessOperation, ResourceType
from kafscale.wire.kafka.messages.sync_group import SyncGroupRequest, SyncGroupResponse

API_KEY: Final = SyncGroupRequest.api_key
VERSIONS: Final = SyncGroupRequest.versions
ORDER: Final = CHANGES_MEMBERS
REQUIREMENTS: Final[tuple[Requirement, ...]] = (
    WholeRequest(
        AccessOperation.READ, ResourceType.GROUP, by_group, error_alone(SyncGroupResponse)
    ),
)

prepare = require_loaded


def answer(call: Call) -> Answer:
    """Apply the request now; the answer comes when the leader has assigned partitions."""
    request: SyncGroupRequest = call.message
    groups = call.engine.groups
    event = Sync(
        call=groups.new_call(),
        generation=request.generation_id,
        member_id=request.member_id,
        instance_id=request.group_instance_id,
        protocol_type=request.protocol_type,
        protocol=request.protocol_name,
        assignments={row.member_id: row.assignment for row in request.assignments},
    )
    try:
        waiting = groups.ask(request.group_id, event)
    except KafscaleError as problem:
        return _response(call, Rejected(problem))
    request.assignments = []  # the group has its own copy: the frame need not wait with the answer
    return _answer(call, waiting)


async def _answer(call: Call, waiting: asyncio.Future[GroupOutcome]) -> SyncGroupResponse:
    request: SyncGroupRequest = call.message
    outcome = await call.engine.groups.settled(request.group_id, waiting, request.member_id)
    return _response(call, outcome)


def _response(call: Call, outcome: GroupOutcome) -> SyncGroupResponse:
    if isinstance(outcome, Synced):
        return SyncGroupResponse(
            protocol_type=outcome.protocol_type,
            protocol_name=outcome.protocol,
            assignment=outcome.assignment,
        )
    return SyncGroupResponse(error_code=code_of_outcome(call, outcome))
