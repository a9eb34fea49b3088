"""OffsetDelete: API 47, version 0, which is not flexible."""

# ruff: noqa: RUF012 - an empty list as default is copied by msgspec
from __future__ import annotations

from typing import Final

from kafscale.wire.kafka.schema import Int16, Int32, Message, Struct, message

API_KEY: Final = 47
VERSIONS: Final = range(1)
FLEXIBLE_FROM: Final = 1


@message(API_KEY, VERSIONS, FLEXIBLE_FROM)
class OffsetDeleteRequest(Message):
    group_id: str = ""
    topics: list[OffsetDeleteRequestTopic] = []


class OffsetDeleteRequestTopic(Struct):
    name: str = ""
    partitions: list[OffsetDeleteRequestPartition] = []


class OffsetDeleteRequestPartition(Struct):
    partition_index: Int32 = 0


@message(API_KEY, VERSIONS, FLEXIBLE_FROM)
class OffsetDeleteResponse(Message):
    error_code: Int16 = 0
    throttle_time_ms: Int32 = 0
    topics: list[OffsetDeleteResponseTopic] = []


class OffsetDeleteResponseTopic(Struct):
    name: str = ""
    partitions: list[OffsetDeleteResponsePartition] = []


class OffsetDeleteResponsePartition(Struct):
    partition_index: Int32 = 0
    error_code: Int16 = 0
