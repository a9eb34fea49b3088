"""ListOffsets: API 2, versions 0-7.

v0  a list of offsets; v1 one offset with its timestamp; v2 isolation levels; v4 leader epochs
v7  the timestamp -3 asks for the record with the greatest timestamp
By timestamp the answer is exact: the first record at or after that time.
"""

from typing import Final

from kafscale.engine.topics.topic import Topic
from kafscale.gateways.kafka import client_errors
from kafscale.gateways.kafka.call import Answer, Call
from kafscale.gateways.kafka.errors import code_of
from kafscale.gateways.kafka.fetch_answers import isolation_of
from kafscale.model.errors import KafscaleError
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

_LATEST: Final = -1
_EARLIEST: Final = -2
_GREATEST_TIME: Final = -3
_GREATEST_TIME_FROM: Final = 7


def answer(call: Call) -> Answer:
    """Look up every partition; logs may have to be opened and old data read."""
    return _answer(call)


async def _answer(call: Call) -> ListOffsetsResponse:
    request: ListOffsetsRequest = call.message
    topics = []
    for topic_request in request.topics:
        rows = []
        for requested in topic_request.partitions:
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
    start, end, leader_epoch = await partitions.bounds(
        topic, partition, requested.current_leader_epoch, isolation_of(call)
    )
    if requested.timestamp == _LATEST:
        row.offset = end
    elif requested.timestamp == _EARLIEST:
        row.offset = start
    elif requested.timestamp == _GREATEST_TIME and call.version >= _GREATEST_TIME_FROM:
        _set_offset(row, await partitions.newest_by_time(topic, partition))
    elif requested.timestamp < 0:
        row.error_code = ErrorCode.UNSUPPORTED_VERSION
    else:
        _set_offset(row, await partitions.offset_at(topic, partition, requested.timestamp))
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
