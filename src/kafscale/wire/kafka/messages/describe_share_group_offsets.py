"""DescribeShareGroupOffsets: API 90, versions 0-1.

v1  lag
"""

# ruff: noqa: RUF012 - an empty list as default is copied by msgspec
from __future__ import annotations

from typing import Annotated, Final

from kafscale.wire.kafka.schema import (
    NO_UUID,
    Int16,
    Int32,
    Int64,
    Message,
    Struct,
    Uuid,
    V,
    message,
)

API_KEY: Final = 90
VERSIONS: Final = range(2)
FLEXIBLE_FROM: Final = 0


@message(API_KEY, VERSIONS, FLEXIBLE_FROM)
class DescribeShareGroupOffsetsRequest(Message):
    groups: list[ShareOffsetsGroup] = []


class ShareOffsetsGroup(Struct):
    group_id: str = ""
    topics: list[ShareOffsetsTopic] | None = []


class ShareOffsetsTopic(Struct):
    topic_name: str = ""
    partitions: list[Int32] = []


@message(API_KEY, VERSIONS, FLEXIBLE_FROM)
class DescribeShareGroupOffsetsResponse(Message):
    throttle_time_ms: Int32 = 0
    groups: list[ShareOffsetsGroupResponse] = []


class ShareOffsetsGroupResponse(Struct):
    group_id: str = ""
    topics: list[ShareOffsetsTopicResponse] = []
    error_code: Int16 = 0
    error_message: str | None = None


class ShareOffsetsTopicResponse(Struct):
    topic_name: str = ""
    topic_id: Uuid = NO_UUID
    partitions: list[ShareOffsetsPartitionResponse] = []


class ShareOffsetsPartitionResponse(Struct):
    partition_index: Int32 = 0
    start_offset: Int64 = 0
    leader_epoch: Int32 = 0
    lag: Annotated[Int64, V(1)] = -1
    error_code: Int16 = 0
    error_message: str | None = None
