"""OffsetFetch: API 9, versions 0-9.

v0  offsets were kept in ZooKeeper
v1  offsets are kept by the coordinator
v2  null asks for all partitions; an error for the group as a whole
v3  throttle_time_ms
v4  throttling is left to the client
v5  committed_leader_epoch
v6  flexible
v7  require_stable: wait for open transactions
v8  several groups at once
v9  members of consumer groups say their epoch
"""

# ruff: noqa: RUF012 - an empty list as default is copied by msgspec
from __future__ import annotations

from typing import Annotated, Final

from kafscale.wire.kafka.schema import Int16, Int32, Int64, Message, Struct, V, message

API_KEY: Final = 9
VERSIONS: Final = range(10)
FLEXIBLE_FROM: Final = 6


@message(API_KEY, VERSIONS, FLEXIBLE_FROM)
class OffsetFetchRequest(Message):
    group_id: Annotated[str, V(0, 7)] = ""
    topics: Annotated[list[OffsetFetchRequestTopic] | None, V(0, 7, nullable=2)] = []
    groups: Annotated[list[OffsetFetchRequestGroup], V(8)] = []
    require_stable: Annotated[bool, V(7)] = False


class OffsetFetchRequestTopic(Struct):
    name: str = ""
    partition_indexes: list[Int32] = []


class OffsetFetchRequestGroup(Struct):
    group_id: str = ""
    member_id: Annotated[str | None, V(9)] = None
    member_epoch: Annotated[Int32, V(9)] = -1
    topics: list[OffsetFetchRequestTopics] | None = []


class OffsetFetchRequestTopics(Struct):
    name: str = ""
    partition_indexes: list[Int32] = []


@message(API_KEY, VERSIONS, FLEXIBLE_FROM)
class OffsetFetchResponse(Message):
    throttle_time_ms: Annotated[Int32, V(3)] = 0
    topics: Annotated[list[OffsetFetchResponseTopic], V(0, 7)] = []
    error_code: Annotated[Int16, V(2, 7)] = 0
    groups: Annotated[list[OffsetFetchResponseGroup], V(8)] = []


class OffsetFetchResponseTopic(Struct):
    name: str = ""
    partitions: list[OffsetFetchResponsePartition] = []


class OffsetFetchResponsePartition(Struct):
    partition_index: Int32 = 0
    committed_offset: Int64 = 0
    committed_leader_epoch: Annotated[Int32, V(5)] = -1
    metadata: str | None = ""
    error_code: Int16 = 0


class OffsetFetchResponseGroup(Struct):
    group_id: str = ""
    topics: list[OffsetFetchResponseTopics] = []
    error_code: Int16 = 0


class OffsetFetchResponseTopics(Struct):
    name: str = ""
    partitions: list[OffsetFetchResponsePartitions] = []


class OffsetFetchResponsePartitions(Struct):
    partition_index: Int32 = 0
    committed_offset: Int64 = 0
    committed_leader_epoch: Int32 = -1
    metadata: str | None = ""
    error_code: Int16 = 0
