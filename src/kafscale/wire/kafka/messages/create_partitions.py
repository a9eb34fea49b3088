"""CreatePartitions: API 37, versions 0-3.

v1  throttling is left to the client
v2  flexible
v3  THROTTLING_QUOTA_EXCEEDED may be answered
"""

# ruff: noqa: RUF012 - an empty list as default is copied by msgspec
from __future__ import annotations

from typing import Final

from kafscale.wire.kafka.schema import Int16, Int32, Message, Struct, message

API_KEY: Final = 37
VERSIONS: Final = range(4)
FLEXIBLE_FROM: Final = 2


@message(API_KEY, VERSIONS, FLEXIBLE_FROM)
class CreatePartitionsRequest(Message):
    topics: list[CreatePartitionsTopic] = []
    timeout_ms: Int32 = 0
    validate_only: bool = False


class CreatePartitionsTopic(Struct):
    name: str = ""
    count: Int32 = 0
    assignments: list[CreatePartitionsAssignment] | None = None


class CreatePartitionsAssignment(Struct):
    broker_ids: list[Int32] = []


@message(API_KEY, VERSIONS, FLEXIBLE_FROM)
class CreatePartitionsResponse(Message):
    throttle_time_ms: Int32 = 0
    results: list[CreatePartitionsTopicResult] = []


class CreatePartitionsTopicResult(Struct):
    name: str = ""
    error_code: Int16 = 0
    error_message: str | None = None
