"""ShareAcknowledge: API 79, versions 1-2.

v2  a member can keep records for longer
The answer waits until the decisions about records are saved.
"""

import asyncio
from typing import Final

from kafscale.gateways.kafka.access.api_requirements import SharedTopics
from kafscale.gateways.kafka.access.requirements import WholeRequest, error_alone
from kafscale.gateways.kafka.calls import client_errors
from kafscale.gateways.kafka.calls.call import Answer, Call, Requirement
from kafscale.gateways.kafka.calls.errors import code_of, words_of
from kafscale.gateways.kafka.calls.request_order import POLLS_RECORDS
from kafscale.gateways.kafka.calls.share_sessions import FIRST_EPOCH, LAST_EPOCH, ShareSession
from kafscale.gateways.kafka.shares import acquiring
from kafscale.gateways.kafka.shares.leaders import Leaders
from kafscale.model.errors import InvalidRequest, InvalidShareSessionEpoch, KafscaleError
from kafscale.model.security.access import AccessOperation, ResourceType
from kafscale.wire.kafka.messages.share_acknowledge import (
    AcknowledgedPartition,
    ShareAcknowledgeRequest,
    ShareAcknowledgeResponse,
    ShareAcknowledgeTopicResponse,
)

API_KEY: Final = ShareAcknowledgeRequest.api_key
VERSIONS: Final = ShareAcknowledgeRequest.versions
ORDER: Final = POLLS_RECORDS
REQUIREMENTS: Final[tuple[Requirement, ...]] = (
    WholeRequest(
        AccessOperation.READ,
        ResourceType.GROUP,
        lambda request: request.group_id or "",
        error_alone(ShareAcknowledgeResponse),
    ),
    SharedTopics(
        lambda row, code: ShareAcknowledgeTopicResponse(
            row.topic_id,
            [AcknowledgedPartition(one.partition_index, code) for one in row.partitions],
        )
    ),
)


def answer(call: Call) -> Answer:
    """Find the session at once, in the order of requests; saving takes time."""
    request: ShareAcknowledgeRequest = call.message
    try:
        if not request.group_id or not request.member_id:
            raise InvalidRequest("a share session has a group and a member")
        if request.share_session_epoch == FIRST_EPOCH:
            raise InvalidShareSessionEpoch("a session begins with a fetch")
        key = (request.group_id, request.member_id)
        session = call.context.share_sessions.find(key, request.share_session_epoch)
    except KafscaleError as problem:
        client_errors.note(call, problem)
        return ShareAcknowledgeResponse(
            error_code=code_of(problem), error_message=words_of(problem)
        )
    return _answer(call, session)


async def _answer(call: Call, session: ShareSession) -> ShareAcknowledgeResponse:
    request: ShareAcknowledgeRequest = call.message
    settings = call.engine.groups.configs.of(session.key[0])
    is_enabled = settings.text("share.renew.acknowledge.enable") == "true"
    named = [(topic.topic_id, one) for topic in request.topics for one in topic.partitions]
    problems = await asyncio.gather(
        *(
            acquiring.settle(
                session,
                (topic_id, one.partition_index),
                one.acknowledgement_batches,
                may_renew=request.is_renew_ack and is_enabled,
            )
            for topic_id, one in named
        )
    )
    if request.share_session_epoch == LAST_EPOCH:
        call.at_close.pop(session, None)
        call.context.share_sessions.end_one(session)
    leaders = Leaders(call)
    topics: dict[bytes, ShareAcknowledgeTopicResponse] = {}
    for (topic_id, one), problem in zip(named, problems, strict=True):
        topic = topics.setdefault(topic_id, ShareAcknowledgeTopicResponse(topic_id, []))
        row = AcknowledgedPartition(
            one.partition_index, current_leader=leaders.of((topic_id, one.partition_index), problem)
        )
        if problem is not None:
            client_errors.note(call, problem)
            row.error_code, row.error_message = code_of(problem), words_of(problem)
        topic.partitions.append(row)
    return ShareAcknowledgeResponse(
        acquisition_lock_timeout_ms=settings.number("share.record.lock.duration.ms"),
        responses=list(topics.values()),
        node_endpoints=leaders.endpoints(),
    )
