"""ShareGroupHeartbeat: API 76, version 1.

A group id belongs to one type of groups: a client cannot join as a member of a share group where
there is a group of another type, even without members.
"""

from typing import Final

from kafscale.gateways.kafka.access.api_requirements import SubscribedTopics
from kafscale.gateways.kafka.access.requirements import WholeRequest, by_group
from kafscale.gateways.kafka.calls import client_errors
from kafscale.gateways.kafka.calls.call import Answer, Call, Requirement
from kafscale.gateways.kafka.calls.errors import coordinator_code_of, words_of
from kafscale.gateways.kafka.calls.request_order import CHANGES_MEMBERS
from kafscale.gateways.kafka.groups.assigned_members import (
    ask,
    assignment_of,
    names_of,
)
from kafscale.gateways.kafka.groups.group_requests import require_loaded
from kafscale.groups.consumer.events import LEFT, Beat, Beaten, Depart
from kafscale.groups.events import GroupOutcome, Rejected
from kafscale.model.errors import InvalidRequest, KafscaleError
from kafscale.model.group_types import SHARE
from kafscale.model.security.access import AccessOperation, ResourceType
from kafscale.wire.kafka.errors import ErrorCode
from kafscale.wire.kafka.messages.share_group_heartbeat import (
    ShareGroupHeartbeatRequest,
    ShareGroupHeartbeatResponse,
)

API_KEY: Final = ShareGroupHeartbeatRequest.api_key
VERSIONS: Final = ShareGroupHeartbeatRequest.versions


def _refused(call: Call, code: ErrorCode) -> ShareGroupHeartbeatResponse:
    return ShareGroupHeartbeatResponse(error_code=code)


ORDER: Final = CHANGES_MEMBERS
REQUIREMENTS: Final[tuple[Requirement, ...]] = (
    WholeRequest(AccessOperation.READ, ResourceType.GROUP, by_group, _refused),
    SubscribedTopics(_refused),
)

prepare = require_loaded


def answer(call: Call) -> Answer:
    """Note that the member is alive, and tell it its epoch and what it reads."""
    problem = _objection(call.message)
    if problem is not None:
        return _response(call, Rejected(InvalidRequest(problem)))
    return _answer(call)


def _objection(request: ShareGroupHeartbeatRequest) -> str | None:
    """What no correct client sends."""
    if not request.group_id:
        return "the group has no id"
    if not request.member_id:
        return "the member has no id"
    if request.rack_id == "":
        return "a rack is null or not empty"
    if request.member_epoch < LEFT:
        return "there is no such epoch"
    if request.member_epoch == 0 and not request.subscribed_topic_names:
        return "a client that joins says what it subscribes to"
    return None


async def _answer(call: Call) -> ShareGroupHeartbeatResponse:
    request: ShareGroupHeartbeatRequest = call.message
    groups = call.engine.groups
    event: Beat | Depart
    if request.member_epoch == LEFT:
        event = Depart(
            call=groups.new_call(), group_type=SHARE, member_id=request.member_id, epoch=LEFT
        )
    else:
        event = Beat(
            call=groups.new_call(),
            group_type=SHARE,
            member_id=request.member_id,
            epoch=request.member_epoch,
            rack=request.rack_id,
            names=names_of(request.subscribed_topic_names),
            client_id=call.client_id,
            client_host=f"/{call.peer}",
        )
    try:
        if request.member_epoch == 0:
            await groups.require_type(request.group_id, SHARE)
    except KafscaleError as problem:
        return _response(call, Rejected(problem, request.member_id))
    return _response(call, await ask(call, event))


def _response(call: Call, outcome: GroupOutcome) -> ShareGroupHeartbeatResponse:
    if isinstance(outcome, Beaten):
        return ShareGroupHeartbeatResponse(
            member_id=outcome.member_id,
            member_epoch=outcome.epoch,
            heartbeat_interval_ms=round(outcome.heartbeat_s * 1000),
            assignment=assignment_of(outcome.assigned),
        )
    assert isinstance(outcome, Rejected)
    client_errors.note(call, outcome.problem)
    return ShareGroupHeartbeatResponse(
        # Every other code for a store that is away is final for these clients.
        error_code=coordinator_code_of(outcome.problem, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS),
        error_message=words_of(outcome.problem),
    )
