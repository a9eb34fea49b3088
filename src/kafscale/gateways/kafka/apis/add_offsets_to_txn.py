"""AddOffsetsToTxn: API 25, versions 0-4. A transaction will commit offsets of a group."""

from typing import Final

from kafscale.gateways.kafka.access.requirements import (
    WholeRequest,
    by_group,
    by_transactional_id,
    error_alone,
)
from kafscale.gateways.kafka.calls import client_errors
from kafscale.gateways.kafka.calls.call import Answer, Call, Requirement
from kafscale.gateways.kafka.calls.request_order import COMMITS_OFFSETS
from kafscale.gateways.kafka.calls.transaction_errors import transaction_code_of
from kafscale.model.errors import KafscaleError
from kafscale.model.security.access import AccessOperation, ResourceType
from kafscale.transactions.machine import Producer
from kafscale.wire.kafka.messages.add_offsets_to_txn import (
    AddOffsetsToTxnRequest,
    AddOffsetsToTxnResponse,
)

API_KEY: Final = AddOffsetsToTxnRequest.api_key
VERSIONS: Final = AddOffsetsToTxnRequest.versions
ORDER: Final = COMMITS_OFFSETS
_refused: Final = error_alone(AddOffsetsToTxnResponse)
REQUIREMENTS: Final[tuple[Requirement, ...]] = (
    WholeRequest(
        AccessOperation.WRITE, ResourceType.TRANSACTIONAL_ID, by_transactional_id, _refused
    ),
    WholeRequest(AccessOperation.READ, ResourceType.GROUP, by_group, _refused),
)
_FENCING_FROM: Final = 2


def answer(call: Call) -> Answer:
    """Register the group."""
    return _answer(call)


async def _answer(call: Call) -> AddOffsetsToTxnResponse:
    request: AddOffsetsToTxnRequest = call.message
    transactions = call.engine.transactions
    try:
        await transactions.require(request.transactional_id)
        producer = Producer(request.producer_id, request.producer_epoch)
        await transactions.register_group(request.transactional_id, producer, request.group_id)
    except KafscaleError as problem:
        client_errors.note(call, problem)
        code = transaction_code_of(problem, knows_fencing=call.version >= _FENCING_FROM)
        return AddOffsetsToTxnResponse(error_code=code)
    return AddOffsetsToTxnResponse()
