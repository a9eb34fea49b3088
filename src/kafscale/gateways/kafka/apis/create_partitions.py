"""CreatePartitions: API 37, versions 0-3. The number of partitions only grows."""

from collections import Counter
from typing import Final

from kafscale.gateways.kafka.access.requirements import EachRow, by_name
from kafscale.gateways.kafka.calls import client_errors
from kafscale.gateways.kafka.calls.call import Answer, Call, Requirement, in_time
from kafscale.gateways.kafka.calls.errors import code_of, words_of
from kafscale.gateways.kafka.calls.mutation_quota import charge_mutations
from kafscale.gateways.kafka.calls.request_order import CHANGES_TOPICS
from kafscale.model.errors import InvalidReplicaAssignment, InvalidRequest, KafscaleError
from kafscale.model.security.access import AccessOperation, ResourceType
from kafscale.wire.kafka.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
    CreatePartitionsTopicResult,
)

API_KEY: Final = CreatePartitionsRequest.api_key
VERSIONS: Final = CreatePartitionsRequest.versions
ORDER: Final = CHANGES_TOPICS
REQUIREMENTS: Final[tuple[Requirement, ...]] = (
    EachRow(
        AccessOperation.ALTER,
        ResourceType.TOPIC,
        "topics",
        by_name,
        "results",
        lambda row, code: CreatePartitionsTopicResult(row.name, code),
    ),
)

_STRICT_QUOTA_FROM: Final = 3


def answer(call: Call) -> Answer:
    """Extend every topic asked for, each with its own result."""
    return _answer(call)


async def _answer(call: Call) -> CreatePartitionsResponse:
    request: CreatePartitionsRequest = call.message
    names = Counter(topic.name for topic in request.topics)
    results = []
    async for wanted in call.each(request.topics):
        result = CreatePartitionsTopicResult(name=wanted.name)
        results.append(result)
        try:
            if names[wanted.name] > 1:
                raise InvalidRequest("named twice")
            await _create(call, wanted)
        except KafscaleError as problem:
            result.error_code = code_of(problem)
            result.error_message = words_of(problem)
            client_errors.note(call, problem)
    return CreatePartitionsResponse(results=results)


async def _create(call: Call, wanted: CreatePartitionsTopic) -> None:
    request: CreatePartitionsRequest = call.message
    engine = call.engine
    topic = engine.topics.get(wanted.name)
    engine.topics.check_partitions(topic, wanted.count)
    if wanted.assignments is not None:
        added = wanted.count - topic.partitions
        if len(wanted.assignments) != added or not all(
            row.broker_ids for row in wanted.assignments
        ):
            raise InvalidReplicaAssignment(
                f"each of the {added} new partitions must be assigned to a broker"
            )
    if not request.validate_only:
        charge_mutations(call, wanted.count - topic.partitions, _STRICT_QUOTA_FROM)
    work = engine.topics.create_partitions(
        wanted.name, wanted.count, only_check=request.validate_only
    )
    await in_time(call, work, request.timeout_ms / 1000)
