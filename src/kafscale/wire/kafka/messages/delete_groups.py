"""DeleteGroups: API 42, versions 0-2.

v1  throttling is left to the client
v2  flexible
"""

# ruff: noqa: RUF012 - an empty list as default is copied by msgspec
from __future__ import annotations

from typing import Final

from kafscale.wire.kafka.schema import Int16, Int32, Message, Struct, message

API_KEY: Final = 42
VERSIONS: Final = range(3)
FLEXIBLE_FROM: Final = 2


@message(API_KEY, VERSIONS, FLEXIBLE_FROM)
class DeleteGroupsRequest(Message):
    groups_names: list[str] = []


@message(API_KEY, VERSIONS, FLEXIBLE_FROM)
class DeleteGroupsResponse(Message):
    throttle_time_ms: Int32 = 0
    results: list[DeletableGroupResult] = []


class DeletableGroupResult(Struct):
    group_id: str = ""
    error_code: Int16 = 0
