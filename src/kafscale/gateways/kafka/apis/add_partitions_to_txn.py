"""AddPartitionsToTxn: API 24, versions 0-3.

The partitions of a request are registered together or not at all: if one of them does not exist,
or may not be written to, the others are answered with OPERATION_NOT_ATTEMPTED.
"""

from collections.abc import Callable
from typing import Final

from kafscale.engine.transactions.rows import RegisteredPartition
from kafscale.gateways.kafka.access.requirements import (
    WholeRequest,
    is_denied,
)
from kafscale.gateways.kafka.calls import client_errors
from kafscale.gateways.kafka.calls.call import Answer, Call, Requirement
from kafscale.gateways.kafka.calls.request_order import APPENDS_RECORDS
from kafscale.gateways.kafka.calls.transaction_errors import transaction_code_of
from kafscale.model.errors import KafscaleError, UnknownTopic
from kafscale.model.security.access import AccessOperation, ResourceType
from kafscale.transactions.machine import Producer
from kafscale.wire.kafka.errors import ErrorCode
from kafscale.wire.kafka.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopicResult,
)

API_KEY: Final = AddPartitionsToTxnRequest.api_key
VERSIONS: Final = AddPartitionsToTxnRequest.versions
ORDER: Final = APPENDS_RECORDS
_FENCING_FROM: Final = 2


def _transactional_id(request: AddPartitionsToTxnRequest) -> str:
    return request.v3_and_below_transactional_id


def _refused(call: Call, code: ErrorCode) -> AddPartitionsToTxnResponse:
    return respond(call, lambda _topic, _partition: code)


REQUIREMENTS: Final[tuple[Requirement, ...]] = (
    WholeRequest(AccessOperation.WRITE, ResourceType.TRANSACTIONAL_ID, _transactional_id, _refused),
)


def answer(call: Call) -> Answer:
    """Register the partitions."""
    return _answer(call)


async def _answer(call: Call) -> AddPartitionsToTxnResponse:
    request: AddPartitionsToTxnRequest = call.message
    bad: dict[tuple[str, int], ErrorCode] = {}
    places: list[RegisteredPartition] = []
    async for topic in call.each(request.v3_and_below_topics):
        is_refused = is_denied(call, AccessOperation.WRITE, ResourceType.TOPIC, topic.name)
        for partition in topic.partitions:
            if is_refused:
                bad[topic.name, partition] = ErrorCode.TOPIC_AUTHORIZATION_FAILED
                continue
            try:
                known = call.engine.topics.get(topic.name)
                known.place(partition)
                places.append(RegisteredPartition(known.descriptor.topic_id, known.name, partition))
            except UnknownTopic as problem:
                client_errors.note(call, problem)
                bad[topic.name, partition] = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if bad:
        other = ErrorCode.OPERATION_NOT_ATTEMPTED
        return respond(call, lambda name, partition: bad.get((name, partition), other))
    code = ErrorCode.NONE
    try:
        await call.engine.transactions.require(request.v3_and_below_transactional_id)
        producer = Producer(request.v3_and_below_producer_id, request.v3_and_below_producer_epoch)
        await call.engine.transactions.register(
            request.v3_and_below_transactional_id, producer, places
        )
    except KafscaleError as problem:
        client_errors.note(call, problem)
        code = transaction_code_of(problem, knows_fencing=call.version >= _FENCING_FROM)
    return respond(call, lambda _name, _partition: code)


def respond(call: Call, code_of: Callable[[str, int], ErrorCode]) -> AddPartitionsToTxnResponse:
    return AddPartitionsToTxnResponse(
        results_by_topic_v3_and_below=[
            AddPartitionsToTxnTopicResult(
                topic.name,
                [
                    AddPartitionsToTxnPartitionResult(one, code_of(topic.name, one))
                    for one in topic.partitions
                ],
            )
            for topic in call.message.v3_and_below_topics
        ]
    )
