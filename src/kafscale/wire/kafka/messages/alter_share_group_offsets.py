"""AlterShareGroupOffsets: API 91, version 0."""

# ruff: noqa: RUF012 - an empty list as default is copied by msgspec
from __future__ import annotations

from typing import Final

from kafscale.wire.kafka.schema import (
    NO_UUID,
    Int16,
    Int32,
    Int64,
    Message,
    Struct,
    Uuid,
    message,
)

API_KEY: Final = 91
VERSIONS: Final = range(1)
FLEXIBLE_FROM: Final = 0


@message(API_KEY, VERSIONS, FLEXIBLE_FROM)
class AlterShareGroupOffsetsRequest(Message):
    group_id: str = ""
    topics: list[AlteredShareTopic] = []


class AlteredShareTopic(Struct):
    topic_name: str = ""
    partitions: list[AlteredSharePartition] = []


class AlteredSharePartition(Struct):
    partition_index: Int32 = 0
    start_offset: Int64 = 0


@message(API_KEY, VERSIONS, FLEXIBLE_FROM)
class AlterShareGroupOffsetsResponse(Message):
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: str | None = None
    responses: list[AlteredShareTopicResponse] = []


class AlteredShareTopicResponse(Struct):
    topic_name: str = ""
    topic_id: Uuid = NO_UUID
    partitions: list[AlteredSharePartitionResponse] = []


class AlteredSharePartitionResponse(Struct):
    partition_index: Int32 = 0
    error_code: Int16 = 0
    error_message: str | None = None
