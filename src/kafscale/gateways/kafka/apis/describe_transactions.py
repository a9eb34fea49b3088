"""DescribeTransactions: API 65, version 0. Transactions are not supported: none is found."""

from typing import Final

from kafscale.gateways.kafka.access.requirements import EachRow, itself
from kafscale.gateways.kafka.calls.call import Answer, Call, Requirement
from kafscale.gateways.kafka.calls.request_order import FREE
from kafscale.model.access import AccessOperation, ResourceType
from kafscale.wire.kafka.errors import ErrorCode
from kafscale.wire.kafka.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
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
    """Answer for every id that it is not found."""
    request: DescribeTransactionsRequest = call.message
    code = ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
    return DescribeTransactionsResponse(
        transaction_states=[_refused(one, code) for one in dict.fromkeys(request.transactional_ids)]
    )
