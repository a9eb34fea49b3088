"""DescribeUserScramCredentials: API 50, version 0, flexible from the first."""

# ruff: noqa: RUF012 - an empty list as default is copied by msgspec
from __future__ import annotations

from typing import Final

from kafscale.wire.kafka.schema import Int8, Int16, Int32, Message, Struct, message

API_KEY: Final = 50
VERSIONS: Final = range(1)
FLEXIBLE_FROM: Final = 0


@message(API_KEY, VERSIONS, FLEXIBLE_FROM)
class DescribeUserScramCredentialsRequest(Message):
    users: list[UserName] | None = []


class UserName(Struct):
    name: str = ""


@message(API_KEY, VERSIONS, FLEXIBLE_FROM)
class DescribeUserScramCredentialsResponse(Message):
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: str | None = None
    results: list[DescribeUserScramCredentialsResult] = []


class DescribeUserScramCredentialsResult(Struct):
    user: str = ""
    error_code: Int16 = 0
    error_message: str | None = None
    credential_infos: list[CredentialInfo] = []


class CredentialInfo(Struct):
    mechanism: Int8 = 0
    iterations: Int32 = 0
