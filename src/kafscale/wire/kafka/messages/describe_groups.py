"""DescribeGroups: API 15, versions 0-6.

v1  throttle_time_ms in the answer
v2  throttling is left to the client
v3  authorized operations, when asked for
v4  group_instance_id
v5  flexible
v6  error_message
"""

# ruff: noqa: RUF012 - an empty list as default is copied by msgspec
from __future__ import annotations

from typing import Annotated, Final

from kafscale.wire.kafka.schema import Int16, Int32, Message, Struct, V, message

API_KEY: Final = 15
VERSIONS: Final = range(7)
FLEXIBLE_FROM: Final = 5


@message(API_KEY, VERSIONS, FLEXIBLE_FROM)
class DescribeGroupsRequest(Message):
    groups: list[str] = []
    include_authorized_operations: Annotated[bool, V(3)] = False


@message(API_KEY, VERSIONS, FLEXIBLE_FROM)
class DescribeGroupsResponse(Message):
    throttle_time_ms: Annotated[Int32, V(1)] = 0
    groups: list[DescribedGroup] = []


class DescribedGroup(Struct):
    error_code: Int16 = 0
    error_message: Annotated[str | None, V(6)] = None
    group_id: str = ""
    group_state: str = ""
    protocol_type: str = ""
    protocol_data: str = ""
    members: list[DescribedGroupMember] = []
    authorized_operations: Annotated[Int32, V(3)] = -0x80000000


class DescribedGroupMember(Struct):
    member_id: str = ""
    group_instance_id: Annotated[str | None, V(4)] = None
    client_id: str = ""
    client_host: str = ""
    member_metadata: bytes = b""
    member_assignment: bytes = b""
