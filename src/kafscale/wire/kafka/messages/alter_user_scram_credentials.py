"""AlterUserScramCredentials: API 51, version 0, flexible from the first."""

# ruff: noqa: RUF012 - an empty list as default is copied by msgspec
from __future__ import annotations

from typing import Final

from kafscale.wire.kafka.schema import Int8, Int16, Int32, Message, Struct, message

API_KEY: Final = 51
VERSIONS: Final = range(1)
FLEXIBLE_FROM: Final = 0


@message(API_KEY, VERSIONS, FLEXIBLE_FROM)
class AlterUserScramCredentialsRequest(Message):
    deletions: list[ScramCredentialDeletion] = []
    upsertions: list[ScramCredentialUpsertion] = []


class ScramCredentialDeletion(Struct):
    name: str = ""
    mechanism: Int8 = 0


class ScramCredentialUpsertion(Struct):
    name: str = ""
    mechanism: Int8 = 0
    iterations: Int32 = 0
    salt: bytes = b""
    salted_password: bytes = b""


@message(API_KEY, VERSIONS, FLEXIBLE_FROM)
class AlterUserScramCredentialsResponse(Message):
    throttle_time_ms: Int32 = 0
    results: list[AlterUserScramCredentialsResult] = []


class AlterUserScramCredentialsResult(Struct):
    user: str = ""
    error_code: Int16 = 0
    error_message: str | None = None
