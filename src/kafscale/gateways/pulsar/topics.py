"""Topics as Pulsar's clients name them, and which broker serves them.

Here: names and partitions resolved, PARTITIONED_METADATA, LOOKUP, GET_TOPICS_OF_NAMESPACE. Errors
of these commands go into their own answers: a client loses an ERROR frame for them.
Next door: the forms of a name (model/tenancy.py), creating topics (engine/topics).

A topic of one partition is used by its bare name. The client's multi-topic consumer, which it would
use otherwise, cannot do all that a simple one can.
"""

import re
from collections.abc import Callable
from typing import Final, NamedTuple

from kafscale.engine.cluster.placement import NO_BROKER
from kafscale.engine.topics.topic import Topic
from kafscale.gateways.pulsar.channel import Channel, error_of
from kafscale.gateways.pulsar.context import PulsarContext, Refused
from kafscale.model.errors import KafscaleError, UnknownTopic
from kafscale.model.names import is_internal
from kafscale.model.security.access import AccessOperation, ResourceType
from kafscale.wire.pulsar.errors import ServerError
from kafscale.wire.pulsar.messages.commands import (
    GetTopicsOfNamespace,
    GetTopicsOfNamespaceResponse,
    Lookup,
    LookupResponse,
    PartitionedMetadata,
    PartitionedMetadataResponse,
)

_PARTITION: Final = re.compile(r"(.+)-partition-(0|[1-9][0-9]{0,8})")
_SUCCESS, _FAILED = 0, 1
_CONNECT, _LOOKUP_FAILED = 1, 2
_NON_PERSISTENT: Final = 1


class PartitionPlace(NamedTuple):
    """A partition, and whether the client named it as one."""

    topic: Topic
    partition: int
    is_named: bool


async def find_place(
    context: PulsarContext, name: str, require_create: Callable[[str], None] | None = None
) -> PartitionPlace:
    """The partition that a client means. Raises KafscaleError.

    A topic that is missing is created if `require_create` is there. That raises if the client may
    not create a topic of this name.
    """
    canonical = context.tenancy.canonical(name)
    if is_internal(canonical):
        require_create = None
    part = _PARTITION.fullmatch(canonical)
    if part is not None:
        topic = await _find(context, part[1])
        number = int(part[2])
        if topic is not None and number < topic.partitions:
            return PartitionPlace(topic, number, True)
    topic = await _find(context, canonical)
    if topic is None:
        if part is not None or require_create is None or not context.engine.auto_create:
            raise UnknownTopic(f"there is no topic {name!r}")
        require_create(canonical)
        topic = await context.engine.topics.find_or_create(canonical)
    return PartitionPlace(topic, 0, False)


async def _find(context: PulsarContext, name: str) -> Topic | None:
    return context.engine.topics.find(name) or await context.engine.topics.discover(name)


async def partitioned_metadata(
    channel: Channel, asked: PartitionedMetadata
) -> PartitionedMetadataResponse:
    """Say how many partitions a topic has."""
    try:
        require_create = channel.require_create if asked.metadata_auto_creation_enabled else None
        place = await find_place(channel.context, asked.topic, require_create)
        channel.require(AccessOperation.DESCRIBE, ResourceType.TOPIC, place.topic.name)
    except (KafscaleError, Refused) as problem:
        return PartitionedMetadataResponse(
            request_id=asked.request_id,
            response=_FAILED,
            error=error_of(problem),
            message=str(problem),
        )
    count = place.topic.partitions
    is_bare = place.is_named or count == 1
    return PartitionedMetadataResponse(
        partitions=0 if is_bare else count, request_id=asked.request_id, response=_SUCCESS
    )


async def lookup(channel: Channel, asked: Lookup) -> LookupResponse:
    """Say where the broker is that serves a partition."""
    try:
        place = await find_place(channel.context, asked.topic, channel.require_create)
        channel.require(AccessOperation.DESCRIBE, ResourceType.TOPIC, place.topic.name)
        url = _url(channel, place)
    except (KafscaleError, Refused) as problem:
        return LookupResponse(
            response=_LOOKUP_FAILED,
            request_id=asked.request_id,
            error=error_of(problem),
            message=str(problem),
        )
    context = channel.context
    # A client that is led on names this address to whom it connects, by TLS or not.
    return LookupResponse(
        broker_service_url=url if context.leads_on or not context.is_encrypted else None,
        broker_service_url_tls=url if context.leads_on or context.is_encrypted else None,
        response=_CONNECT,
        request_id=asked.request_id,
        authoritative=True,
        proxy_through_service_url=context.leads_on or None,
    )


def _url(channel: Channel, place: PartitionPlace) -> str:
    """Where a partition's owner has the listener that this client came in by."""
    cluster, listener = channel.context.engine.cluster, channel.connection.listener
    leader = cluster.leader_of(place.topic.folder(place.partition))
    for node in cluster.nodes():
        if node.broker_id == leader != NO_BROKER:
            endpoint = node.endpoints.get(listener)
            if endpoint is not None:
                return f"{channel.context.scheme}://{endpoint}"
    raise Refused(
        ServerError.SERVICE_NOT_READY,
        f"no broker with a listener {listener} serves {place.topic.name} now",
    )


def topics_of_namespace(
    channel: Channel, asked: GetTopicsOfNamespace
) -> GetTopicsOfNamespaceResponse:
    """List the topics of a namespace; the client picks those that it wants."""
    names: list[str] = []
    if asked.mode != _NON_PERSISTENT:
        tenancy = channel.context.tenancy
        for topic in channel.context.engine.topics.all():
            full = tenancy.full(topic.name)
            is_here = full.startswith(f"persistent://{asked.namespace}/")
            if is_here and not is_internal(topic.name) and _may_see(channel, topic):
                names += _partition_names(full, topic)
    return GetTopicsOfNamespaceResponse(
        request_id=asked.request_id, topics=names, filtered=False, changed=True
    )


def _may_see(channel: Channel, topic: Topic) -> bool:
    connection = channel.connection
    return channel.context.authorizer.allows(
        connection.principal,
        connection.peer,
        AccessOperation.DESCRIBE,
        ResourceType.TOPIC,
        topic.name,
    )


def _partition_names(full: str, topic: Topic) -> list[str]:
    if topic.partitions == 1:
        return [full]
    return [f"{full}-partition-{number}" for number in range(topic.partitions)]
