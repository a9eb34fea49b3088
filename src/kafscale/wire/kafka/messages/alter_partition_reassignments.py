"""AlterPartitionReassignments: API 45, versions 0-1, flexible from the first.

v1  a client may forbid changes of the replication factor
"""

# ruff: noqa: RUF012 - an empty list as default is copied by msgspec
from __future__ import annotations

from typing import Annotated, Final

from kafscale.wire.kafka.schema import Int16, Int32, Message, Struct, V, message

API_KEY: Final = 45
VERSIONS: Final = range(2)
FLEXIBLE_FROM: Final = 0


@message(API_KEY, VERSIONS, FLEXIBLE_FROM)
class AlterPartitionReassignmentsRequest(Message):
    timeout_ms: Int32 = 60000
    allow_replication_factor_change: Annotated[bool, V(1)] = True
    topics: list[ReassignableTopic] = []


class ReassignableTopic(Struct):
    name: str = ""
    partitions: list[ReassignablePartition] = []


class ReassignablePartition(Struct):
    partition_index: Int32 = 0
    replicas: list[Int32] | None = None


@message(API_KEY, VERSIONS, FLEXIBLE_FROM)
class AlterPartitionReassignmentsResponse(Message):
    throttle_time_ms: Int32 = 0
    allow_replication_factor_change: Annotated[bool, V(1)] = True
    error_code: Int16 = 0
    error_message: str | None = None
    responses: list[ReassignableTopicResponse] = []


class ReassignableTopicResponse(Struct):
    name: str = ""
    partitions: list[ReassignablePartitionResponse] = []


class ReassignablePartitionResponse(Struct):
    partition_index: Int32 = 0
    error_code: Int16 = 0
    error_message: str | None = None
