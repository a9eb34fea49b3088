"""Create, Delete and Update: what clients change through the control port.

Here: a topic's spec as our settings, and refusals. Objects other than topics are refused: this
cluster has no SmartModules, table formats, mirrors, or SPUs that clients could add.
Next door: what topics are (engine/topics), the connection (session.py).
"""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, Final

from kafscale.engine.topics.topics import Topics
from kafscale.gateways.client_mistakes import reason_of
from kafscale.gateways.fluvio.context import OFFSETS_TOPIC
from kafscale.gateways.fluvio.errors import DENIED, error_of, words_of
from kafscale.gateways.fluvio.session import FluvioSession
from kafscale.model.errors import (
    InvalidReplicaAssignment,
    InvalidRequest,
    InvalidTopicConfig,
    InvalidTopicName,
    KafscaleError,
    OutcomeUnknown,
)
from kafscale.model.security.access import CLUSTER_NAME, AccessOperation, ResourceType
from kafscale.model.security.audit import ALLOWED, AuditKind
from kafscale.wire.fluvio import schema
from kafscale.wire.fluvio.frame import FluvioRequest
from kafscale.wire.fluvio.messages.change_objects import (
    AddPartitions,
    CreateBegin,
    CreateTopic,
    DeleteTopic,
    NamedRequest,
    Status,
    UpdateTopic,
)
from kafscale.wire.fluvio.messages.objects import (
    ANY_COMPRESSION,
    TOPIC,
    TOPIC_COMPRESSION,
    Computed,
    TopicSpec,
)
from kafscale.wire.fluvio.messages.objects_envelope import ObjectEnvelope

_LONGEST_S: Final = 30.0  # a client gives up after 60 s


async def create(session: FluvioSession, request: FluvioRequest, frame: memoryview) -> None:
    """Create a topic."""
    await _change(session, request, frame, AccessOperation.CREATE, _create)


async def delete(session: FluvioSession, request: FluvioRequest, frame: memoryview) -> None:
    """Delete a topic."""
    await _change(session, request, frame, AccessOperation.DELETE, _delete)


async def update(session: FluvioSession, request: FluvioRequest, frame: memoryview) -> None:
    """Give a topic more partitions."""
    await _change(session, request, frame, AccessOperation.ALTER, _update)


async def _change(
    session: FluvioSession,
    request: FluvioRequest,
    frame: memoryview,
    operation: AccessOperation,
    change: Callable[[Topics, int, memoryview], Coroutine[Any, Any, None]],
) -> None:
    envelope = schema.decode(ObjectEnvelope, frame, request.version, request.body_start)
    assert isinstance(envelope.payload, memoryview)
    name = schema.decode(NamedRequest, envelope.payload, request.version).name
    kind = ResourceType.TOPIC
    outcome = ALLOWED
    status = Status(name)
    try:
        if envelope.label != TOPIC:
            raise InvalidRequest(f"{envelope.label} objects are not supported by this cluster")
        if name == OFFSETS_TOPIC:
            raise InvalidRequest(f"{OFFSETS_TOPIC} belongs to the cluster")
        if not _may_create_any(session, operation) and not session.allows(
            request, operation, kind, name
        ):
            session.send(request, Status(name, DENIED))
            return
        try:
            async with asyncio.timeout(_LONGEST_S):
                await change(session.engine.topics, request.version, envelope.payload)
        except TimeoutError:
            raise OutcomeUnknown("the store has not answered in time") from None
    except KafscaleError as problem:
        session.note_refusal(request, problem)
        outcome = reason_of(type(problem))
        status = Status(name, error_of(problem), words_of(problem))
    if not (operation is AccessOperation.CREATE and _only_checks(envelope, request.version)):
        session.audit(AuditKind.CHANGE, outcome, request, operation, kind, name)
    session.send(request, status)


def _only_checks(envelope: ObjectEnvelope, version: int) -> bool:
    """Whether the client wants to know whether it could create a topic."""
    assert isinstance(envelope.payload, memoryview)
    return envelope.label == TOPIC and schema.decode(CreateBegin, envelope.payload, version).dry_run


def _may_create_any(session: FluvioSession, operation: AccessOperation) -> bool:
    """As in Kafka, a client that may create in the cluster needs no rule for the topic."""
    create = AccessOperation.CREATE
    return operation is create and session.may(create, ResourceType.CLUSTER, CLUSTER_NAME)


async def _create(topics: Topics, version: int, payload: memoryview) -> None:
    begin = schema.decode(CreateBegin, payload, version)
    if not isinstance(begin.replicas, Computed):
        raise InvalidReplicaAssignment(
            "the cluster places partitions itself: give their number, no assignment and no mirror"
        )
    wanted = schema.decode(CreateTopic, payload, version)
    configs = _configs(wanted.spec)
    if wanted.spec.system:
        raise InvalidTopicName("clients create no topics of the cluster's own")
    count = topics.partition_count(wanted.name, begin.replicas.partitions)
    if wanted.dry_run:
        topics.check(wanted.name, count, configs)
    else:
        await topics.create(wanted.name, count, configs)


def _configs(spec: TopicSpec) -> dict[str, str | None]:
    """The topic settings that a spec asks for."""
    if spec.deduplication is not None:
        raise InvalidTopicConfig("deduplication is not supported")
    configs: dict[str, str | None] = {}
    if spec.cleanup_policy is not None:
        configs["retention.ms"] = str(spec.cleanup_policy.seconds * 1000)
    if spec.storage is not None and spec.storage.segment_size is not None:
        configs["segment.bytes"] = str(spec.storage.segment_size)
    if spec.storage is not None and spec.storage.max_partition_size is not None:
        configs["retention.bytes"] = str(spec.storage.max_partition_size)
    if spec.compression_type != ANY_COMPRESSION:
        codec = TOPIC_COMPRESSION.get(spec.compression_type)
        if codec is None:
            raise InvalidTopicConfig(f"compression type {spec.compression_type} does not exist")
        configs["compression.type"] = codec
    return configs


async def _delete(topics: Topics, version: int, payload: memoryview) -> None:
    wanted = schema.decode(DeleteTopic, payload, version)
    await topics.delete(wanted.name)


async def _update(topics: Topics, version: int, payload: memoryview) -> None:
    wanted = schema.decode(UpdateTopic, payload, version)
    if not isinstance(wanted.action, AddPartitions):
        raise InvalidRequest("mirrors are not supported")
    topic = topics.get(wanted.name)
    count = topic.partitions + wanted.action.count
    topics.check_partitions(topic, count)
    await topics.create_partitions(wanted.name, count)
