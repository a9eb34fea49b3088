"""SaslHandshake: API 17, versions 0-1, never flexible: clients may send it before they know us.

v1  what follows is wrapped in SaslAuthenticate
"""

# ruff: noqa: RUF012 - an empty list as default is copied by msgspec
from __future__ import annotations

from typing import Final

from kafscale.wire.kafka.schema import Int16, Message, message

API_KEY: Final = 17
VERSIONS: Final = range(2)
FLEXIBLE_FROM: Final = 2


@message(API_KEY, VERSIONS, FLEXIBLE_FROM)
class SaslHandshakeRequest(Message):
    mechanism: str = ""


@message(API_KEY, VERSIONS, FLEXIBLE_FROM)
class SaslHandshakeResponse(Message):
    error_code: Int16 = 0
    mechanisms: list[str] = []
