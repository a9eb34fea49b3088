"""DescribeDelegationToken: API 41, versions 1-3.

v2  flexible
v3  the answer says who asked for a token
"""

# ruff: noqa: RUF012 - an empty list as default is copied by msgspec
from __future__ import annotations

from typing import Annotated, Final

from kafscale.wire.kafka.schema import Int16, Int32, Int64, Message, Struct, V, message

API_KEY: Final = 41
VERSIONS: Final = range(1, 4)
FLEXIBLE_FROM: Final = 2


@message(API_KEY, VERSIONS, FLEXIBLE_FROM)
class DescribeDelegationTokenRequest(Message):
    owners: list[DescribeDelegationTokenOwner] | None = []


class DescribeDelegationTokenOwner(Struct):
    principal_type: str = ""
    principal_name: str = ""


@message(API_KEY, VERSIONS, FLEXIBLE_FROM)
class DescribeDelegationTokenResponse(Message):
    error_code: Int16 = 0
    tokens: list[DescribedDelegationToken] = []
    throttle_time_ms: Int32 = 0


class DescribedDelegationToken(Struct):
    principal_type: str = ""
    principal_name: str = ""
    token_requester_principal_type: Annotated[str, V(3)] = ""
    token_requester_principal_name: Annotated[str, V(3)] = ""
    issue_timestamp: Int64 = 0
    expiry_timestamp: Int64 = 0
    max_timestamp: Int64 = 0
    token_id: str = ""
    hmac: bytes = b""
    renewers: list[DescribedDelegationTokenRenewer] = []


class DescribedDelegationTokenRenewer(Struct):
    principal_type: str = ""
    principal_name: str = ""
