"""DeleteRecords: API 21, versions 0-2. Moves the log start; whole objects below it are swept."""

from typing import Final

from kafscale.gateways.kafka import client_errors
from kafscale.gateways.kafka.call import Answer, Call, in_time
from kafscale.gateways.kafka.errors import code_of
from kafscale.model.errors import KafscaleError
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
                [await _delete(call, topic.name, requested) for requested in topic.partitions],
            )
            for topic in request.topics
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
