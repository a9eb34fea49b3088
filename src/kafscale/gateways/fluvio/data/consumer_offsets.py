"""The offsets that consumers keep in the cluster, as the committed offsets of groups.

Here: a consumer id is a group id. Fluvio keeps the offset of the last consumed record, a group the
offset of the next one: they differ by one.
Next door: groups and what they commit (engine/coordinator), the stream that names the consumer
(streams.py).
"""

from collections.abc import AsyncIterator
from datetime import datetime
from typing import TYPE_CHECKING, Final

from kafscale.engine.coordinator.offsets import CommittedPartition, OffsetCommit
from kafscale.engine.engine import Engine
from kafscale.gateways.client_mistakes import reason_of
from kafscale.gateways.fluvio.errors import DENIED, error_of
from kafscale.groups.events import CommitOffsets, Rejected
from kafscale.metadata.keys import CommittedOffset
from kafscale.model.errors import InvalidRequest, KafscaleError
from kafscale.model.security.access import AccessOperation, ResourceType
from kafscale.model.security.audit import ALLOWED, AuditKind
from kafscale.wire.fluvio import schema
from kafscale.wire.fluvio.errors import NO_ERROR, FluvioCode, FluvioError
from kafscale.wire.fluvio.frame import FluvioRequest
from kafscale.wire.fluvio.messages.consumer_offsets import (
    ConsumerOffset,
    DeleteConsumerOffsetRequest,
    DeleteConsumerOffsetResponse,
    FetchConsumerOffsetsRequest,
    FetchConsumerOffsetsResponse,
    OffsetFilter,
    ReplicaKey,
    UpdateConsumerOffsetRequest,
    UpdateConsumerOffsetResponse,
)

if TYPE_CHECKING:
    from kafscale.gateways.fluvio.data.session import DataSession

_NO_GENERATION: Final = -1  # of a client that is no member
_METADATA: Final = "fluvio"  # what other tools show beside the offset


async def update(session: "DataSession", request: FluvioRequest, frame: memoryview) -> None:
    """Commit an offset; the stream says of which consumer and partition."""
    wanted = schema.decode(UpdateConsumerOffsetRequest, frame, request.version, request.body_start)
    stream = session.streams.find(wanted.session_id)
    error = FluvioError(FluvioCode.FETCH_SESSION_NOT_FOUND)
    if stream is not None:
        try:
            if stream.consumer_id is None:
                raise InvalidRequest("the stream was opened without a consumer id")
            error = DENIED
            if _may_commit(session, request, stream.consumer_id, stream.topic.name):
                place = OffsetCommit(
                    stream.topic.name, stream.partition, wanted.offset + 1, metadata=_METADATA
                )
                await _commit(session.engine, stream.consumer_id, place)
                error = NO_ERROR
        except KafscaleError as problem:
            session.note_refusal(request, problem)
            error = error_of(problem)
    session.engine.metrics.offsets_committed(int(error is NO_ERROR), int(error is not NO_ERROR))
    session.send(request, UpdateConsumerOffsetResponse(wanted.offset, error))


def _may_commit(
    session: "DataSession", request: FluvioRequest, consumer_id: str, topic: str
) -> bool:
    """As in Kafka, a client that commits must be allowed to read topic and group."""
    read = AccessOperation.READ
    return session.allows(request, read, ResourceType.GROUP, consumer_id) and session.allows(
        request, read, ResourceType.TOPIC, topic
    )


async def _commit(engine: Engine, group_id: str, place: OffsetCommit) -> None:
    """Commit as any client does that is no member: a group with members refuses it."""
    if place.offset < 0:
        raise InvalidRequest(f"{place.offset - 1} is no offset of a record")
    if not engine.cluster.may_coordinate(group_id):
        # A client sends this to the broker of its stream, and knows of no coordinator.
        await engine.offsets.commit_from_outside(group_id, place)
        return
    await engine.groups.load(group_id)
    event = CommitOffsets(call=engine.groups.new_call(), generation=_NO_GENERATION, member_id="")
    outcome = engine.groups.ask(group_id, event).result()
    if isinstance(outcome, Rejected):
        raise outcome.problem
    (problem,) = await engine.offsets.commit(group_id, [place])
    if problem is not None:
        raise problem


async def delete(session: "DataSession", request: FluvioRequest, frame: memoryview) -> None:
    """Delete what a consumer has committed for a partition."""
    wanted = schema.decode(DeleteConsumerOffsetRequest, frame, request.version, request.body_start)
    place = (wanted.replica.topic, wanted.replica.partition)
    operation, group = AccessOperation.DELETE, ResourceType.GROUP
    if not session.allows(request, operation, group, wanted.consumer_id) or not session.allows(
        request, AccessOperation.READ, ResourceType.TOPIC, wanted.replica.topic
    ):
        session.send(request, DeleteConsumerOffsetResponse(DENIED))
        return
    error, outcome = NO_ERROR, ALLOWED
    try:
        await _delete(session.engine, wanted.consumer_id, place)
    except KafscaleError as problem:
        session.note_refusal(request, problem)
        error, outcome = error_of(problem), reason_of(type(problem))
    session.audit(AuditKind.CHANGE, outcome, request, operation, group, wanted.consumer_id)
    session.send(request, DeleteConsumerOffsetResponse(error))


async def _delete(engine: Engine, group_id: str, place: CommittedPartition) -> None:
    if not engine.cluster.may_coordinate(group_id):
        await engine.offsets.delete_from_outside(group_id, place)
        return
    problems = await engine.delete_offsets(group_id, [place])
    if place in problems:
        raise problems[place]


async def fetch(session: "DataSession", request: FluvioRequest, frame: memoryview) -> None:
    """List committed offsets, of all consumers or of one."""
    wanted = schema.decode(FetchConsumerOffsetsRequest, frame, request.version, request.body_start)
    try:
        rows = [row async for row in _each_offset(session, wanted.filter or OffsetFilter())]
        answer = FetchConsumerOffsetsResponse(consumers=rows)
    except KafscaleError as problem:
        session.note_refusal(request, problem)
        answer = FetchConsumerOffsetsResponse(error_of(problem))
    session.send(request, answer)


async def _each_offset(
    session: "DataSession", wanted: OffsetFilter
) -> AsyncIterator[ConsumerOffset]:
    engine = session.engine
    replica = wanted.replica
    places = None if replica is None else [(replica.topic, replica.partition)]
    consumers = [wanted.consumer_id] if wanted.consumer_id is not None else None
    if consumers is None:
        consumers = list(await engine.groups.list_stored())
    async for consumer_id in engine.turns.each(consumers):
        if session.may(AccessOperation.DESCRIBE, ResourceType.GROUP, consumer_id):
            committed = await engine.offsets.committed(consumer_id, places)
            for (topic, partition), value in committed.items():
                if value.offset > 0 and session.may(  # before 1 nothing was consumed
                    AccessOperation.DESCRIBE, ResourceType.TOPIC, topic
                ):
                    yield ConsumerOffset(
                        consumer_id,
                        ReplicaKey(topic, partition),
                        value.offset - 1,
                        _modified_s(value),
                    )


def _modified_s(value: CommittedOffset) -> int:
    return int(datetime.fromisoformat(value.committed_at).timestamp())
