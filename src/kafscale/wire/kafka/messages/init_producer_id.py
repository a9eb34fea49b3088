"""InitProducerId: API 22, versions 0-5.

v1  throttling is left to the client
v2  flexible
v3  producer_id and producer_epoch: ask for the next epoch after an error
v4  PRODUCER_FENCED may be answered
v5  the client may know an epoch for each transaction
"""

from __future__ import annotations

from typing import Annotated, Final

from kafscale.wire.kafka.schema import Int16, Int32, Int64, Message, V, message

API_KEY: Final = 22
VERSIONS: Final = range(6)
FLEXIBLE_FROM: Final = 2


@message(API_KEY, VERSIONS, FLEXIBLE_FROM)
class InitProducerIdRequest(Message):
    transactional_id: str | None = ""
    transaction_timeout_ms: Int32 = 0
    producer_id: Annotated[Int64, V(3)] = -1
    producer_epoch: Annotated[Int16, V(3)] = -1


@message(API_KEY, VERSIONS, FLEXIBLE_FROM)
class InitProducerIdResponse(Message):
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    producer_id: Int64 = -1
    producer_epoch: Int16 = 0
