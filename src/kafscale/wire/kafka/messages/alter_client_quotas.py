"""AlterClientQuotas: API 49, versions 0-1.

v1  flexible
"""

# ruff: noqa: RUF012 - an empty list as default is copied by msgspec
from __future__ import annotations

from typing import Final

from kafscale.wire.kafka.schema import Float64, Int16, Int32, Message, Struct, message

API_KEY: Final = 49
VERSIONS: Final = range(2)
FLEXIBLE_FROM: Final = 1


@message(API_KEY, VERSIONS, FLEXIBLE_FROM)
class AlterClientQuotasRequest(Message):
    entries: list[EntryData] = []
    validate_only: bool = False


class EntryData(Struct):
    entity: list[EntityData] = []
    ops: list[OpData] = []


class EntityData(Struct):
    entity_type: str = ""
    entity_name: str | None = ""


class OpData(Struct):
    key: str = ""
    value: Float64 = 0.0
    remove: bool = False


@message(API_KEY, VERSIONS, FLEXIBLE_FROM)
class AlterClientQuotasResponse(Message):
    throttle_time_ms: Int32 = 0
    entries: list[EntryResult] = []


class EntryResult(Struct):
    error_code: Int16 = 0
    error_message: str | None = None
    entity: list[EntityData] = []
