"""DeleteShareGroupOffsets: API 92, version 0."""

# ruff: noqa: RUF012 - an empty list as default is copied by msgspec
from __future__ import annotations

from typing import Final

from kafscale.wire.kafka.schema import NO_UUID, Int16, Int32, Message, Struct, Uuid, message

API_KEY: Final = 92
VERSIONS: Final = range(1)
FLEXIBLE_FROM: Final = 0


@message(API_KEY, VERSIONS, FLEXIBLE_FROM)
class DeleteShareGroupOffsetsRequest(Message):
    group_id: str = ""
    topics: list[DeletedShareTopic] = []


class DeletedShareTopic(Struct):
    topic_name: str = ""


@message(API_KEY, VERSIONS, FLEXIBLE_FROM)
class DeleteShareGroupOffsetsResponse(Message):
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: str | None = None
    responses: list[DeletedShareTopicResponse] = []


class DeletedShareTopicResponse(Struct):
    topic_name: str = ""
    topic_id: Uuid = NO_UUID
    error_code: Int16 = 0
    error_message: str | None = None
