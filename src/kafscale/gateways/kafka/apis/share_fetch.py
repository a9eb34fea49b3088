"""ShareFetch: API 78, versions 1-2.

v2  a member can ask for no more records than it wants, and keep records for longer
A request first decides about records that the member has, then takes others for it. The answer
waits until the decisions are saved.
"""

import asyncio
from collections.abc import Sequence
from typing import Final

from kafscale.gateways.kafka.access.api_requirements import (
    SharedTopics,
    ShareSessionTopics,
    may_read,
)
from kafscale.gateways.kafka.access.requirements import WholeRequest, error_alone
from kafscale.gateways.kafka.calls import client_errors
from kafscale.gateways.kafka.calls.call import Answer, Call, Requirement
from kafscale.gateways.kafka.calls.errors import code_of, words_of
from kafscale.gateways.kafka.calls.request_order import POLLS_RECORDS
from kafscale.gateways.kafka.calls.share_sessions import (
    FIRST_EPOCH,
    LAST_EPOCH,
    Room,
    SharePlace,
    ShareSession,
)
from kafscale.gateways.kafka.shares import acquiring
from kafscale.gateways.kafka.shares.leaders import Leaders
from kafscale.model.errors import InvalidRequest, KafscaleError
from kafscale.model.security.access import AccessOperation, ResourceType
from kafscale.subscriptions.events import MessageDelivery
from kafscale.wire.kafka.messages.share_fetch import (
    AcquiredRecords,
    ShareFetchableTopicResponse,
    ShareFetchPartition,
    ShareFetchRequest,
    ShareFetchResponse,
    SharePartitionData,
)

API_KEY: Final = ShareFetchRequest.api_key
VERSIONS: Final = ShareFetchRequest.versions
ORDER: Final = POLLS_RECORDS
REQUIREMENTS: Final[tuple[Requirement, ...]] = (
    WholeRequest(
        AccessOperation.READ,
        ResourceType.GROUP,
        lambda request: request.group_id or "",
        error_alone(ShareFetchResponse),
    ),
    ShareSessionTopics(
        lambda topic_id, partition, code: ShareFetchableTopicResponse(
            topic_id, [SharePartitionData(partition, code)]
        )
    ),
    SharedTopics(
        lambda row, code: ShareFetchableTopicResponse(
            row.topic_id,
            [
                SharePartitionData(
                    one.partition_index, code, None, code if one.acknowledgement_batches else 0
                )
                for one in row.partitions
            ],
        )
    ),
)

_RECORD_LIMIT: Final = 1  # the mode in which a member gets no more records than it asks for
_LARGEST_ANSWER: Final = 57_671_680
_LONGEST_WAIT_MS: Final = 30_000
_RENEWS_FROM: Final = 2


def answer(call: Call) -> Answer:
    """Find the session at once, in the order of requests; the rest may wait."""
    request: ShareFetchRequest = call.message
    try:
        session = _session(call, request)
    except KafscaleError as problem:
        client_errors.note(call, problem)
        return ShareFetchResponse(error_code=code_of(problem), error_message=words_of(problem))
    return _answer(call, session)


def _session(call: Call, request: ShareFetchRequest) -> ShareSession:
    """Begin or find the session of a request, and have it read what the request names."""
    if not request.group_id or not request.member_id:
        raise InvalidRequest("a share session has a group and a member")
    sessions, key = call.context.share_sessions, (request.group_id, request.member_id)
    named = [
        (topic.topic_id, one.partition_index)
        for topic in request.topics
        for one in topic.partitions
    ]
    if request.share_session_epoch == FIRST_EPOCH:
        if any(one.acknowledgement_batches for one in _partitions(request)):
            raise InvalidRequest("a member that begins a session has nothing to acknowledge")
        session = sessions.begin(key)
        call.at_close[session] = lambda: sessions.end_one(session)
    else:
        session = sessions.find(key, request.share_session_epoch)
    if request.share_session_epoch != LAST_EPOCH:
        sessions.read(session, named)
    for topic in request.forgotten_topics_data:
        for partition in topic.partitions:
            part = session.parts.get((topic.topic_id, partition))
            if part is not None:
                part.is_wanted = False
    return session


def _partitions(request: ShareFetchRequest) -> Sequence[ShareFetchPartition]:
    return [one for topic in request.topics for one in topic.partitions]


async def _answer(call: Call, session: ShareSession) -> ShareFetchResponse:
    request: ShareFetchRequest = call.message
    is_last = request.share_session_epoch == LAST_EPOCH
    async with session.busy, asyncio.TaskGroup() as saving:
        if not call.context.authorizer.allows_all:
            session.deny(lambda topic_id: not may_read(call, topic_id))
        settling = {
            (topic.topic_id, one.partition_index): saving.create_task(
                acquiring.settle(
                    session,
                    (topic.topic_id, one.partition_index),
                    one.acknowledgement_batches,
                    may_renew=_may_renew(call),
                )
            )
            for topic in request.topics
            for one in topic.partitions
            if one.acknowledgement_batches
        }
        # Decisions take effect before anything is taken, and are saved meanwhile.
        await asyncio.sleep(0)
        if request.max_records > 0 and not request.is_renew_ack and not is_last:
            await _acquire(call, session)
    if is_last:
        call.at_close.pop(session, None)
        call.context.share_sessions.end_one(session)
    return _response(call, session, {place: one.result() for place, one in settling.items()})


def _may_renew(call: Call) -> bool:
    settings = call.engine.groups.configs.of(call.message.group_id)
    is_enabled = settings.text("share.renew.acknowledge.enable") == "true"
    return call.version >= _RENEWS_FROM and call.message.is_renew_ack and is_enabled


async def _acquire(call: Call, session: ShareSession) -> None:
    request: ShareFetchRequest = call.message
    max_bytes = max(0, min(request.max_bytes, _LARGEST_ANSWER))
    wait_ms = max(0, min(request.max_wait_ms, _LONGEST_WAIT_MS))
    room = Room(
        request.max_records, max_bytes, is_exact=request.share_acquire_mode == _RECORD_LIMIT
    )
    least = min(max(1, request.min_bytes), max_bytes)
    await acquiring.acquire(call, session, room, least, wait_ms / 1000)


def _response(
    call: Call, session: ShareSession, acknowledged: dict[SharePlace, KafscaleError | None]
) -> ShareFetchResponse:
    request: ShareFetchRequest = call.message
    leaders = Leaders(call)
    topics: dict[bytes, ShareFetchableTopicResponse] = {}
    is_first = request.share_session_epoch == FIRST_EPOCH
    for place in dict.fromkeys((*acknowledged, *session.parts)):
        part = session.parts.get(place)
        problem = None if part is None else part.problem
        taken = [] if part is None else part.taken
        if part is not None:
            part.problem, part.taken = None, []
        if not (is_first or problem or taken or place in acknowledged):
            continue
        refusal = acknowledged.get(place)
        topic = topics.setdefault(place[0], ShareFetchableTopicResponse(place[0], []))
        row = SharePartitionData(
            partition_index=place[1],
            current_leader=leaders.of(place, problem or refusal),
        )
        if problem is not None:
            client_errors.note(call, problem)
            row.error_code, row.error_message = code_of(problem), words_of(problem)
        if refusal is not None:
            client_errors.note(call, refusal)
            row.acknowledge_error_code = code_of(refusal)
            row.acknowledge_error_message = words_of(refusal)
        _fill(row, taken)
        topic.partitions.append(row)
    settings = call.engine.groups.configs.of(session.key[0])
    return ShareFetchResponse(
        acquisition_lock_timeout_ms=settings.number("share.record.lock.duration.ms"),
        responses=list(topics.values()),
        node_endpoints=leaders.endpoints(),
    )


def _fill(row: SharePartitionData, taken: list[MessageDelivery]) -> None:
    """Batches in the order of their offsets, each once, and which of their records are taken."""
    batches: dict[int, memoryview] = {}
    for delivery in sorted(taken):
        source = delivery.source
        assert isinstance(source, memoryview)
        batches.setdefault(int.from_bytes(source[:8], "big"), source)
        count = delivery.redeliveries + 1
        last = row.acquired_records[-1] if row.acquired_records else None
        if last is not None and (last.last_offset + 1, last.delivery_count) == (
            delivery.first,
            count,
        ):
            last.last_offset = delivery.next - 1
        else:
            row.acquired_records.append(AcquiredRecords(delivery.first, delivery.next - 1, count))
    row.records = [batches[base] for base in sorted(batches)] or b""
