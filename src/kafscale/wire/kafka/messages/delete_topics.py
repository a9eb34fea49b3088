"""DeleteTopics: API 20, versions 0-6.

v1  throttle_time_ms in the answer
v2  throttling is left to the client
v3  TOPIC_DELETION_DISABLED may be answered
v4  flexible
v5  error_message in the answer
v6  topics by name or id
"""

# ruff: noqa: RUF012 - an empty list as default is copied by msgspec
from __future__ import annotations

from typing import Annotated, Final

from kafscale.wire.kafka.schema import NO_UUID, Int16, Int32, Message, Struct, Uuid, V, message

API_KEY: Final = 20
VERSIONS: Final = range(7)
FLEXIBLE_FROM: Final = 4


@message(API_KEY, VERSIONS, FLEXIBLE_FROM)
class DeleteTopicsRequest(Message):
    topics: Annotated[list[DeleteTopicState], V(6)] = []
    topic_names: Annotated[list[str], V(0, 5)] = []
    timeout_ms: Int32 = 0


class DeleteTopicState(Struct):
    name: str | None = None
    topic_id: Uuid = NO_UUID


@message(API_KEY, VERSIONS, FLEXIBLE_FROM)
class DeleteTopicsResponse(Message):
    throttle_time_ms: Annotated[Int32, V(1)] = 0
    responses: list[DeletableTopicResult] = []


class DeletableTopicResult(Struct):
    name: Annotated[str | None, V(nullable=6)] = ""
    topic_id: Annotated[Uuid, V(6)] = NO_UUID
    error_code: Int16 = 0
    error_message: Annotated[str | None, V(5)] = None
