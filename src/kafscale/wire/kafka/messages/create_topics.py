"""CreateTopics: API 19, versions 0-7.

v1  validate_only; error_message
v2  throttle_time_ms in the answer
v3  throttling is left to the client
v4  -1 partitions or replicas asks for the broker's default
v5  flexible; the answer tells the partitions, replicas and configs the topic got
v6  THROTTLING_QUOTA_EXCEEDED may be answered
v7  topic_id in the answer
"""

# ruff: noqa: RUF012 - an empty list as default is copied by msgspec
from __future__ import annotations

from typing import Annotated, Final

from kafscale.wire.kafka.schema import (
    NO_UUID,
    Int8,
    Int16,
    Int32,
    Message,
    Struct,
    Uuid,
    V,
    message,
)

API_KEY: Final = 19
VERSIONS: Final = range(8)
FLEXIBLE_FROM: Final = 5


@message(API_KEY, VERSIONS, FLEXIBLE_FROM)
class CreateTopicsRequest(Message):
    topics: list[CreatableTopic] = []
    timeout_ms: Int32 = 60000
    validate_only: Annotated[bool, V(1)] = False


class CreatableTopic(Struct):
    name: str = ""
    num_partitions: Int32 = 0
    replication_factor: Int16 = 0
    assignments: list[CreatableReplicaAssignment] = []
    configs: list[CreatableTopicConfig] = []


class CreatableReplicaAssignment(Struct):
    partition_index: Int32 = 0
    broker_ids: list[Int32] = []


class CreatableTopicConfig(Struct):
    name: str = ""
    value: str | None = ""


@message(API_KEY, VERSIONS, FLEXIBLE_FROM)
class CreateTopicsResponse(Message):
    throttle_time_ms: Annotated[Int32, V(2)] = 0
    topics: list[CreatableTopicResult] = []


class CreatableTopicResult(Struct):
    name: str = ""
    topic_id: Annotated[Uuid, V(7)] = NO_UUID
    error_code: Int16 = 0
    error_message: Annotated[str | None, V(1)] = None
    topic_config_error_code: Annotated[Int16, V(5, tag=0)] = 0
    num_partitions: Annotated[Int32, V(5)] = -1
    replication_factor: Annotated[Int16, V(5)] = -1
    configs: Annotated[list[CreatableTopicConfigs] | None, V(5)] = []


class CreatableTopicConfigs(Struct):
    name: str = ""
    value: str | None = ""
    read_only: bool = False
    config_source: Int8 = -1
    is_sensitive: bool = False
