"""CreateTopics: API 19, versions 0-7.

v1  validate_only; v4 -1 asks for defaults; v5 the answer has the topic's settings; v7 its id
Any replication factor is accepted and 1 reported: the object store keeps the copies.
"""

from collections import Counter
from collections.abc import Mapping
from typing import Final

from kafscale.engine.topics.topic import Topic
from kafscale.gateways.kafka.access.api_requirements import CreatedTopics
from kafscale.gateways.kafka.calls import client_errors
from kafscale.gateways.kafka.calls.call import Answer, Call, Requirement, in_time
from kafscale.gateways.kafka.calls.errors import code_of, words_of
from kafscale.gateways.kafka.calls.mutation_quota import charge_mutations
from kafscale.gateways.kafka.calls.request_order import CHANGES_TOPICS
from kafscale.model.errors import (
    InvalidReplicaAssignment,
    InvalidReplication,
    InvalidRequest,
    KafscaleError,
)
from kafscale.wire.kafka.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfigs,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)

API_KEY: Final = CreateTopicsRequest.api_key
VERSIONS: Final = CreateTopicsRequest.versions
ORDER: Final = CHANGES_TOPICS
REQUIREMENTS: Final[tuple[Requirement, ...]] = (CreatedTopics(),)

_STRICT_QUOTA_FROM: Final = 6
_MOST_TOPICS: Final = 10_000
_FROM_TOPIC: Final = 1
_FROM_DEFAULT: Final = 5


def answer(call: Call) -> Answer:
    """Create every topic asked for, each with its own result."""
    return _answer(call)


async def _answer(call: Call) -> CreateTopicsResponse:
    request: CreateTopicsRequest = call.message
    names = Counter(topic.name for topic in request.topics)
    results = []
    async for wanted in call.each(request.topics):
        result = CreatableTopicResult(name=wanted.name, configs=None)
        results.append(result)
        try:
            if names[wanted.name] > 1 or len(request.topics) > _MOST_TOPICS:
                raise InvalidRequest("named twice, or too many topics in one request")
            await _create(call, wanted, result)
        except KafscaleError as problem:
            result.error_code = code_of(problem)
            result.error_message = words_of(problem)
            client_errors.note(call, problem)
    return CreateTopicsResponse(topics=results)


async def _create(call: Call, wanted: CreatableTopic, result: CreatableTopicResult) -> None:
    request: CreateTopicsRequest = call.message
    engine = call.engine
    configs = {row.name: row.value for row in wanted.configs}
    partitions = engine.topics.partition_count(wanted.name, _partitions(wanted))
    if request.validate_only:
        engine.topics.check(wanted.name, partitions, configs)
        given = {key: value for key, value in configs.items() if value is not None}
        _describe(result, partitions, given, engine.topics.default_configs())
        return
    charge_mutations(call, partitions, _STRICT_QUOTA_FROM)
    making = engine.topics.create(wanted.name, partitions, configs)
    topic: Topic = await in_time(call, making, request.timeout_ms / 1000)
    result.topic_id = topic.topic_id
    _describe(result, topic.partitions, topic.descriptor.configs, engine.topics.default_configs())


def _partitions(wanted: CreatableTopic) -> int:
    """How many partitions are asked for, by number or by assignment."""
    if not wanted.assignments:
        if wanted.replication_factor == 0 or wanted.replication_factor < -1:
            raise InvalidReplication("a replication factor is at least 1, or -1 for the default")
        return wanted.num_partitions
    if wanted.num_partitions != -1 or wanted.replication_factor != -1:
        raise InvalidRequest("with assignments, partitions and replication factor must be -1")
    numbers = sorted(row.partition_index for row in wanted.assignments)
    if numbers != list(range(len(numbers))) or not all(
        row.broker_ids for row in wanted.assignments
    ):
        raise InvalidReplicaAssignment("partitions must be assigned from 0 on, each to a broker")
    return len(numbers)


def _describe(
    result: CreatableTopicResult,
    partitions: int,
    given: Mapping[str, str],
    defaults: Mapping[str, str],
) -> None:
    result.num_partitions = partitions
    result.replication_factor = 1
    result.configs = [
        CreatableTopicConfigs(
            name=name,
            value=given.get(name, default),
            config_source=_FROM_TOPIC if name in given else _FROM_DEFAULT,
        )
        for name, default in sorted(defaults.items())
    ]
