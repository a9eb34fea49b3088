"""AddOffsetsToTxn: API 25, versions 0-4.

v1  throttling is left to the client
v2  PRODUCER_FENCED may be answered
v3  flexible
v4  TRANSACTION_ABORTABLE may be answered
"""

from __future__ import annotations

from typing import Final

from kafscale.wire.kafka.schema import Int16, Int32, Int64, Message, message

API_KEY: Final = 25
VERSIONS: Final = range(5)
FLEXIBLE_FROM: Final = 3


@message(API_KEY, VERSIONS, FLEXIBLE_FROM)
class AddOffsetsToTxnRequest(Message):
    transactional_id: str = ""
    producer_id: Int64 = 0
    producer_epoch: Int16 = 0
    group_id: str = ""


@message(API_KEY, VERSIONS, FLEXIBLE_FROM)
class AddOffsetsToTxnResponse(Message):
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
