"""DescribeTransactions: API 65, version 0. Answered by the coordinators of the ids."""

from typing import Final

from kafscale.gateways.kafka.access.requirements import EachRow, itself
from kafscale.gateways.kafka.calls import client_errors
from kafscale.gateways.kafka.calls.call import Answer, Call, Requirement
from kafscale.gateways.kafka.calls.errors import coordinator_code_of
from kafscale.gateways.kafka.calls.request_order import FREE
from kafscale.model.errors import KafscaleError
from kafscale.model.security.access import AccessOperation, ResourceType
from kafscale.transactions.rows import AT_REST
from kafscale.wire.kafka.errors import ErrorCode
from kafscale.wire.kafka.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    TopicData,
    TransactionState,
)

API_KEY: Final = DescribeTransactionsRequest.api_key
VERSIONS: Final = DescribeTransactionsRequest.versions


def _refused(transactional_id: str, code: ErrorCode) -> TransactionState:
    return TransactionState(error_code=code, transactional_id=transactional_id)


ORDER: Final = FREE
REQUIREMENTS: Final[tuple[Requirement, ...]] = (
    EachRow(
        AccessOperation.DESCRIBE,
        ResourceType.TRANSACTIONAL_ID,
        "transactional_ids",
        itself,
        "transaction_states",
        _refused,
    ),
)


def answer(call: Call) -> Answer:
    """Look at every id."""
    return _answer(call)


async def _answer(call: Call) -> DescribeTransactionsResponse:
    request: DescribeTransactionsRequest = call.message
    ids = dict.fromkeys(request.transactional_ids)
    rows = [await _describe(call, one) async for one in call.each(ids)]
    return DescribeTransactionsResponse(transaction_states=rows)


async def _describe(call: Call, transactional_id: str) -> TransactionState:
    try:
        await call.engine.transactions.require(transactional_id)
        found = await call.engine.transactions.describe(transactional_id)
    except KafscaleError as problem:
        client_errors.note(call, problem)
        return _refused(transactional_id, coordinator_code_of(problem))
    topics: dict[str, list[int]] = {}
    for place in sorted(found.places):
        if call.allows(AccessOperation.DESCRIBE, ResourceType.TOPIC, place.name):
            topics.setdefault(place.name, []).append(place.partition)
    row = found.row
    return TransactionState(
        transactional_id=transactional_id,
        transaction_state=row.state_name,
        transaction_timeout_ms=row.timeout_ms,
        transaction_start_time_ms=row.started_ms if row.state not in AT_REST else -1,
        producer_id=row.producer_id,
        producer_epoch=row.epoch,
        topics=[TopicData(name, partitions) for name, partitions in topics.items()],
    )
