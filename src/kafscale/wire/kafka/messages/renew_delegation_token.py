"""RenewDelegationToken: API 39, versions 1-2.

v2  flexible
"""

from __future__ import annotations

from typing import Final

from kafscale.wire.kafka.schema import Int16, Int32, Int64, Message, message

API_KEY: Final = 39
VERSIONS: Final = range(1, 3)
FLEXIBLE_FROM: Final = 2


@message(API_KEY, VERSIONS, FLEXIBLE_FROM)
class RenewDelegationTokenRequest(Message):
    hmac: bytes = b""
    renew_period_ms: Int64 = 0


@message(API_KEY, VERSIONS, FLEXIBLE_FROM)
class RenewDelegationTokenResponse(Message):
    error_code: Int16 = 0
    expiry_timestamp_ms: Int64 = 0
    throttle_time_ms: Int32 = 0
