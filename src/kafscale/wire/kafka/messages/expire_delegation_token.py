"""ExpireDelegationToken: API 40, versions 1-2.

v2  flexible
"""

from __future__ import annotations

from typing import Final

from kafscale.wire.kafka.schema import Int16, Int32, Int64, Message, message

API_KEY: Final = 40
VERSIONS: Final = range(1, 3)
FLEXIBLE_FROM: Final = 2


@message(API_KEY, VERSIONS, FLEXIBLE_FROM)
class ExpireDelegationTokenRequest(Message):
    hmac: bytes = b""
    expiry_time_period_ms: Int64 = 0


@message(API_KEY, VERSIONS, FLEXIBLE_FROM)
class ExpireDelegationTokenResponse(Message):
    error_code: Int16 = 0
    expiry_timestamp_ms: Int64 = 0
    throttle_time_ms: Int32 = 0
