"""OffsetCommit: API 8, versions 0-9.

v1  generation, member, a timestamp per partition
v2  one retention time for all instead of timestamps
v3  throttle_time_ms in the answer
v4  throttling is left to the client
v5  no retention time any more
v6  committed_leader_epoch
v7  group_instance_id
v8  flexible
v9  members of consumer groups commit by their epoch
"""

# ruff: noqa: RUF012 - an empty list as default is copied by msgspec
from __future__ import annotations

from typing import Annotated, Final

from kafscale.wire.kafka.schema import Int16, Int32, Int64, Message, Struct, V, message

API_KEY: Final = 8
VERSIONS: Final = range(10)
FLEXIBLE_FROM: Final = 8


@message(API_KEY, VERSIONS, FLEXIBLE_FROM)
class OffsetCommitRequest(Message):
    group_id: str = ""
    generation_id_or_member_epoch: Annotated[Int32, V(1)] = -1
    member_id: Annotated[str, V(1)] = ""
    group_instance_id: Annotated[str | None, V(7)] = None
    retention_time_ms: Annotated[Int64, V(2, 4)] = -1
    topics: list[OffsetCommitRequestTopic] = []


class OffsetCommitRequestTopic(Struct):
    name: str = ""
    partitions: list[OffsetCommitRequestPartition] = []


class OffsetCommitRequestPartition(Struct):
    partition_index: Int32 = 0
    committed_offset: Int64 = 0
    committed_leader_epoch: Annotated[Int32, V(6)] = -1
    commit_timestamp: Annotated[Int64, V(1, 1)] = -1
    committed_metadata: str | None = ""


@message(API_KEY, VERSIONS, FLEXIBLE_FROM)
class OffsetCommitResponse(Message):
    throttle_time_ms: Annotated[Int32, V(3)] = 0
    topics: list[OffsetCommitResponseTopic] = []


class OffsetCommitResponseTopic(Struct):
    name: str = ""
    partitions: list[OffsetCommitResponsePartition] = []


class OffsetCommitResponsePartition(Struct):
    partition_index: Int32 = 0
    error_code: Int16 = 0
