"""DescribeClientQuotas: API 48, versions 0-1.

v1  flexible
"""

# ruff: noqa: RUF012 - an empty list as default is copied by msgspec
from __future__ import annotations

from typing import Final

from kafscale.wire.kafka.schema import Float64, Int8, Int16, Int32, Message, Struct, message

API_KEY: Final = 48
VERSIONS: Final = range(2)
FLEXIBLE_FROM: Final = 1


@message(API_KEY, VERSIONS, FLEXIBLE_FROM)
class DescribeClientQuotasRequest(Message):
    components: list[ComponentData] = []
    strict: bool = False


class ComponentData(Struct):
    entity_type: str = ""
    match_type: Int8 = 0
    match: str | None = ""


@message(API_KEY, VERSIONS, FLEXIBLE_FROM)
class DescribeClientQuotasResponse(Message):
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: str | None = None
    entries: list[EntryData] | None = []


class EntryData(Struct):
    entity: list[EntityData] = []
    values: list[ValueData] = []


class EntityData(Struct):
    entity_type: str = ""
    entity_name: str | None = ""


class ValueData(Struct):
    key: str = ""
    value: Float64 = 0.0
