"""ConsumerGroupHeartbeat: API 68, versions 0-1.

v1  subscribed_topic_regex; the client chooses its member id
Null, and -1 as a timeout, stand for what has not changed since the member's last heartbeat.
"""

# ruff: noqa: RUF012 - an empty list as default is copied by msgspec
from __future__ import annotations

from typing import Annotated, Final

from kafscale.wire.kafka.schema import NO_UUID, Int16, Int32, Message, Struct, Uuid, V, message

API_KEY: Final = 68
VERSIONS: Final = range(2)
FLEXIBLE_FROM: Final = 0


@message(API_KEY, VERSIONS, FLEXIBLE_FROM)
class ConsumerGroupHeartbeatRequest(Message):
    group_id: str = ""
    member_id: str = ""
    member_epoch: Int32 = 0
    instance_id: str | None = None
    rack_id: str | None = None
    rebalance_timeout_ms: Int32 = -1
    subscribed_topic_names: list[str] | None = None
    subscribed_topic_regex: Annotated[str | None, V(1)] = None
    server_assignor: str | None = None
    topic_partitions: list[OwnedTopicPartitions] | None = None


class OwnedTopicPartitions(Struct):
    topic_id: Uuid = NO_UUID
    partitions: list[Int32] = []


@message(API_KEY, VERSIONS, FLEXIBLE_FROM)
class ConsumerGroupHeartbeatResponse(Message):
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: str | None = None
    member_id: str | None = None
    member_epoch: Int32 = 0
    heartbeat_interval_ms: Int32 = 0
    assignment: MemberAssignment | None = None


class MemberAssignment(Struct):
    topic_partitions: list[AssignedTopicPartitions] = []


class AssignedTopicPartitions(Struct):
    topic_id: Uuid = NO_UUID
    partitions: list[Int32] = []
