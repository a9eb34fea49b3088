"""DeleteTopics: API 20, versions 0-6. v6 by name or id."""

from typing import Final

from kafscale.gateways.kafka.access.api_requirements import DeletedTopics
from kafscale.gateways.kafka.calls import client_errors
from kafscale.gateways.kafka.calls.call import Answer, Call, Requirement, in_time
from kafscale.gateways.kafka.calls.errors import code_of, words_of
from kafscale.gateways.kafka.calls.mutation_quota import charge_mutations
from kafscale.gateways.kafka.calls.request_order import CHANGES_TOPICS
from kafscale.model.errors import InvalidRequest, KafscaleError
from kafscale.wire.kafka.messages.delete_topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from kafscale.wire.kafka.schema import NO_UUID

API_KEY: Final = DeleteTopicsRequest.api_key
VERSIONS: Final = DeleteTopicsRequest.versions
ORDER: Final = CHANGES_TOPICS
REQUIREMENTS: Final[tuple[Requirement, ...]] = (DeletedTopics(),)

_STRICT_QUOTA_FROM: Final = 5
_BY_ID_FROM: Final = 6


def answer(call: Call) -> Answer:
    """Delete every topic asked for, each with its own result."""
    return _answer(call)


async def _answer(call: Call) -> DeleteTopicsResponse:
    request: DeleteTopicsRequest = call.message
    if call.version >= _BY_ID_FROM:
        states = request.topics
    else:
        states = [DeleteTopicState(name=name) for name in request.topic_names]
    responses = [await _delete(call, wanted) async for wanted in call.each(states)]
    return DeleteTopicsResponse(responses=responses)


async def _delete(call: Call, wanted: DeleteTopicState) -> DeletableTopicResult:
    result = DeletableTopicResult(name=wanted.name, topic_id=wanted.topic_id)
    try:
        if (wanted.name is None) == (wanted.topic_id == NO_UUID):
            raise InvalidRequest("a topic is named by its name or by its id")
        if wanted.name is None:
            topic = call.engine.topics.get_by_id(wanted.topic_id)
        else:
            topic = call.engine.topics.get(wanted.name)
        result.name, result.topic_id = topic.name, topic.topic_id
        charge_mutations(call, topic.partitions, _STRICT_QUOTA_FROM)
        timeout_s = call.message.timeout_ms / 1000
        await in_time(call, call.engine.topics.delete(topic.name), timeout_s)
    except KafscaleError as problem:
        result.error_code = code_of(problem)
        result.error_message = words_of(problem)
        client_errors.note(call, problem)
    return result
