"""ShareGroupHeartbeat: API 76, version 1.

v0  was a preview and is gone
Null stands for what has not changed since the member's last heartbeat.
"""

from __future__ import annotations

from typing import Final

from kafscale.wire.kafka.messages.consumer_group_heartbeat import MemberAssignment
from kafscale.wire.kafka.schema import Int16, Int32, Message, message

API_KEY: Final = 76
VERSIONS: Final = range(1, 2)
FLEXIBLE_FROM: Final = 0


@message(API_KEY, VERSIONS, FLEXIBLE_FROM)
class ShareGroupHeartbeatRequest(Message):
    group_id: str = ""
    member_id: str = ""
    member_epoch: Int32 = 0
    rack_id: str | None = None
    subscribed_topic_names: list[str] | None = None


@message(API_KEY, VERSIONS, FLEXIBLE_FROM)
class ShareGroupHeartbeatResponse(Message):
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: str | None = None
    member_id: str | None = None
    member_epoch: Int32 = 0
    heartbeat_interval_ms: Int32 = 0
    assignment: MemberAssignment | None = None
