"""AlterShareGroupOffsets: API 91, version 0.

Only a group without members goes on from another offset.
"""

from typing import Final

from kafscale.gateways.kafka.access.requirements import EachRow, WholeRequest, by_group, error_alone
from kafscale.gateways.kafka.calls import client_errors
from kafscale.gateways.kafka.calls.call import Answer, Call, Requirement
from kafscale.gateways.kafka.calls.errors import code_of, coordinator_code_of, words_of
from kafscale.gateways.kafka.calls.request_order import DELETES_OFFSETS
from kafscale.gateways.kafka.shares.administration import (
    by_topic_name,
    id_of,
    require_empty_share_group,
)
from kafscale.model.errors import KafscaleError
from kafscale.model.security.access import AccessOperation, ResourceType
from kafscale.wire.kafka.messages.alter_share_group_offsets import (
    AlteredSharePartitionResponse,
    AlteredShareTopic,
    AlteredShareTopicResponse,
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsResponse,
)

API_KEY: Final = AlterShareGroupOffsetsRequest.api_key
VERSIONS: Final = AlterShareGroupOffsetsRequest.versions
ORDER: Final = DELETES_OFFSETS
REQUIREMENTS: Final[tuple[Requirement, ...]] = (
    WholeRequest(
        AccessOperation.READ,
        ResourceType.GROUP,
        by_group,
        error_alone(AlterShareGroupOffsetsResponse),
    ),
    EachRow(
        AccessOperation.READ,
        ResourceType.TOPIC,
        "topics",
        by_topic_name,
        "responses",
        lambda row, code: AlteredShareTopicResponse(
            row.topic_name,
            partitions=[
                AlteredSharePartitionResponse(one.partition_index, code) for one in row.partitions
            ],
        ),
    ),
)


def answer(call: Call) -> Answer:
    """Set the offsets; each partition gets a result of its own."""
    return _answer(call)


async def _answer(call: Call) -> AlterShareGroupOffsetsResponse:
    request: AlterShareGroupOffsetsRequest = call.message
    try:
        await require_empty_share_group(call, request.group_id)
    except KafscaleError as problem:
        client_errors.note(call, problem)
        return AlterShareGroupOffsetsResponse(
            error_code=coordinator_code_of(problem), error_message=words_of(problem)
        )
    rows = [await _alter(call, topic) async for topic in call.each(request.topics)]
    return AlterShareGroupOffsetsResponse(responses=rows)


async def _alter(call: Call, topic: AlteredShareTopic) -> AlteredShareTopicResponse:
    response = AlteredShareTopicResponse(topic.topic_name, id_of(call, topic.topic_name), [])
    async for one in call.each(topic.partitions):
        row = AlteredSharePartitionResponse(one.partition_index)
        response.partitions.append(row)
        try:
            await call.engine.share_starts.set(
                call.message.group_id, topic.topic_name, one.partition_index, one.start_offset
            )
        except KafscaleError as problem:
            client_errors.note(call, problem)
            row.error_code, row.error_message = code_of(problem), words_of(problem)
    return response
