"""ConsumerGroupDescribe: API 69, versions 0-1.

v1  member_type
"""

# ruff: noqa: RUF012 - an empty list as default is copied by msgspec
from __future__ import annotations

from typing import Annotated, Final

from msgspec import field

from kafscale.wire.kafka.schema import (
    NO_UUID,
    Int8,
    Int16,
    Int32,
    Message,
    Struct,
    Uuid,
    V,
    message,
)

API_KEY: Final = 69
VERSIONS: Final = range(2)
FLEXIBLE_FROM: Final = 0


@message(API_KEY, VERSIONS, FLEXIBLE_FROM)
class ConsumerGroupDescribeRequest(Message):
    group_ids: list[str] = []
    include_authorized_operations: bool = False


@message(API_KEY, VERSIONS, FLEXIBLE_FROM)
class ConsumerGroupDescribeResponse(Message):
    throttle_time_ms: Int32 = 0
    groups: list[DescribedConsumerGroup] = []


class DescribedConsumerGroup(Struct):
    error_code: Int16 = 0
    error_message: str | None = None
    group_id: str = ""
    group_state: str = ""
    group_epoch: Int32 = 0
    assignment_epoch: Int32 = 0
    assignor_name: str = ""
    members: list[DescribedConsumerMember] = []
    authorized_operations: Int32 = -0x80000000


class DescribedAssignment(Struct):
    topic_partitions: list[DescribedTopicPartitions] = []


class DescribedTopicPartitions(Struct):
    topic_id: Uuid = NO_UUID
    topic_name: str = ""
    partitions: list[Int32] = []


class DescribedConsumerMember(Struct):
    member_id: str = ""
    instance_id: str | None = None
    rack_id: str | None = None
    member_epoch: Int32 = 0
    client_id: str = ""
    client_host: str = ""
    subscribed_topic_names: list[str] = []
    subscribed_topic_regex: str | None = None
    assignment: DescribedAssignment = field(default_factory=DescribedAssignment)
    target_assignment: DescribedAssignment = field(default_factory=DescribedAssignment)
    member_type: Annotated[Int8, V(1)] = -1
