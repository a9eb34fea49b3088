"""OffsetForLeaderEpoch: API 23, versions 0-4.

A consumer that has lost its leader asks whether the log still holds what it has read.
"""

from typing import Final

from kafscale.gateways.kafka.access.requirements import (
    EachRow,
    UnlessOnCluster,
    by_topic,
    topic_row,
)
from kafscale.gateways.kafka.calls import client_errors
from kafscale.gateways.kafka.calls.call import Answer, Call, Requirement
from kafscale.gateways.kafka.calls.errors import code_of
from kafscale.gateways.kafka.calls.request_order import READS_RECORDS
from kafscale.model.errors import KafscaleError
from kafscale.model.security.access import AccessOperation, ResourceType
from kafscale.wire.kafka.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopicResult,
)

API_KEY: Final = OffsetForLeaderEpochRequest.api_key
VERSIONS: Final = OffsetForLeaderEpochRequest.versions
ORDER: Final = READS_RECORDS
REQUIREMENTS: Final[tuple[Requirement, ...]] = (
    UnlessOnCluster(
        AccessOperation.CLUSTER_ACTION,
        EachRow(
            AccessOperation.DESCRIBE,
            ResourceType.TOPIC,
            "topics",
            by_topic,
            "topics",
            topic_row(
                OffsetForLeaderTopicResult,
                EpochEndOffset,
                lambda row: [one.partition for one in row.partitions],
                name_of=by_topic,
                number="partition",
            ),
        ),
    ),
)


def answer(call: Call) -> Answer:
    """Look up every partition; logs may have to be opened."""
    return _answer(call)


async def _answer(call: Call) -> OffsetForLeaderEpochResponse:
    request: OffsetForLeaderEpochRequest = call.message
    return OffsetForLeaderEpochResponse(
        topics=[
            OffsetForLeaderTopicResult(
                topic.topic,
                [
                    await _find(call, topic.topic, requested)
                    async for requested in call.each(topic.partitions)
                ],
            )
            async for topic in call.each(request.topics)
        ]
    )


async def _find(call: Call, name: str, requested: OffsetForLeaderPartition) -> EpochEndOffset:
    row = EpochEndOffset(partition=requested.partition)
    try:
        topic = call.engine.topics.get(name)
        row.leader_epoch, row.end_offset = await call.engine.partitions.epoch_end(
            topic, requested.partition, requested.leader_epoch, requested.current_leader_epoch
        )
    except KafscaleError as problem:
        row.error_code = code_of(problem)
        client_errors.note(call, problem)
    return row
