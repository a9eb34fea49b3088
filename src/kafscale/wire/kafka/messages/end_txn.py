"""EndTxn: API 26, versions 0-5.

v1  throttling is left to the client
v2  PRODUCER_FENCED may be answered
v3  flexible
v4  TRANSACTION_ABORTABLE may be answered
v5  the answer has the identity for the next transaction: its epoch is another one
"""

from __future__ import annotations

from typing import Annotated, Final

from kafscale.wire.kafka.schema import Int16, Int32, Int64, Message, V, message

API_KEY: Final = 26
VERSIONS: Final = range(6)
FLEXIBLE_FROM: Final = 3


@message(API_KEY, VERSIONS, FLEXIBLE_FROM)
class EndTxnRequest(Message):
    transactional_id: str = ""
    producer_id: Int64 = 0
    producer_epoch: Int16 = 0
    committed: bool = False


@message(API_KEY, VERSIONS, FLEXIBLE_FROM)
class EndTxnResponse(Message):
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    producer_id: Annotated[Int64, V(5)] = -1
    producer_epoch: Annotated[Int16, V(5)] = -1
