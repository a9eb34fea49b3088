"""Creating and changing mapped topics: numbers of partitions as clients see them."""

from kafscale.model.errors import KafscaleError
from kafscale.proxy.apis.call import ProxyAnswer, ProxyCall
from kafscale.proxy.apis.configs import COMPACTED, compacts, scale_up
from kafscale.proxy.coordination.topics import TopicPin
from kafscale.proxy.state.tags import MOST_LANES
from kafscale.wire.kafka.errors import ErrorCode
from kafscale.wire.kafka.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
    CreatePartitionsTopicResult,
)
from kafscale.wire.kafka.messages.create_topics import (
    CreatableTopic,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from kafscale.wire.kafka.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse
from kafscale.wire.kafka.schema import NO_UUID


class _Refusal(Exception):
    """Why a change is not passed on."""

    def __init__(self, code: int, text: str) -> None:
        self.code = code
        super().__init__(text)


async def create_topics(call: ProxyCall) -> ProxyAnswer:
    """Create topics with as many physical partitions as their virtual ones need."""
    request: CreateTopicsRequest = call.message
    refused: list[CreatableTopicResult] = []
    passed: list[CreatableTopic] = []
    wanted: dict[str, int] = {}
    for topic in request.topics:
        try:
            if call.context.topics.ratio(topic.name) > 1:
                virtual = _scale(call, topic)
                if not request.validate_only:
                    await call.context.topics.want(topic.name, virtual)
                wanted[topic.name] = virtual
            passed.append(topic)
        except _Refusal as problem:
            refused.append(
                CreatableTopicResult(
                    topic.name, error_code=problem.code, error_message=str(problem)
                )
            )
    request.topics = passed
    answer = await call.ask(request, CreateTopicsResponse) if passed else CreateTopicsResponse()
    for row in answer.topics:
        if row.name in wanted and row.num_partitions > 0:
            row.num_partitions = wanted[row.name]
        if not row.error_code:  # what is known under this name is about an earlier topic
            call.context.upstream.topics.pop(row.name, None)
    answer.topics += refused
    return answer


def _scale(call: ProxyCall, topic: CreatableTopic) -> int:
    """Ask for physical partitions instead; gives the number of virtual ones."""
    topics = call.context.topics
    ratio = topics.ratio(topic.name)
    if topic.assignments:
        raise _Refusal(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            "the topic has virtual partitions: replicas cannot be assigned to them",
        )
    for config in topic.configs:
        if compacts(config):
            raise _Refusal(ErrorCode.INVALID_CONFIG, COMPACTED)
        scale_up(config, ratio)
    if topic.num_partitions == -1:
        topic.num_partitions = topics.physical_default(topic.name)
        return topic.num_partitions * ratio
    virtual = topic.num_partitions
    topic.num_partitions = -(-virtual // ratio) if virtual > 0 else virtual
    return virtual


async def delete_topics(call: ProxyCall) -> ProxyAnswer:
    """Pass it on; what proxies have written down about a deleted topic goes with it."""
    request: DeleteTopicsRequest = call.message
    context = call.context
    named = [*request.topic_names, *(one.name for one in request.topics if one.name is not None)]
    known = {name: context.topics.known_id(name) for name in named}
    answer = await call.ask(request, DeleteTopicsResponse)
    for row in answer.responses:
        if row.error_code:
            continue
        context.upstream.topics.pop(row.name or "", None)
        is_told = row.topic_id != NO_UUID
        topic_id = bytes(row.topic_id).hex() if is_told else known.get(row.name or "")
        if topic_id is not None:
            await context.partitions.forget_topic(topic_id, context.offsets.keys_of(topic_id))
    return answer


async def create_partitions(call: ProxyCall) -> ProxyAnswer:
    """More virtual partitions share the same physical ones; nothing moves."""
    request: CreatePartitionsRequest = call.message
    mapped = [one for one in request.topics if call.context.topics.is_mapped(one.name)]
    request.topics = [one for one in request.topics if one not in mapped]
    answer = CreatePartitionsResponse()
    if request.topics:
        answer = await call.ask(request, CreatePartitionsResponse)
    for topic in mapped:
        row = CreatePartitionsTopicResult(topic.name)
        try:
            await _raise(call, topic, request.validate_only)
        except _Refusal as problem:
            row.error_code, row.error_message = problem.code, str(problem)
        except KafscaleError as problem:
            row.error_code, row.error_message = ErrorCode.INVALID_PARTITIONS, str(problem)
        answer.results.append(row)
    return answer


async def _raise(call: ProxyCall, asked: CreatePartitionsTopic, validate_only: bool) -> None:
    topic = await call.context.topics.find(asked.name)
    if topic is None:
        raise _Refusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "there is no such topic")
    if asked.assignments is not None:
        raise _Refusal(ErrorCode.INVALID_REPLICA_ASSIGNMENT, "virtual partitions have no replicas")
    if asked.count <= topic.virtual:
        raise _Refusal(
            ErrorCode.INVALID_PARTITIONS, f"the topic has {topic.virtual} partitions already"
        )
    if asked.count > topic.physical * MOST_LANES:
        raise _Refusal(
            ErrorCode.INVALID_PARTITIONS, f"at most {MOST_LANES} virtual partitions share one"
        )
    if not validate_only:
        pin = TopicPin(topic.topic_id.hex(), asked.count, topic.physical)
        await call.context.topics.write(topic.name, pin)
