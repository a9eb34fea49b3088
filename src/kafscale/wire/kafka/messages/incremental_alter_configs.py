"""IncrementalAlterConfigs: API 44, versions 0-1.

v1  flexible
"""

# ruff: noqa: RUF012 - an empty list as default is copied by msgspec
from __future__ import annotations

from typing import Final

from kafscale.wire.kafka.schema import Int8, Int16, Int32, Message, Struct, message

API_KEY: Final = 44
VERSIONS: Final = range(2)
FLEXIBLE_FROM: Final = 1


@message(API_KEY, VERSIONS, FLEXIBLE_FROM)
class IncrementalAlterConfigsRequest(Message):
    resources: list[AlterConfigsResource] = []
    validate_only: bool = False


class AlterConfigsResource(Struct):
    resource_type: Int8 = 0
    resource_name: str = ""
    configs: list[AlterableConfig] = []


class AlterableConfig(Struct):
    name: str = ""
    config_operation: Int8 = 0  # 0 set, 1 delete, 2 append, 3 subtract
    value: str | None = ""


@message(API_KEY, VERSIONS, FLEXIBLE_FROM)
class IncrementalAlterConfigsResponse(Message):
    throttle_time_ms: Int32 = 0
    responses: list[AlterConfigsResourceResponse] = []


class AlterConfigsResourceResponse(Struct):
    error_code: Int16 = 0
    error_message: str | None = None
    resource_type: Int8 = 0
    resource_name: str = ""
