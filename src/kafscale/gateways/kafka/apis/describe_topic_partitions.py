"""DescribeTopicPartitions: API 75, version 0. Topics by name, page by page.

No topic named means all. An answer has at most as many partitions as the client asks for, and says
where the next one begins. It never creates a topic.
"""

import asyncio
from collections.abc import Iterable
from typing import Final

from kafscale.engine.cluster.placement import NO_BROKER
from kafscale.engine.topics.topic import Topic
from kafscale.gateways.kafka.access.api_requirements import DescribedTopics
from kafscale.gateways.kafka.access.authorization import authorized_operations, may_describe
from kafscale.gateways.kafka.calls import client_errors
from kafscale.gateways.kafka.calls.call import Answer, Call, Requirement, in_time
from kafscale.gateways.kafka.calls.errors import code_of
from kafscale.gateways.kafka.calls.request_order import READS_TOPICS
from kafscale.model.errors import InvalidTopicName, KafscaleError
from kafscale.model.names import check_topic_name, is_internal
from kafscale.model.security.access import ResourceType
from kafscale.wire.kafka.errors import ErrorCode
from kafscale.wire.kafka.messages.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
)

API_KEY: Final = DescribeTopicPartitionsRequest.api_key
VERSIONS: Final = DescribeTopicPartitionsRequest.versions
ORDER: Final = READS_TOPICS
REQUIREMENTS: Final[tuple[Requirement, ...]] = (DescribedTopics(),)

_MOST_PARTITIONS: Final = 2000  # in an answer, whatever the client asks for
_LONGEST_LOOK_S: Final = 2.0


def answer(call: Call) -> Answer:
    """Describe the topics from the cursor on, until the page is full."""
    return _answer(call)


async def _answer(call: Call) -> DescribeTopicPartitionsResponse:
    await call.engine.cluster.joined()
    request: DescribeTopicPartitionsRequest = call.message
    cursor = request.cursor or Cursor()
    if cursor.partition_index < 0:
        return _refuse(call, "the cursor's partition is negative")
    response = DescribeTopicPartitionsResponse()
    left = min(max(request.response_partition_limit, 1), _MOST_PARTITIONS)
    page = _Page(call)
    for name in _list_names(call):
        if name < cursor.topic_name:
            continue
        if left == 0:
            response.next_cursor = Cursor(name, 0)
            break
        first = cursor.partition_index if name == cursor.topic_name else 0
        topic = await _find(call, name)
        if isinstance(topic, ErrorCode):
            response.topics.append(DescribeTopicPartitionsResponseTopic(topic, name))
            continue
        end = min(topic.partitions, first + left)
        response.topics.append(page.describe(topic, range(first, end)))
        left -= max(0, end - first)
        if end < topic.partitions:
            response.next_cursor = Cursor(name, end)
            break
        await asyncio.sleep(0)  # many topics must not hold up other clients
    return response


def _list_names(call: Call) -> Iterable[str]:
    request: DescribeTopicPartitionsRequest = call.message
    if request.topics:
        return sorted({topic.name for topic in request.topics})
    names = (topic.name for topic in call.engine.topics.all())  # sorted
    return (name for name in names if may_describe(call, name))


async def _find(call: Call, name: str) -> Topic | ErrorCode:
    """The topic, or why there is none. The broker looks in the bucket for one it does not know."""
    topic = call.engine.topics.find(name)
    try:
        if topic is None:
            check_topic_name(name)
            topic = await in_time(call, call.engine.topics.discover(name), _LONGEST_LOOK_S)
    except InvalidTopicName as problem:
        return code_of(problem)
    except KafscaleError:
        topic = None  # the store does not answer: this broker knows no such topic
    return topic if topic is not None else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def _refuse(call: Call, why: str) -> DescribeTopicPartitionsResponse:
    request: DescribeTopicPartitionsRequest = call.message
    client_errors.note_bad(call, "invalid_request", why)
    code = ErrorCode.INVALID_REQUEST
    rows = [DescribeTopicPartitionsResponseTopic(code, topic.name) for topic in request.topics]
    return DescribeTopicPartitionsResponse(topics=rows)


class _Page:
    """Describes topics to one client."""

    def __init__(self, call: Call) -> None:
        self._call = call
        nodes = call.engine.cluster.nodes()
        self._reachable = {node.broker_id for node, _ in call.reachable(nodes)}

    def describe(self, topic: Topic, numbers: range) -> DescribeTopicPartitionsResponseTopic:
        """A topic with these partitions."""
        return DescribeTopicPartitionsResponseTopic(
            name=topic.name,
            topic_id=topic.topic_id,
            is_internal=is_internal(topic.name),
            partitions=[self._partition(topic, number) for number in numbers],
            topic_authorized_operations=authorized_operations(
                self._call, ResourceType.TOPIC, topic.name, asked=True
            ),
        )

    def _partition(self, topic: Topic, number: int) -> DescribeTopicPartitionsResponsePartition:
        cluster = self._call.engine.cluster
        leader = cluster.leader_of(topic.folder(number))
        nodes = [] if leader == NO_BROKER else [leader]
        code = ErrorCode.NONE
        if leader == NO_BROKER:
            code = ErrorCode.LEADER_NOT_AVAILABLE
        elif leader not in self._reachable:
            leader, code = NO_BROKER, ErrorCode.LISTENER_NOT_FOUND
        return DescribeTopicPartitionsResponsePartition(
            error_code=code,
            partition_index=number,
            leader_id=leader,
            leader_epoch=cluster.generation,
            replica_nodes=nodes,
            isr_nodes=nodes,
            eligible_leader_replicas=[],
            last_known_elr=[],
        )
