"""SyncGroup: API 14, versions 0-5.

v1  throttle_time_ms in the answer
v2  throttling is left to the client
v3  group_instance_id
v4  flexible
v5  protocol_type and protocol_name in both directions
"""

# ruff: noqa: RUF012 - an empty list as default is copied by msgspec
from __future__ import annotations

from typing import Annotated, Final

from kafscale.wire.kafka.schema import Int16, Int32, Message, Struct, V, message

API_KEY: Final = 14
VERSIONS: Final = range(6)
FLEXIBLE_FROM: Final = 4


@message(API_KEY, VERSIONS, FLEXIBLE_FROM)
class SyncGroupRequest(Message):
    group_id: str = ""
    generation_id: Int32 = 0
    member_id: str = ""
    group_instance_id: Annotated[str | None, V(3)] = None
    protocol_type: Annotated[str | None, V(5)] = None
    protocol_name: Annotated[str | None, V(5)] = None
    assignments: list[SyncGroupRequestAssignment] = []


class SyncGroupRequestAssignment(Struct):
    member_id: str = ""
    assignment: bytes = b""


@message(API_KEY, VERSIONS, FLEXIBLE_FROM)
class SyncGroupResponse(Message):
    throttle_time_ms: Annotated[Int32, V(1)] = 0
    error_code: Int16 = 0
    protocol_type: Annotated[str | None, V(5)] = None
    protocol_name: Annotated[str | None, V(5)] = None
    assignment: bytes = b""
