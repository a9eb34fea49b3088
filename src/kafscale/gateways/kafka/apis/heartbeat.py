"""Heartbeat: API 12, versions 0-4.

v3  static members
"""

from typing import Final

from kafscale.gateways.kafka.access.requirements import WholeRequest, by_group, error_alone
from kafscale.gateways.kafka.calls.call import Answer, Call, Requirement
from kafscale.gateways.kafka.calls.request_order import FREE
from kafscale.gateways.kafka.groups.group_requests import apply, code_of_outcome, require_loaded
from kafscale.groups.classic.events import Heartbeat
from kafscale.model.security.access import AccessOperation, ResourceType
from kafscale.wire.kafka.messages.heartbeat import HeartbeatRequest, HeartbeatResponse

API_KEY: Final = HeartbeatRequest.api_key
VERSIONS: Final = HeartbeatRequest.versions
ORDER: Final = FREE
REQUIREMENTS: Final[tuple[Requirement, ...]] = (
    WholeRequest(
        AccessOperation.READ, ResourceType.GROUP, by_group, error_alone(HeartbeatResponse)
    ),
)

prepare = require_loaded


def answer(call: Call) -> Answer:
    """Note that the member is alive, and tell it whether it must join again."""
    request: HeartbeatRequest = call.message
    event = Heartbeat(
        call=call.engine.groups.new_call(),
        generation=request.generation_id,
        member_id=request.member_id,
        instance_id=request.group_instance_id,
    )
    return HeartbeatResponse(error_code=code_of_outcome(call, apply(call, event)))
