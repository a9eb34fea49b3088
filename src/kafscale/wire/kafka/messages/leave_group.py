"""LeaveGroup: API 13, versions 0-5.

v1  throttle_time_ms in the answer
v2  throttling is left to the client
v3  several members at once, by member or instance id
v4  flexible
v5  reason
"""

# ruff: noqa: RUF012 - an empty list as default is copied by msgspec
from __future__ import annotations

from typing import Annotated, Final

from kafscale.wire.kafka.schema import Int16, Int32, Message, Struct, V, message

API_KEY: Final = 13
VERSIONS: Final = range(6)
FLEXIBLE_FROM: Final = 4


@message(API_KEY, VERSIONS, FLEXIBLE_FROM)
class LeaveGroupRequest(Message):
    group_id: str = ""
    member_id: Annotated[str, V(0, 2)] = ""
    members: Annotated[list[MemberIdentity], V(3)] = []


class MemberIdentity(Struct):
    member_id: str = ""
    group_instance_id: str | None = None
    reason: Annotated[str | None, V(5)] = None


@message(API_KEY, VERSIONS, FLEXIBLE_FROM)
class LeaveGroupResponse(Message):
    throttle_time_ms: Annotated[Int32, V(1)] = 0
    error_code: Int16 = 0
    members: Annotated[list[MemberResponse], V(3)] = []


class MemberResponse(Struct):
    member_id: str = ""
    group_instance_id: str | None = ""
    error_code: Int16 = 0
