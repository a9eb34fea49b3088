"""CreateDelegationToken: API 38, versions 1-3.

v2  flexible
v3  a token may be made for another owner
"""

# ruff: noqa: RUF012 - an empty list as default is copied by msgspec
from __future__ import annotations

from typing import Annotated, Final

from kafscale.wire.kafka.schema import Int16, Int32, Int64, Message, Struct, V, message

API_KEY: Final = 38
VERSIONS: Final = range(1, 4)
FLEXIBLE_FROM: Final = 2


@message(API_KEY, VERSIONS, FLEXIBLE_FROM)
class CreateDelegationTokenRequest(Message):
    owner_principal_type: Annotated[str | None, V(3)] = None
    owner_principal_name: Annotated[str | None, V(3)] = None
    renewers: list[CreatableRenewers] = []
    max_lifetime_ms: Int64 = 0


class CreatableRenewers(Struct):
    principal_type: str = ""
    principal_name: str = ""


@message(API_KEY, VERSIONS, FLEXIBLE_FROM)
class CreateDelegationTokenResponse(Message):
    error_code: Int16 = 0
    principal_type: str = ""
    principal_name: str = ""
    token_requester_principal_type: Annotated[str, V(3)] = ""
    token_requester_principal_name: Annotated[str, V(3)] = ""
    issue_timestamp_ms: Int64 = 0
    expiry_timestamp_ms: Int64 = 0
    max_timestamp_ms: Int64 = 0
    token_id: str = ""
    hmac: bytes = b""
    throttle_time_ms: Int32 = 0
