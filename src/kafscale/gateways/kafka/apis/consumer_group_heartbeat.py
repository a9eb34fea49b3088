"""ConsumerGroupHeartbeat: API 68, versions 0-1.

v1  patterns of topics; the client chooses its member id
The answer waits until the store has what it gives: a partition is promised to one member alone,
also when another broker takes over the group.
"""

from collections.abc import Iterable
from typing import Final

from kafscale.gateways.kafka.access.api_requirements import SubscribedTopics
from kafscale.gateways.kafka.access.authorization import may_describe
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
from kafscale.gateways.kafka.groups.topic_patterns import compile_pattern
from kafscale.groups.consumer.events import AWAY, LEFT, Beat, Beaten, Depart, MemberPartition
from kafscale.groups.events import GroupOutcome, Rejected
from kafscale.model.errors import InvalidRequest, KafscaleError
from kafscale.model.security.access import AccessOperation, ResourceType
from kafscale.wire.kafka.errors import ErrorCode
from kafscale.wire.kafka.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    OwnedTopicPartitions,
)

API_KEY: Final = ConsumerGroupHeartbeatRequest.api_key
VERSIONS: Final = ConsumerGroupHeartbeatRequest.versions


def _refused(call: Call, code: ErrorCode) -> ConsumerGroupHeartbeatResponse:
    return ConsumerGroupHeartbeatResponse(error_code=code)


ORDER: Final = CHANGES_MEMBERS
REQUIREMENTS: Final[tuple[Requirement, ...]] = (
    WholeRequest(AccessOperation.READ, ResourceType.GROUP, by_group, _refused),
    SubscribedTopics(_refused),
)

_OWN_IDS_FROM: Final = 1

prepare = require_loaded


def answer(call: Call) -> Answer:
    """Note that the member is alive, and tell it its epoch and what it may read."""
    request: ConsumerGroupHeartbeatRequest = call.message
    problem = _objection(call)
    if problem is not None:
        return _response(call, Rejected(InvalidRequest(problem)))
    if request.member_epoch in (LEFT, AWAY):
        return _answer_departure(call)
    return _answer_beat(call)


def _objection(call: Call) -> str | None:
    """What no correct client sends."""
    request: ConsumerGroupHeartbeatRequest = call.message
    if not request.group_id:
        return "the group has no id"
    if request.instance_id == "" or request.rack_id == "":
        return "instance id and rack are null or not empty"
    if not request.member_id and (call.version >= _OWN_IDS_FROM or request.member_epoch != 0):
        return "the member has no id"
    if request.member_epoch < AWAY:
        return "there is no such epoch"
    if request.member_epoch == AWAY and request.instance_id is None:
        return "only static members go away for a while"
    return _objection_to_join(request) if request.member_epoch == 0 else None


def _objection_to_join(request: ConsumerGroupHeartbeatRequest) -> str | None:
    if request.rebalance_timeout_ms < 0:
        return "a client that joins says its rebalance timeout"
    if request.topic_partitions is None or request.topic_partitions:
        return "a client that joins owns no partitions"
    names, regex = request.subscribed_topic_names, request.subscribed_topic_regex
    if names is None and not regex:
        return "a client that joins says what it subscribes to"
    return None


async def _answer_departure(call: Call) -> ConsumerGroupHeartbeatResponse:
    request: ConsumerGroupHeartbeatRequest = call.message
    event = Depart(
        call=call.engine.groups.new_call(),
        member_id=request.member_id,
        epoch=request.member_epoch,
        instance_id=request.instance_id,
    )
    return _response(call, await ask(call, event))


async def _answer_beat(call: Call) -> ConsumerGroupHeartbeatResponse:
    request: ConsumerGroupHeartbeatRequest = call.message
    revision = call.engine.topics.revision()
    try:
        matched = await _match(call)
    except KafscaleError as problem:
        return _response(call, Rejected(problem, request.member_id))
    owned = request.topic_partitions
    groups = call.engine.groups
    event = Beat(
        call=groups.new_call(),
        member_id=request.member_id,
        fresh_id=groups.fresh_member_id(request.instance_id or call.client_id),
        epoch=request.member_epoch,
        instance_id=request.instance_id,
        rack=request.rack_id,
        rebalance_timeout_s=_seconds(request.rebalance_timeout_ms),
        names=names_of(request.subscribed_topic_names),
        regex=request.subscribed_topic_regex,
        matched=matched,
        matched_at=revision,
        assignor=request.server_assignor,
        owned=None if owned is None else frozenset(_places(owned)),
        client_id=call.client_id,
        client_host=f"/{call.peer}",
    )
    return _response(call, await ask(call, event))


async def _match(call: Call) -> frozenset[str] | None:
    """The topics that the member's pattern matches, as far as it may know of them."""
    request: ConsumerGroupHeartbeatRequest = call.message
    groups = call.engine.groups
    regex = request.subscribed_topic_regex
    if regex is None:
        regex = groups.regex_to_match_again(request.group_id, request.member_id)
        if regex is None:
            return None
    if not regex:
        return frozenset()  # the member takes its pattern back
    matches = compile_pattern(regex)
    return frozenset(
        [
            topic.name
            async for topic in call.each(call.engine.topics.all())
            if matches(topic.name) and may_describe(call, topic.name)
        ]
    )


def _seconds(ms: int) -> float | None:
    return None if ms < 0 else ms / 1000


def _places(rows: Iterable[OwnedTopicPartitions]) -> Iterable[MemberPartition]:
    return ((row.topic_id, partition) for row in rows for partition in row.partitions)


def _response(call: Call, outcome: GroupOutcome) -> ConsumerGroupHeartbeatResponse:
    if isinstance(outcome, Beaten):
        return ConsumerGroupHeartbeatResponse(
            member_id=outcome.member_id,
            member_epoch=outcome.epoch,
            heartbeat_interval_ms=round(outcome.heartbeat_s * 1000),
            assignment=assignment_of(outcome.assigned),
        )
    assert isinstance(outcome, Rejected)
    client_errors.note(call, outcome.problem)
    return ConsumerGroupHeartbeatResponse(
        # Every other code for a store that is away is final for these clients.
        error_code=coordinator_code_of(outcome.problem, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS),
        error_message=words_of(outcome.problem),
    )
