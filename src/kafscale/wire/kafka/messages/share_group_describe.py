"""ShareGroupDescribe: API 77, version 1.

v0  was a preview and is gone
"""

# ruff: noqa: RUF012 - an empty list as default is copied by msgspec
from __future__ import annotations

from typing import Final

from msgspec import field

from kafscale.wire.kafka.schema import NO_UUID, Int16, Int32, Message, Struct, Uuid, message

API_KEY: Final = 77
VERSIONS: Final = range(1, 2)
FLEXIBLE_FROM: Final = 0


@message(API_KEY, VERSIONS, FLEXIBLE_FROM)
class ShareGroupDescribeRequest(Message):
    group_ids: list[str] = []
    include_authorized_operations: bool = False


@message(API_KEY, VERSIONS, FLEXIBLE_FROM)
class ShareGroupDescribeResponse(Message):
    throttle_time_ms: Int32 = 0
    groups: list[DescribedShareGroup] = []


class DescribedShareGroup(Struct):
    error_code: Int16 = 0
    error_message: str | None = None
    group_id: str = ""
    group_state: str = ""
    group_epoch: Int32 = 0
    assignment_epoch: Int32 = 0
    assignor_name: str = ""
    members: list[DescribedShareMember] = []
    authorized_operations: Int32 = -0x80000000


class DescribedShareAssignment(Struct):
    topic_partitions: list[DescribedSharePartitions] = []


class DescribedSharePartitions(Struct):
    topic_id: Uuid = NO_UUID
    topic_name: str = ""
    partitions: list[Int32] = []


class DescribedShareMember(Struct):
    member_id: str = ""
    rack_id: str | None = None
    member_epoch: Int32 = 0
    client_id: str = ""
    client_host: str = ""
    subscribed_topic_names: list[str] = []
    assignment: DescribedShareAssignment = field(default_factory=DescribedShareAssignment)
