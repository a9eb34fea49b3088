"""InitProducerId: API 22, versions 0-4.

Every request gets a new id with epoch 0, whatever id it mentions: that is how an idempotent
producer starts over. Transactions are not supported: a transactional id is refused.
"""

from typing import Final

from kafscale.gateways.kafka.access.api_requirements import NewProducer
from kafscale.gateways.kafka.calls import client_errors
from kafscale.gateways.kafka.calls.call import Answer, Call, Requirement
from kafscale.gateways.kafka.calls.errors import code_of
from kafscale.gateways.kafka.calls.request_order import FREE
from kafscale.model.errors import KafscaleError
from kafscale.wire.kafka.errors import ErrorCode
from kafscale.wire.kafka.messages.init_producer_id import (
    InitProducerIdRequest,
    InitProducerIdResponse,
)

API_KEY: Final = InitProducerIdRequest.api_key
VERSIONS: Final = InitProducerIdRequest.versions


ORDER: Final = FREE
REQUIREMENTS: Final[tuple[Requirement, ...]] = (NewProducer(),)


def answer(call: Call) -> Answer:
    """Allocate an id."""
    request: InitProducerIdRequest = call.message
    if request.transactional_id is not None:
        client_errors.note_transaction(call, request.transactional_id)
        return InitProducerIdResponse(error_code=ErrorCode.UNSUPPORTED_VERSION, producer_epoch=-1)
    return _fresh(call)


async def _fresh(call: Call) -> InitProducerIdResponse:
    try:
        producer_id = await call.engine.partitions.fresh_producer_id()
    except KafscaleError as problem:
        return InitProducerIdResponse(error_code=code_of(problem), producer_epoch=-1)
    return InitProducerIdResponse(producer_id=producer_id, producer_epoch=0)
