"""Transactions pass by: virtual partitions take no part in them, and say so."""

from kafscale.proxy.apis.call import ProxyAnswer, ProxyCall
from kafscale.wire.kafka.errors import ErrorCode
from kafscale.wire.kafka.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopicResult,
)
from kafscale.wire.kafka.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)


async def add_partitions_to_txn(call: ProxyCall) -> ProxyAnswer:
    """Refuse a transaction with a virtual partition, and none of the rest begins."""
    request: AddPartitionsToTxnRequest = call.message
    topics = request.v3_and_below_topics
    if not any(call.context.topics.is_mapped(topic.name) for topic in topics):
        return await call.ask(request, AddPartitionsToTxnResponse)
    rows = []
    for topic in topics:
        is_mapped = call.context.topics.is_mapped(topic.name)
        code = ErrorCode.INVALID_TXN_STATE if is_mapped else ErrorCode.OPERATION_NOT_ATTEMPTED
        parts = [AddPartitionsToTxnPartitionResult(one, code) for one in topic.partitions]
        rows.append(AddPartitionsToTxnTopicResult(topic.name, parts))
    return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=rows)


async def txn_offset_commit(call: ProxyCall) -> ProxyAnswer:
    """Refuse offsets of virtual partitions; they are committed without a transaction."""
    request: TxnOffsetCommitRequest = call.message
    mapped = [one for one in request.topics if call.context.topics.is_mapped(one.name)]
    request.topics = [one for one in request.topics if one not in mapped]
    answer = TxnOffsetCommitResponse()
    if request.topics:
        answer = await call.ask(request, TxnOffsetCommitResponse)
    for topic in mapped:
        parts = [
            TxnOffsetCommitResponsePartition(one.partition_index, ErrorCode.INVALID_TXN_STATE)
            for one in topic.partitions
        ]
        answer.topics.append(TxnOffsetCommitResponseTopic(topic.name, parts))
    return answer
