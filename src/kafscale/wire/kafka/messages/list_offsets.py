"""ListOffsets: API 2, versions 0-11.

v0  a list of offsets per partition, newest first
v1  one offset and its timestamp instead
v2  isolation_level; throttle_time_ms in the answer
v3  throttling is left to the client
v4  leader epochs in both directions
v5  more error codes may be answered
v6  flexible
v7  the timestamp -3 asks for the record with the largest timestamp
v8  the timestamp -4 asks for the first offset on the broker's own disk
v9  the timestamp -5 asks for the last offset in remote storage
v10 timeout_ms
v11 the timestamp -6 asks for the first offset that is not in remote storage yet
"""

# ruff: noqa: RUF012 - an empty list as default is copied by msgspec
from __future__ import annotations

from typing import Annotated, Final

from kafscale.wire.kafka.schema import Int8, Int16, Int32, Int64, Message, Struct, V, message

API_KEY: Final = 2
VERSIONS: Final = range(12)
FLEXIBLE_FROM: Final = 6


@message(API_KEY, VERSIONS, FLEXIBLE_FROM)
class ListOffsetsRequest(Message):
    replica_id: Int32 = -1
    isolation_level: Annotated[Int8, V(2)] = 0
    topics: list[ListOffsetsTopic] = []
    timeout_ms: Annotated[Int32, V(10)] = 0


class ListOffsetsTopic(Struct):
    name: str = ""
    partitions: list[ListOffsetsPartition] = []


class ListOffsetsPartition(Struct):
    partition_index: Int32 = 0
    current_leader_epoch: Annotated[Int32, V(4)] = -1
    timestamp: Int64 = 0
    max_num_offsets: Annotated[Int32, V(0, 0)] = 1


@message(API_KEY, VERSIONS, FLEXIBLE_FROM)
class ListOffsetsResponse(Message):
    throttle_time_ms: Annotated[Int32, V(2)] = 0
    topics: list[ListOffsetsTopicResponse] = []


class ListOffsetsTopicResponse(Struct):
    name: str = ""
    partitions: list[ListOffsetsPartitionResponse] = []


class ListOffsetsPartitionResponse(Struct):
    partition_index: Int32 = 0
    error_code: Int16 = 0
    old_style_offsets: Annotated[list[Int64], V(0, 0)] = []
    timestamp: Annotated[Int64, V(1)] = -1
    offset: Annotated[Int64, V(1)] = -1
    leader_epoch: Annotated[Int32, V(4)] = -1
