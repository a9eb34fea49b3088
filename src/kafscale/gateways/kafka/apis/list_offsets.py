"""ListOffsets: API 2, versions 0-11.

v0  a list of offsets; v1 one offset with its timestamp; v2 isolation levels; v4 leader epochs
v7  the timestamp -3 asks for the record with the greatest timestamp; versions 8, 9 and 11 bring
    questions about tiers, which are answered as by a Kafka broker without remote storage
By timestamp the answer is exact: the first record at or after that time.
"""

from typing import Final

from kafscale.engine.topics.topic import Topic
from kafscale.gateways.kafka.access.requirements import (
    EachRow,
    by_name,
    partition_indexes_of,
    topic_row,
)
from kafscale.gateways.kafka.calls import client_errors
from kafscale.gateways.kafka.calls.call import Answer, Call, Requirement
from kafscale.gateways.kafka.calls.errors import code_of
from kafscale.gateways.kafka.calls.request_order import READS_RECORDS
from kafscale.gateways.kafka.records.fetch_answers import isolation_of
from kafscale.model.errors import KafscaleError
from kafscale.model.security.access import AccessOperation, ResourceType
from kafscale.wire.kafka.errors import ErrorCode
from kafscale.wire.kafka.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)

API_KEY: Final = ListOffsetsRequest.api_key
VERSIONS: Final = ListOffsetsRequest.versions
ORDER: Final = READS_RECORDS
REQUIREMENTS: Final[tuple[Requirement, ...]] = (
    EachRow(
        AccessOperation.DESCRIBE,
        ResourceType.TOPIC,
        "topics",
        by_name,
        "topics",
        topic_row(ListOffsetsTopicResponse, ListOffsetsPartitionResponse, partition_indexes_of),
    ),
)

_LATEST: Final = -1
_EARLIEST: Final = -2
_GREATEST_TIME: Final = -3
_EARLIEST_LOCAL: Final = -4
_LATEST_TIERED: Final = -5
_EARLIEST_PENDING_UPLOAD: Final = -6
# Special timestamps, and the version from which a client may send each.
_SINCE: Final = {
    _LATEST: 0,
    _EARLIEST: 0,
    _GREATEST_TIME: 7,
    _EARLIEST_LOCAL: 8,
    _LATEST_TIERED: 9,
    _EARLIEST_PENDING_UPLOAD: 11,
}
_NEVER: Final = 32767


def answer(call: Call) -> Answer:
    """Look up every partition; logs may have to be opened and old data read."""
    return _answer(call)


async def _answer(call: Call) -> ListOffsetsResponse:
    request: ListOffsetsRequest = call.message
    topics = []
    async for topic_request in call.each(request.topics):
        rows = []
        async for requested in call.each(topic_request.partitions):
            row = ListOffsetsPartitionResponse(partition_index=requested.partition_index)
            rows.append(row)
            try:
                topic = call.engine.topics.get(topic_request.name)
                await _fill(call, topic, requested, row)
            except KafscaleError as problem:
                row.error_code = code_of(problem)
                client_errors.note(call, problem)
        topics.append(ListOffsetsTopicResponse(name=topic_request.name, partitions=rows))
    return ListOffsetsResponse(topics=topics)


async def _fill(
    call: Call, topic: Topic, requested: ListOffsetsPartition, row: ListOffsetsPartitionResponse
) -> None:
    partitions = call.engine.partitions
    partition = requested.partition_index
    isolation = isolation_of(call)
    start, end, leader_epoch = await partitions.bounds(
        topic, partition, requested.current_leader_epoch, isolation
    )
    asked = requested.timestamp
    if asked < 0 and call.version < _SINCE.get(asked, _NEVER):
        row.error_code = ErrorCode.UNSUPPORTED_VERSION
    elif asked == _LATEST:
        row.offset = end
    elif asked in (_EARLIEST, _EARLIEST_LOCAL):
        row.offset = start
    elif asked == _GREATEST_TIME:
        _set_offset(row, await partitions.newest_by_time(topic, partition, isolation))
    elif asked >= 0:  # the other questions are about remote storage and find no offset
        _set_offset(row, await partitions.offset_at(topic, partition, asked, isolation))
    if row.offset >= 0:
        row.leader_epoch = leader_epoch
    if call.version == 0:
        offsets = [row.offset if row.offset >= 0 else end]
        if requested.timestamp == _LATEST and start < end:
            offsets.append(start)
        row.old_style_offsets = offsets[: max(0, requested.max_num_offsets)]


def _set_offset(row: ListOffsetsPartitionResponse, record: tuple[int, int] | None) -> None:
    """Answer with the (offset, timestamp) of a record, if there is one."""
    if record is not None:
        row.offset, row.timestamp = record
