"""InitProducerId: API 22, versions 0-5.

Without a transactional id every request gets a new id with epoch 0, whatever id it mentions: that
is how an idempotent producer starts over. With one, the producer gets the next epoch of that id,
after the transaction of the instance before it has ended.
"""

from typing import Final

from kafscale.gateways.kafka.access.api_requirements import NewProducer
from kafscale.gateways.kafka.calls import client_errors
from kafscale.gateways.kafka.calls.call import Answer, Call, Requirement
from kafscale.gateways.kafka.calls.errors import code_of
from kafscale.gateways.kafka.calls.request_order import FREE
from kafscale.gateways.kafka.calls.transaction_errors import transaction_code_of
from kafscale.model.errors import KafscaleError
from kafscale.transactions.machine import Producer
from kafscale.wire.kafka.messages.init_producer_id import (
    InitProducerIdRequest,
    InitProducerIdResponse,
)

API_KEY: Final = InitProducerIdRequest.api_key
VERSIONS: Final = InitProducerIdRequest.versions


_FENCING_FROM: Final = 4

ORDER: Final = FREE
REQUIREMENTS: Final[tuple[Requirement, ...]] = (NewProducer(),)


def answer(call: Call) -> Answer:
    """Allocate an id."""
    request: InitProducerIdRequest = call.message
    if request.transactional_id is not None:
        return _next_instance(call, request.transactional_id)
    return _fresh(call)


async def _next_instance(call: Call, transactional_id: str) -> InitProducerIdResponse:
    request: InitProducerIdRequest = call.message
    transactions = call.engine.transactions
    try:
        await transactions.require(transactional_id)
        producer = await transactions.begin_instance(
            transactional_id,
            Producer(request.producer_id, request.producer_epoch),
            request.transaction_timeout_ms,
        )
    except KafscaleError as problem:
        client_errors.note(call, problem)
        code = transaction_code_of(problem, knows_fencing=call.version >= _FENCING_FROM)
        return InitProducerIdResponse(error_code=code, producer_epoch=-1)
    return InitProducerIdResponse(producer_id=producer.producer_id, producer_epoch=producer.epoch)


async def _fresh(call: Call) -> InitProducerIdResponse:
    try:
        producer_id = await call.engine.partitions.fresh_producer_id()
    except KafscaleError as problem:
        return InitProducerIdResponse(error_code=code_of(problem), producer_epoch=-1)
    return InitProducerIdResponse(producer_id=producer_id, producer_epoch=0)
