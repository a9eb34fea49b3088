"""Metadata: API 3, versions 0-12.

v0   no topics named means all; v1 and later: null means all, none named means none
v4   the client may forbid creating what is missing
v10  topic ids; v12 topics may be asked for by id
The broker looks in the bucket for a topic that it does not know. If there is none, it creates the
topic where its settings, the request and the authorizer allow that.
"""

from typing import Final

from kafscale.engine.cluster.membership import Node
from kafscale.engine.cluster.placement import NO_BROKER
from kafscale.engine.topics.topic import Topic
from kafscale.gateways.kafka.access.api_requirements import MetadataTopics
from kafscale.gateways.kafka.access.authorization import (
    authorized_operations,
    may_create,
    may_describe,
    operations_on_cluster,
)
from kafscale.gateways.kafka.access.requirements import is_denied
from kafscale.gateways.kafka.calls.call import Answer, Call, Requirement, in_time
from kafscale.gateways.kafka.calls.errors import code_of
from kafscale.gateways.kafka.calls.mutation_quota import charge_mutations
from kafscale.gateways.kafka.calls.request_order import READS_OR_CREATES_TOPICS
from kafscale.model.errors import InvalidTopicName, KafscaleError, TopicExists
from kafscale.model.names import check_topic_name, is_internal
from kafscale.model.security.access import AccessOperation, ResourceType
from kafscale.wire.kafka.errors import ErrorCode
from kafscale.wire.kafka.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from kafscale.wire.kafka.schema import NO_UUID

API_KEY: Final = MetadataRequest.api_key
VERSIONS: Final = MetadataRequest.versions
ORDER: Final = READS_OR_CREATES_TOPICS
REQUIREMENTS: Final[tuple[Requirement, ...]] = (MetadataTopics(),)

_FORBIDDING_FROM: Final = 4
_LONGEST_CREATION_S: Final = 5.0  # after that the client is told to ask again
_LONGEST_LOOK_S: Final = 2.0
_LISTENER_NOT_FOUND_FROM: Final = 6
_NULL_NAMES_FROM: Final = 12


def answer(call: Call) -> Answer:
    """Describe the cluster and the topics asked for."""
    return _answer(call)


async def _answer(call: Call) -> MetadataResponse:
    request: MetadataRequest = call.message
    cluster = call.engine.cluster
    if not cluster.has_joined:
        await cluster.joined()  # a broker that has just started does not know the leaders yet
    asked = request.topics
    if asked is None or (call.version == 0 and not asked):
        every = list(call.engine.topics.all())
        topics = [
            await _describe(call, topic)
            async for topic in call.each(every)
            if may_describe(call, topic.name)
        ]
        return _response(call, topics, cluster.nodes())
    # A topic can have thousands of partitions: one named thousands of times is described once.
    named = {(one.topic_id, one.name): one async for one in call.each(asked)}.values()
    topics = [await _row(call, one) async for one in call.each(named)]
    # A client of topics may wait for answers of a broker that has vanished, and librdkafka can hang
    # if such a broker is no longer named. Tools that ask brokers one by one name no topics: they
    # get the brokers that are there (decision 65).
    return _response(call, topics, cluster.nodes() + (cluster.vanished_nodes() if topics else []))


async def _row(call: Call, one: MetadataRequestTopic) -> MetadataResponseTopic:
    try:
        topic = _find(call, one)
    except KafscaleError as problem:
        name_or_none = one.name if call.version >= _NULL_NAMES_FROM else one.name or ""
        return MetadataResponseTopic(
            error_code=code_of(problem), name=name_or_none, topic_id=one.topic_id
        )
    if topic is None:
        return await _find_or_create(call, one.name or "")
    return await _describe(call, topic)


def _find(call: Call, one: MetadataRequestTopic) -> Topic | None:
    """A topic; None if the broker must look for it in the bucket or create it."""
    if one.topic_id != NO_UUID:
        return call.engine.topics.get_by_id(one.topic_id)
    topic = call.engine.topics.find(one.name or "")
    if topic is None:
        check_topic_name(one.name or "")
    return topic


async def _find_or_create(call: Call, name: str) -> MetadataResponseTopic:
    request: MetadataRequest = call.message
    allowed = call.version < _FORBIDDING_FROM or request.allow_auto_topic_creation
    wants_one = call.engine.auto_create and allowed
    is_refused = wants_one and not may_create(call, name)
    if wants_one and not is_refused and not is_internal(name):
        return await _create(call, name)
    try:
        topic = await in_time(call, call.engine.topics.discover(name), _LONGEST_LOOK_S)
    except KafscaleError:
        topic = None
    if topic is not None:
        return await _describe(call, topic)
    code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if is_refused and is_denied(call, AccessOperation.CREATE, ResourceType.TOPIC, name):
        code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    return MetadataResponseTopic(error_code=code, name=name)


async def _create(call: Call, name: str) -> MetadataResponseTopic:
    try:
        charge_mutations(call, call.engine.topics.partition_count(name, -1))
        making = call.engine.topics.find_or_create(name)
        return await _describe(call, await in_time(call, making, _LONGEST_CREATION_S))
    except TopicExists:
        # Another broker was faster; the client asks again and finds the topic.
        return MetadataResponseTopic(error_code=ErrorCode.LEADER_NOT_AVAILABLE, name=name)
    except InvalidTopicName as problem:
        return MetadataResponseTopic(error_code=code_of(problem), name=name)
    except KafscaleError:
        return MetadataResponseTopic(error_code=ErrorCode.LEADER_NOT_AVAILABLE, name=name)


async def _describe(call: Call, topic: Topic) -> MetadataResponseTopic:
    numbers = call.each(range(topic.partitions))
    return MetadataResponseTopic(
        name=topic.name,
        topic_id=topic.topic_id,
        is_internal=is_internal(topic.name),
        partitions=[_partition(call, topic, number) async for number in numbers],
        topic_authorized_operations=authorized_operations(
            call,
            ResourceType.TOPIC,
            topic.name,
            asked=call.message.include_topic_authorized_operations,
        ),
    )


def _partition(call: Call, topic: Topic, number: int) -> MetadataResponsePartition:
    cluster = call.engine.cluster
    leader = cluster.leader_of(topic.folder(number))
    nodes = [] if leader == NO_BROKER else [leader]
    return MetadataResponsePartition(
        error_code=ErrorCode.NONE if nodes else ErrorCode.LEADER_NOT_AVAILABLE,
        partition_index=number,
        leader_id=leader,
        leader_epoch=cluster.generation,
        replica_nodes=nodes,
        isr_nodes=nodes,
    )


def _hide_leaders(call: Call, topics: list[MetadataResponseTopic], reachable: set[int]) -> None:
    """Leaders that do not have the client's listener are not available to this client."""
    named = call.version >= _LISTENER_NOT_FOUND_FROM
    code = ErrorCode.LISTENER_NOT_FOUND if named else ErrorCode.LEADER_NOT_AVAILABLE
    for topic in topics:
        for partition in topic.partitions:
            if partition.leader_id != NO_BROKER and partition.leader_id not in reachable:
                partition.leader_id = NO_BROKER
                partition.error_code = code


def _response(
    call: Call, topics: list[MetadataResponseTopic], nodes: list[Node]
) -> MetadataResponse:
    cluster = call.engine.cluster
    brokers = [
        MetadataResponseBroker(node.broker_id, endpoint.host, endpoint.port, node.rack)
        for node, endpoint in call.reachable(nodes)
    ]
    if len(brokers) < len(nodes):
        _hide_leaders(call, topics, {broker.node_id for broker in brokers})
    return MetadataResponse(
        brokers=brokers,
        cluster_id=cluster.identity.cluster_id,
        controller_id=cluster.controller_id(),
        topics=topics,
        cluster_authorized_operations=operations_on_cluster(
            call, asked=call.message.include_cluster_authorized_operations
        ),
    )
