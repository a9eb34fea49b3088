"""JoinGroup: API 11, versions 0-9.

v1  rebalance_timeout_ms apart from the session timeout
v2  throttle_time_ms in the answer
v3  throttling is left to the client
v4  a new member is first given its id (MEMBER_ID_REQUIRED) and joins with it
v5  group_instance_id
v6  flexible
v7  protocol_type in the answer, protocol_name may be null
v8  reason
v9  skip_assignment
"""

# ruff: noqa: RUF012 - an empty list as default is copied by msgspec
from __future__ import annotations

from typing import Annotated, Final

from kafscale.wire.kafka.schema import Int16, Int32, Message, Struct, V, message

API_KEY: Final = 11
VERSIONS: Final = range(10)
FLEXIBLE_FROM: Final = 6


@message(API_KEY, VERSIONS, FLEXIBLE_FROM)
class JoinGroupRequest(Message):
    group_id: str = ""
    session_timeout_ms: Int32 = 0
    rebalance_timeout_ms: Annotated[Int32, V(1)] = -1
    member_id: str = ""
    group_instance_id: Annotated[str | None, V(5)] = None
    protocol_type: str = ""
    protocols: list[JoinGroupRequestProtocol] = []
    reason: Annotated[str | None, V(8)] = None


class JoinGroupRequestProtocol(Struct):
    name: str = ""
    metadata: bytes = b""


@message(API_KEY, VERSIONS, FLEXIBLE_FROM)
class JoinGroupResponse(Message):
    throttle_time_ms: Annotated[Int32, V(2)] = 0
    error_code: Int16 = 0
    generation_id: Int32 = -1
    protocol_type: Annotated[str | None, V(7)] = None
    protocol_name: Annotated[str | None, V(nullable=7)] = ""
    leader: str = ""
    skip_assignment: Annotated[bool, V(9)] = False
    member_id: str = ""
    members: list[JoinGroupResponseMember] = []


class JoinGroupResponseMember(Struct):
    member_id: str = ""
    group_instance_id: Annotated[str | None, V(5)] = None
    metadata: bytes = b""
