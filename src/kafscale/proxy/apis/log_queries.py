"""Questions about virtual partitions' logs: offsets by time and by epoch, deleting old records."""

from typing import Final

from kafscale.model.errors import KafscaleError
from kafscale.proxy.apis.call import ProxyAnswer, ProxyCall
from kafscale.proxy.apis.places import epoch_error, find_topic, open_partition
from kafscale.proxy.coordination.topics import MappedTopic
from kafscale.proxy.partitions.partition import PhysicalPartition
from kafscale.wire.kafka.errors import ErrorCode
from kafscale.wire.kafka.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)
from kafscale.wire.kafka.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from kafscale.wire.kafka.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
    OffsetForLeaderTopicResult,
)

_LATEST, _EARLIEST, _LATEST_TIME, _EARLIEST_LOCAL = -1, -2, -3, -4
_NONE: Final = -1


async def list_offsets(call: ProxyCall) -> ProxyAnswer:
    """First and last offset, and the first one of a time."""
    request: ListOffsetsRequest = call.message
    answer = ListOffsetsResponse()
    for topic in request.topics:
        rows: list[ListOffsetsPartitionResponse] = []
        answer.topics.append(ListOffsetsTopicResponse(topic.name, rows))
        mapped, code = await find_topic(call, topic.name)
        for asked in topic.partitions:
            row = ListOffsetsPartitionResponse(asked.partition_index, code)
            rows.append(row)
            if mapped is not None:
                await _list(call, mapped, asked, row)
    return answer


async def _list(
    call: ProxyCall,
    mapped: MappedTopic,
    asked: ListOffsetsPartition,
    row: ListOffsetsPartitionResponse,
) -> None:
    partition, row.error_code = await open_partition(call, mapped, asked.partition_index)
    if partition is None:
        return
    row.error_code = await epoch_error(call, partition, asked.current_leader_epoch)
    if row.error_code:
        return
    number = mapped.place(asked.partition_index).lane
    try:
        found = await _offset_of(call, partition, number, asked.timestamp)
    except (KafscaleError, TimeoutError):
        row.error_code = ErrorCode.LEADER_NOT_AVAILABLE
        return
    if found is None:
        row.error_code = ErrorCode.UNSUPPORTED_VERSION
        return
    row.offset, row.timestamp = found
    if call.version == 0:
        row.old_style_offsets = [] if row.offset < 0 else [row.offset]
    if row.offset >= 0:
        row.leader_epoch = call.context.upstream.epoch(partition.topic, partition.index)


async def _offset_of(
    call: ProxyCall, partition: PhysicalPartition, number: int, time_ms: int
) -> tuple[int, int] | None:
    """Offset and time that answer a question; None: there is no such question."""
    lane, reader = partition.log.lane(number), call.context.reader
    if time_ms == _LATEST:
        return lane.next, _NONE
    if time_ms in (_EARLIEST, _EARLIEST_LOCAL):
        return lane.start, _NONE
    if time_ms == _LATEST_TIME:
        return await reader.latest_time(partition, number) or (_NONE, _NONE)
    if time_ms < 0:
        return None
    return await reader.at_time(partition, number, time_ms) or (_NONE, _NONE)


async def offset_for_leader_epoch(call: ProxyCall) -> ProxyAnswer:
    """Where a leader epoch ended: the upstream's place as an offset of the virtual partition."""
    request: OffsetForLeaderEpochRequest = call.message
    answer = OffsetForLeaderEpochResponse()
    for topic in request.topics:
        rows: list[EpochEndOffset] = []
        answer.topics.append(OffsetForLeaderTopicResult(topic.topic, rows))
        mapped, code = await find_topic(call, topic.topic)
        for asked in topic.partitions:
            row = EpochEndOffset(code, asked.partition)
            rows.append(row)
            if mapped is not None:
                try:
                    await _epoch_end(call, mapped, asked, row)
                except (KafscaleError, TimeoutError):
                    row.error_code = ErrorCode.LEADER_NOT_AVAILABLE
    return answer


async def _epoch_end(
    call: ProxyCall, mapped: MappedTopic, asked: OffsetForLeaderPartition, row: EpochEndOffset
) -> None:
    partition, row.error_code = await open_partition(call, mapped, asked.partition)
    if partition is None:
        return
    row.error_code = await epoch_error(call, partition, asked.current_leader_epoch)
    if row.error_code:
        return
    upstream = call.context.upstream
    leader = await upstream.leader(partition.topic, partition.index)
    link = await upstream.link(leader.node, "offsets")
    part = OffsetForLeaderPartition(partition.index, -1, asked.leader_epoch)
    request = OffsetForLeaderEpochRequest(-1, [OffsetForLeaderTopic(partition.topic, [part])])
    found = (await link.ask(request, OffsetForLeaderEpochResponse)).topics[0].partitions[0]
    row.error_code, row.leader_epoch = found.error_code, found.leader_epoch
    if not found.error_code and found.end_offset >= 0:
        await partition.reach(found.end_offset)
        lane = mapped.place(asked.partition).lane
        row.end_offset = await call.context.reader.offset_at(partition, lane, found.end_offset)


async def delete_records(call: ProxyCall) -> ProxyAnswer:
    """Hide what lies before an offset. The upstream's retention frees its bytes."""
    request: DeleteRecordsRequest = call.message
    answer = DeleteRecordsResponse()
    for topic in request.topics:
        rows: list[DeleteRecordsPartitionResult] = []
        answer.topics.append(DeleteRecordsTopicResult(topic.name, rows))
        mapped, code = await find_topic(call, topic.name)
        for asked in topic.partitions:
            row = DeleteRecordsPartitionResult(asked.partition_index, -1, code)
            rows.append(row)
            if mapped is not None:
                await _delete(call, mapped, asked, row)
    return answer


async def _delete(
    call: ProxyCall,
    mapped: MappedTopic,
    asked: DeleteRecordsPartition,
    row: DeleteRecordsPartitionResult,
) -> None:
    partition, row.error_code = await open_partition(call, mapped, asked.partition_index)
    if partition is None:
        return
    lane = partition.log.lane(mapped.place(asked.partition_index).lane)
    first = lane.next if asked.offset == -1 else asked.offset
    if not 0 <= first <= lane.next:
        row.error_code = ErrorCode.OFFSET_OUT_OF_RANGE
        return
    if first > lane.start:
        await call.context.partitions.delete_before(mapped, asked.partition_index, first)
        lane.start = max(lane.start, first)
    row.low_watermark = lane.start
