"""ElectLeaders: API 43, versions 0-2.

v1  kinds of election; an error for the request as a whole
v2  flexible
"""

# ruff: noqa: RUF012 - an empty list as default is copied by msgspec
from __future__ import annotations

from typing import Annotated, Final

from kafscale.wire.kafka.schema import Int8, Int16, Int32, Message, Struct, V, message

API_KEY: Final = 43
VERSIONS: Final = range(3)
FLEXIBLE_FROM: Final = 2


@message(API_KEY, VERSIONS, FLEXIBLE_FROM)
class ElectLeadersRequest(Message):
    election_type: Annotated[Int8, V(1)] = 0
    topic_partitions: list[TopicPartitions] | None = []
    timeout_ms: Int32 = 60000


class TopicPartitions(Struct):
    topic: str = ""
    partitions: list[Int32] = []


@message(API_KEY, VERSIONS, FLEXIBLE_FROM)
class ElectLeadersResponse(Message):
    throttle_time_ms: Int32 = 0
    error_code: Annotated[Int16, V(1)] = 0
    replica_election_results: list[ReplicaElectionResult] = []


class ReplicaElectionResult(Struct):
    topic: str = ""
    partition_result: list[PartitionResult] = []


class PartitionResult(Struct):
    partition_id: Int32 = 0
    error_code: Int16 = 0
    error_message: str | None = None
