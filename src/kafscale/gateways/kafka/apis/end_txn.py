"""EndTxn: API 26, versions 0-5.

The answer comes when every partition of the transaction has its marker and its offsets are
committed: a client that has it sees all of the transaction, and may begin the next one at once.
v5  every transaction has an epoch of its own; the answer has the next one
"""

from typing import Final

from kafscale.gateways.kafka.access.requirements import (
    WholeRequest,
    by_transactional_id,
    error_alone,
)
from kafscale.gateways.kafka.calls import client_errors
from kafscale.gateways.kafka.calls.call import Answer, Call, Requirement
from kafscale.gateways.kafka.calls.request_order import ENDS_TRANSACTIONS
from kafscale.gateways.kafka.calls.transaction_errors import transaction_code_of
from kafscale.model.errors import KafscaleError, TransactionAbortable
from kafscale.model.security.access import AccessOperation, ResourceType
from kafscale.transactions.machine import Producer
from kafscale.wire.kafka.errors import ErrorCode
from kafscale.wire.kafka.messages.end_txn import EndTxnRequest, EndTxnResponse

API_KEY: Final = EndTxnRequest.api_key
VERSIONS: Final = EndTxnRequest.versions
ORDER: Final = ENDS_TRANSACTIONS
REQUIREMENTS: Final[tuple[Requirement, ...]] = (
    WholeRequest(
        AccessOperation.WRITE,
        ResourceType.TRANSACTIONAL_ID,
        by_transactional_id,
        error_alone(EndTxnResponse),
    ),
)
_FENCING_FROM: Final = 2
_NEW_EPOCH_FROM: Final = 5
_ABORTABLE_FROM: Final = 4


def answer(call: Call) -> Answer:
    """Commit or abort."""
    return _answer(call)


async def _answer(call: Call) -> EndTxnResponse:
    request: EndTxnRequest = call.message
    transactions = call.engine.transactions
    try:
        await transactions.require(request.transactional_id)
        following = await transactions.end(
            request.transactional_id,
            Producer(request.producer_id, request.producer_epoch),
            commits=request.committed,
            raises_epoch=call.version >= _NEW_EPOCH_FROM,
        )
    except KafscaleError as problem:
        client_errors.note(call, problem)
        code = transaction_code_of(problem, knows_fencing=call.version >= _FENCING_FROM)
        if isinstance(problem, TransactionAbortable) and call.version < _ABORTABLE_FROM:
            code = ErrorCode.UNKNOWN_PRODUCER_ID  # by which older clients abort
        return EndTxnResponse(error_code=code)
    return EndTxnResponse(producer_id=following.producer_id, producer_epoch=following.epoch)
