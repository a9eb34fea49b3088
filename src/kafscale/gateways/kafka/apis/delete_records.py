"""DeleteRecords: API 21, versions 0-2. Moves the log start; whole objects below it are swept."""

from typing import Final

from kafscale.gateways.kafka.access.requirements import (
    EachRow,
    by_name,
    partition_indexes_of,
    topic_row,
)
from kafscale.gateways.kafka.calls import client_errors
from kafscale.gateways.kafka.calls.call import Answer, Call, Requirement, in_time
from kafscale.gateways.kafka.calls.errors import code_of
from kafscale.gateways.kafka.calls.request_order import DELETES_RECORDS
from kafscale.model.errors import KafscaleError
from kafscale.model.security.access import AccessOperation, ResourceType
from kafscale.wire.kafka.errors import ErrorCode
from kafscale.wire.kafka.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)

API_KEY: Final = DeleteRecordsRequest.api_key
VERSIONS: Final = DeleteRecordsRequest.versions
ORDER: Final = DELETES_RECORDS
REQUIREMENTS: Final[tuple[Requirement, ...]] = (
    EachRow(
        AccessOperation.DELETE,
        ResourceType.TOPIC,
        "topics",
        by_name,
        "topics",
        topic_row(
            DeleteRecordsTopicResult,
            DeleteRecordsPartitionResult,
            partition_indexes_of,
            low_watermark=-1,
        ),
    ),
)

_NO_OFFSET: Final = -1


def answer(call: Call) -> Answer:
    """Delete in every partition asked for, each with its own result."""
    return _answer(call)


async def _answer(call: Call) -> DeleteRecordsResponse:
    request: DeleteRecordsRequest = call.message
    return DeleteRecordsResponse(
        topics=[
            DeleteRecordsTopicResult(
                topic.name,
                [
                    await _delete(call, topic.name, requested)
                    async for requested in call.each(topic.partitions)
                ],
            )
            async for topic in call.each(request.topics)
        ]
    )


async def _delete(
    call: Call, name: str, requested: DeleteRecordsPartition
) -> DeleteRecordsPartitionResult:
    result = DeleteRecordsPartitionResult(requested.partition_index, _NO_OFFSET)
    try:
        topic = call.engine.topics.get(name)
        topic.place(requested.partition_index)
        if not topic.settings.deletes:
            # A compacted topic keeps the newest record of every key.
            result.error_code = ErrorCode.POLICY_VIOLATION
            return result
        work = call.engine.partitions.delete_records(
            topic, requested.partition_index, requested.offset
        )
        result.low_watermark = await in_time(call, work, call.message.timeout_ms / 1000)
    except KafscaleError as problem:
        result.error_code = code_of(problem)
        client_errors.note(call, problem)
    return result
