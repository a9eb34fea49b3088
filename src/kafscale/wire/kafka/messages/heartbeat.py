"""Heartbeat: API 12, versions 0-4.

v1  throttle_time_ms in the answer
v2  throttling is left to the client
v3  group_instance_id
v4  flexible
"""

from __future__ import annotations

from typing import Annotated, Final

from kafscale.wire.kafka.schema import Int16, Int32, Message, V, message

API_KEY: Final = 12
VERSIONS: Final = range(5)
FLEXIBLE_FROM: Final = 4


@message(API_KEY, VERSIONS, FLEXIBLE_FROM)
class HeartbeatRequest(Message):
    group_id: str = ""
    generation_id: Int32 = 0
    member_id: str = ""
    group_instance_id: Annotated[str | None, V(3)] = None


@message(API_KEY, VERSIONS, FLEXIBLE_FROM)
class HeartbeatResponse(Message):
    throttle_time_ms: Annotated[Int32, V(1)] = 0
    error_code: Int16 = 0
