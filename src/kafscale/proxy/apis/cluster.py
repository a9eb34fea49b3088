"""Who is there: versions, brokers, coordinators, topics with their virtual partitions.

The brokers of the upstream keep their numbers, with addresses of this proxy. Proxies are brokers
of their own: virtual partitions are led by the proxy that serves their physical one.
"""

from collections.abc import Callable
from typing import Final

from kafscale.proxy.access.front import HIDDEN
from kafscale.proxy.apis.call import ProxyAnswer, ProxyCall
from kafscale.proxy.coordination.topics import MappedTopic, Unmappable
from kafscale.wire.kafka.catalog import BY_KEY
from kafscale.wire.kafka.errors import ErrorCode
from kafscale.wire.kafka.messages.api_versions import ApiVersion, ApiVersionsResponse
from kafscale.wire.kafka.messages.describe_cluster import (
    DescribeClusterBroker,
    DescribeClusterResponse,
)
from kafscale.wire.kafka.messages.find_coordinator import FindCoordinatorResponse
from kafscale.wire.kafka.messages.metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)

_MOST_VERSION: Final = {1: 12}  # later ones name topics by their ids


async def api_versions(
    call: ProxyCall, changed: frozenset[int], checked: Callable[[int], range] | None = None
) -> ApiVersionsResponse:
    """What the upstream offers, as far as the proxy understands it.

    `changed`: the APIs that this proxy reads; the others pass as they are. `checked`: under rules,
    the versions of an API that can be checked.
    """
    offered = (await call.link()).offered
    rows = []
    for row in offered.api_keys:
        if row.api_key in HIDDEN:
            continue
        if row.api_key not in changed and checked is None:
            rows.append(row)
            continue
        ours = BY_KEY[row.api_key].versions if checked is None else checked(row.api_key)
        if not ours:
            continue
        most = min(row.max_version, ours[-1], _MOST_VERSION.get(row.api_key, ours[-1]))
        if max(row.min_version, ours[0]) <= most:
            rows.append(ApiVersion(row.api_key, max(row.min_version, ours[0]), most))
    return ApiVersionsResponse(
        api_keys=rows,
        supported_features=offered.supported_features,
        finalized_features_epoch=offered.finalized_features_epoch,
        finalized_features=offered.finalized_features,
    )


async def metadata(call: ProxyCall) -> ProxyAnswer:
    """Topics as clients see them."""
    request: MetadataRequest = call.message
    answer = await call.ask(request, MetadataResponse)
    context = call.context
    context.upstream.learn(answer)
    for broker in answer.brokers:
        door = call.doors.get(broker.node_id)
        if door is not None:
            broker.host, broker.port = door.host, door.port
    answer.brokers = [one for one in answer.brokers if one.node_id in call.doors]
    answer.brokers += [
        MetadataResponseBroker(node, endpoint.host, endpoint.port)
        for node, endpoint in call.peers()
    ]
    answer.topics = [topic for topic in answer.topics if topic.name != context.ledger_topic]
    for topic in answer.topics:
        if topic.name is not None and not topic.error_code:
            await _virtualize(call, topic)
    return answer


async def _virtualize(call: ProxyCall, topic: MetadataResponseTopic) -> None:
    assert topic.name is not None
    if not call.context.topics.is_mapped(topic.name):
        return
    if call.version < 10:  # without the topic's id, the upstream is asked for it
        await call.context.upstream.refresh(topic.name)
    try:
        mapped = await call.context.topics.find(topic.name)
    except Unmappable:
        topic.error_code, topic.partitions = ErrorCode.INVALID_PARTITIONS, []
        return
    if mapped is not None:
        topic.partitions = _partitions(call, mapped, topic.partitions)


def _partitions(
    call: ProxyCall, mapped: MappedTopic, rows: list[MetadataResponsePartition]
) -> list[MetadataResponsePartition]:
    physical = {row.partition_index: row for row in rows}
    leaders = {index: call.context.members.owner(mapped.topic_id, index) for index in physical}
    made = []
    for partition in range(mapped.virtual):
        index = mapped.place(partition).physical_partition
        row, leader = physical.get(index), leaders.get(index)
        if row is None or leader is None:
            made.append(MetadataResponsePartition(ErrorCode.LEADER_NOT_AVAILABLE, partition, -1))
            continue
        if leader.endpoint(call.listener) is None:
            made.append(MetadataResponsePartition(ErrorCode.LISTENER_NOT_FOUND, partition, -1))
            continue
        # The upstream may have no leader for a moment; the proxy waits for the next one.
        epoch = row.leader_epoch
        nodes = [leader.node]
        made.append(MetadataResponsePartition(0, partition, leader.node, epoch, nodes, nodes))
    return made


async def find_coordinator(call: ProxyCall) -> ProxyAnswer:
    """The upstream's coordinator, at the address that this proxy has for it."""
    answer = await call.ask(call.message, FindCoordinatorResponse)
    doors = call.doors
    if call.version < 4:
        if not answer.error_code and answer.node_id in doors:
            answer.host, answer.port = doors[answer.node_id].host, doors[answer.node_id].port
        elif not answer.error_code:
            answer.error_code = ErrorCode.COORDINATOR_NOT_AVAILABLE
    for row in answer.coordinators:
        if not row.error_code and row.node_id in doors:
            row.host, row.port = doors[row.node_id].host, doors[row.node_id].port
        elif not row.error_code:
            row.error_code = ErrorCode.COORDINATOR_NOT_AVAILABLE
    return answer


async def describe_cluster(call: ProxyCall) -> ProxyAnswer:
    """All brokers, proxies among them, at addresses of proxies."""
    answer = await call.ask(call.message, DescribeClusterResponse)
    doors = call.doors
    answer.brokers = [one for one in answer.brokers if one.broker_id in doors]
    for broker in answer.brokers:
        broker.host, broker.port = doors[broker.broker_id].host, doors[broker.broker_id].port
    answer.brokers += [
        DescribeClusterBroker(node, endpoint.host, endpoint.port) for node, endpoint in call.peers()
    ]
    return answer
