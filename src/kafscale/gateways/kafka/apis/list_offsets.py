"""ListOffsets: API 2, versions 0-7.

v0  a list of offsets; v1 one offset with its timestamp; v4 leader epochs
v7  the timestamp -3 asks for the record with the greatest timestamp
By timestamp the answer is exact: the first record at or after that time.
"""

from typing import Final

from kafscale.engine.topics.topic import Topic
from kafscale.gateways.kafka import client_errors
from kafscale.gateways.kafka.call import Answer, Call
from kafscale.gateways.kafka.errors import code_of
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
    for wanted in request.topics:
        rows = []
        for one in wanted.partitions:
            row = ListOffsetsPartitionResponse(partition_index=one.partition_index)
            rows.append(row)
            try:
                topic = call.engine.topics.get(wanted.name)
                await _fill(call, topic, one, row)
            except KafscaleError as problem:
                row.error_code = code_of(problem)
                client_errors.note(call, problem)
        topics.append(ListOffsetsTopicResponse(name=wanted.name, partitions=rows))
    return ListOffsetsResponse(topics=topics)


async def _fill(
    call: Call, topic: Topic, one: ListOffsetsPartition, row: ListOffsetsPartitionResponse
) -> None:
    engine = call.engine
    partition = one.partition_index
    start, high, leader_epoch = await engine.inspection.bounds(
        topic, partition, one.current_leader_epoch
    )
    if one.timestamp == _LATEST:
        row.offset = high
    elif one.timestamp == _EARLIEST:
        row.offset = start
    elif one.timestamp == _GREATEST_TIME and call.version >= _GREATEST_TIME_FROM:
        _take(row, await engine.inspection.newest_by_time(topic, partition))
    elif one.timestamp < 0:
        row.error_code = ErrorCode.UNSUPPORTED_VERSION
    else:
        _take(row, await engine.inspection.offset_at(topic, partition, one.timestamp))
    if row.offset >= 0:
        row.leader_epoch = leader_epoch
    if call.version == 0:
        offsets = [row.offset if row.offset >= 0 else high]
        if one.timestamp == _LATEST and start < high:
            offsets.append(start)
        row.old_style_offsets = offsets[: max(0, one.max_num_offsets)]


def _take(row: ListOffsetsPartitionResponse, found: tuple[int, int] | None) -> None:
    if found is not None:
        row.offset, row.timestamp = found
