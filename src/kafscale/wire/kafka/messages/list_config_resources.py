"""ListConfigResources: API 74, versions 0-1, flexible from the first.

v0  subscriptions of client metrics
v1  resources of every type
"""

# ruff: noqa: RUF012 - an empty list as default is copied by msgspec
from __future__ import annotations

from typing import Annotated, Final

from kafscale.wire.kafka.schema import Int8, Int16, Int32, Message, Struct, V, message

API_KEY: Final = 74
VERSIONS: Final = range(2)
FLEXIBLE_FROM: Final = 0


@message(API_KEY, VERSIONS, FLEXIBLE_FROM)
class ListConfigResourcesRequest(Message):
    resource_types: Annotated[list[Int8], V(1)] = []


@message(API_KEY, VERSIONS, FLEXIBLE_FROM)
class ListConfigResourcesResponse(Message):
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    config_resources: list[ConfigResource] = []


class ConfigResource(Struct):
    resource_name: str = ""
    resource_type: Annotated[Int8, V(1)] = 16
