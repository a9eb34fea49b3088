"""DescribeConfigs: API 32, versions 0-4.

v0  is_default instead of a source
v1  config_source, synonyms when asked for
v2  throttling is left to the client
v3  config_type, documentation when asked for
v4  flexible
"""

# ruff: noqa: RUF012 - an empty list as default is copied by msgspec
from __future__ import annotations

from typing import Annotated, Final

from kafscale.wire.kafka.schema import Int8, Int16, Int32, Message, Struct, V, message

API_KEY: Final = 32
VERSIONS: Final = range(5)
FLEXIBLE_FROM: Final = 4


@message(API_KEY, VERSIONS, FLEXIBLE_FROM)
class DescribeConfigsRequest(Message):
    resources: list[DescribeConfigsResource] = []
    include_synonyms: Annotated[bool, V(1)] = False
    include_documentation: Annotated[bool, V(3)] = False


class DescribeConfigsResource(Struct):
    resource_type: Int8 = 0
    resource_name: str = ""
    configuration_keys: list[str] | None = []


@message(API_KEY, VERSIONS, FLEXIBLE_FROM)
class DescribeConfigsResponse(Message):
    throttle_time_ms: Int32 = 0
    results: list[DescribeConfigsResult] = []


class DescribeConfigsResult(Struct):
    error_code: Int16 = 0
    error_message: str | None = None
    resource_type: Int8 = 0
    resource_name: str = ""
    configs: list[DescribeConfigsResourceResult] = []


class DescribeConfigsResourceResult(Struct):
    name: str = ""
    value: str | None = ""
    read_only: bool = False
    config_source: Annotated[Int8, V(1)] = -1
    is_default: Annotated[bool, V(0, 0)] = False
    is_sensitive: bool = False
    synonyms: Annotated[list[DescribeConfigsSynonym], V(1)] = []
    config_type: Annotated[Int8, V(3)] = 0
    documentation: Annotated[str | None, V(3)] = ""


class DescribeConfigsSynonym(Struct):
    name: str = ""
    value: str | None = ""
    source: Int8 = 0
