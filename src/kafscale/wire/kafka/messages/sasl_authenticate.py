"""SaslAuthenticate: API 36, versions 0-2.

v1  the answer says how long the session lasts
v2  flexible
"""

from __future__ import annotations

from typing import Annotated, Final

from kafscale.wire.kafka.schema import Int16, Int64, Message, V, message

API_KEY: Final = 36
VERSIONS: Final = range(3)
FLEXIBLE_FROM: Final = 2


@message(API_KEY, VERSIONS, FLEXIBLE_FROM)
class SaslAuthenticateRequest(Message):
    auth_bytes: bytes = b""


@message(API_KEY, VERSIONS, FLEXIBLE_FROM)
class SaslAuthenticateResponse(Message):
    error_code: Int16 = 0
    error_message: str | None = None
    auth_bytes: bytes = b""
    session_lifetime_ms: Annotated[Int64, V(1)] = 0
