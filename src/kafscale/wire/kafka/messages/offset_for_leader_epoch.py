"""OffsetForLeaderEpoch: API 23, versions 0-4.

v1  leader_epoch in the answer
v2  current_leader_epoch, for fencing; throttle_time_ms in the answer
v3  replica_id: -1 for consumers
v4  flexible
"""

# ruff: noqa: RUF012 - an empty list as default is copied by msgspec
from __future__ import annotations

from typing import Annotated, Final

from kafscale.wire.kafka.schema import Int16, Int32, Int64, Message, Struct, V, message

API_KEY: Final = 23
VERSIONS: Final = range(5)
FLEXIBLE_FROM: Final = 4


@message(API_KEY, VERSIONS, FLEXIBLE_FROM)
class OffsetForLeaderEpochRequest(Message):
    replica_id: Annotated[Int32, V(3)] = -2
    topics: list[OffsetForLeaderTopic] = []


class OffsetForLeaderTopic(Struct):
    topic: str = ""
    partitions: list[OffsetForLeaderPartition] = []


class OffsetForLeaderPartition(Struct):
    partition: Int32 = 0
    current_leader_epoch: Annotated[Int32, V(2)] = -1
    leader_epoch: Int32 = 0


@message(API_KEY, VERSIONS, FLEXIBLE_FROM)
class OffsetForLeaderEpochResponse(Message):
    throttle_time_ms: Annotated[Int32, V(2)] = 0
    topics: list[OffsetForLeaderTopicResult] = []


class OffsetForLeaderTopicResult(Struct):
    topic: str = ""
    partitions: list[EpochEndOffset] = []


class EpochEndOffset(Struct):
    error_code: Int16 = 0
    partition: Int32 = 0
    leader_epoch: Annotated[Int32, V(1)] = -1
    end_offset: Int64 = -1
