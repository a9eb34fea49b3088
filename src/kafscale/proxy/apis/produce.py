"""Produce to virtual partitions: every batch is checked, tagged and sent to its physical one."""

import asyncio
from typing import Final

from kafscale.model.errors import (
    BadBatch,
    BatchTooLarge,
    CorruptBatch,
    KafscaleError,
    RecordListTooLarge,
    UnsupportedCompression,
)
from kafscale.proxy.apis.call import ProxyAnswer, ProxyCall
from kafscale.proxy.apis.places import find_topic
from kafscale.proxy.coordination.topics import MappedTopic
from kafscale.proxy.partitions.partition import BatchRefused
from kafscale.records.batch import TRANSACTIONAL
from kafscale.records.validation import BatchLimits, validate
from kafscale.wire.kafka.errors import ErrorCode
from kafscale.wire.kafka.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)

_LARGEST: Final = 1 << 30  # the upstream has its own limit, and says so
_LIMITS: Final = BatchLimits(_LARGEST, _LARGEST, _LARGEST, walk_records=False)
_CODES: Final[dict[type[BadBatch], ErrorCode]] = {
    CorruptBatch: ErrorCode.CORRUPT_MESSAGE,
    BatchTooLarge: ErrorCode.MESSAGE_TOO_LARGE,
    RecordListTooLarge: ErrorCode.RECORD_LIST_TOO_LARGE,
    UnsupportedCompression: ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
}
_LONGEST_S: Final = 120.0


class UnansweredRefusal(KafscaleError):
    """A batch is not stored, and its client wants no answer that says so."""


async def produce(call: ProxyCall) -> ProxyAnswer:
    """Begin all appends in the order of the request; their answers follow."""
    request: ProduceRequest = call.message
    answer = ProduceResponse()
    waiting: list[tuple[PartitionProduceResponse, asyncio.Future[int]]] = []
    for topic in request.topic_data:
        rows: list[PartitionProduceResponse] = []
        answer.responses.append(TopicProduceResponse(topic.name, rows))
        mapped, code = await find_topic(call, topic.name)
        for part in topic.partition_data:
            row = PartitionProduceResponse(part.index, code, -1)
            rows.append(row)
            if mapped is not None:
                appended = _append(call, mapped, part, row)
                if appended is not None:
                    waiting.append((row, appended))
    return _finish(answer, waiting, request.acks)


def _append(
    call: ProxyCall, mapped: MappedTopic, part: PartitionProduceData, row: PartitionProduceResponse
) -> "asyncio.Future[int] | None":
    request: ProduceRequest = call.message
    if not mapped.has(part.index):
        row.error_code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return None
    place = mapped.place(part.index)
    partition = call.context.partitions.get(mapped, place.physical_partition)
    if partition is None:
        row.error_code = ErrorCode.NOT_LEADER_OR_FOLLOWER
        return None
    if request.acks not in (-1, 0, 1):
        row.error_code = ErrorCode.INVALID_REQUIRED_ACKS
        return None
    batch = part.records
    try:
        assert batch is None or isinstance(batch, memoryview)
        header = validate(batch, _LIMITS, call.context.clock.now_ms())
    except BadBatch as problem:
        row.error_code = _CODES.get(type(problem), ErrorCode.INVALID_RECORD)
        row.error_message = str(problem)
        return None
    if header.attributes & TRANSACTIONAL or request.transactional_id is not None:
        row.error_code = ErrorCode.INVALID_TXN_STATE
        row.error_message = "virtual partitions take no part in transactions"
        return None
    timeout_s = min(max(request.timeout_ms, 0) / 1000, _LONGEST_S)
    assert batch is not None
    return partition.append(place.lane, batch, header, timeout_s)


async def _finish(
    answer: ProduceResponse,
    waiting: list[tuple[PartitionProduceResponse, "asyncio.Future[int]"]],
    acks: int,
) -> ProduceResponse | None:
    for row, appended in waiting:
        try:
            row.base_offset = await appended
        except BatchRefused as problem:
            row.error_code = problem.code
            row.error_message = str(problem)
    if acks:
        return answer
    # The connection's end is all that tells such a client to ask who leads the partition now.
    for topic in answer.responses:
        for row in topic.partition_responses:
            if row.error_code:
                refused = f"{topic.name}-{row.index}: {ErrorCode(row.error_code).name}"
                raise UnansweredRefusal(refused)
    return None
