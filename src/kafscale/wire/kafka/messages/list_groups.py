"""ListGroups: API 16, versions 0-5.

v1  throttle_time_ms in the answer
v2  throttling is left to the client
v3  flexible
v4  states_filter, group_state
v5  types_filter, group_type
"""

# ruff: noqa: RUF012 - an empty list as default is copied by msgspec
from __future__ import annotations

from typing import Annotated, Final

from kafscale.wire.kafka.schema import Int16, Int32, Message, Struct, V, message

API_KEY: Final = 16
VERSIONS: Final = range(6)
FLEXIBLE_FROM: Final = 3


@message(API_KEY, VERSIONS, FLEXIBLE_FROM)
class ListGroupsRequest(Message):
    states_filter: Annotated[list[str], V(4)] = []
    types_filter: Annotated[list[str], V(5)] = []


@message(API_KEY, VERSIONS, FLEXIBLE_FROM)
class ListGroupsResponse(Message):
    throttle_time_ms: Annotated[Int32, V(1)] = 0
    error_code: Int16 = 0
    groups: list[ListedGroup] = []


class ListedGroup(Struct):
    group_id: str = ""
    protocol_type: str = ""
    group_state: Annotated[str, V(4)] = ""
    group_type: Annotated[str, V(5)] = ""
