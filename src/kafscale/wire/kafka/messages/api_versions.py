"""ApiVersions: API 18, versions 0-4.

v1  throttle_time_ms in the answer
v2  throttling is left to the client
v3  flexible, but the answer keeps the old header; the client names itself; features
v4  a feature may have the minimum version 0

A broker that does not know the version asked for answers version 0 with UNSUPPORTED_VERSION.
"""

# ruff: noqa: RUF012 - an empty list as default is copied by msgspec
from __future__ import annotations

from typing import Annotated, Final

from kafscale.wire.kafka.schema import Int16, Int32, Int64, Message, Struct, V, message

API_KEY: Final = 18
VERSIONS: Final = range(5)
FLEXIBLE_FROM: Final = 3


@message(API_KEY, VERSIONS, FLEXIBLE_FROM)
class ApiVersionsRequest(Message):
    client_software_name: Annotated[str, V(3)] = ""
    client_software_version: Annotated[str, V(3)] = ""


@message(API_KEY, VERSIONS, FLEXIBLE_FROM)
class ApiVersionsResponse(Message):
    error_code: Int16 = 0
    api_keys: list[ApiVersion] = []
    throttle_time_ms: Annotated[Int32, V(1)] = 0
    supported_features: Annotated[list[SupportedFeatureKey], V(3, tag=0)] = []
    finalized_features_epoch: Annotated[Int64, V(3, tag=1)] = -1
    finalized_features: Annotated[list[FinalizedFeatureKey], V(3, tag=2)] = []
    zk_migration_ready: Annotated[bool, V(3, tag=3)] = False


class ApiVersion(Struct):
    api_key: Int16 = 0
    min_version: Int16 = 0
    max_version: Int16 = 0


class SupportedFeatureKey(Struct):
    name: str = ""
    min_version: Int16 = 0
    max_version: Int16 = 0


class FinalizedFeatureKey(Struct):
    name: str = ""
    max_version_level: Int16 = 0
    min_version_level: Int16 = 0
