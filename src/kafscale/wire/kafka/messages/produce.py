"""Produce: API 0, versions 0-12.

v1  throttle_time_ms in the answer
v2  log_append_time_ms in the answer; message format 1 may be sent
v3  transactional_id; message format 2, one batch per partition
v4  the error KAFKA_STORAGE_ERROR may be answered
v5  log_start_offset in the answer
v6  throttling is left to the client
v7  zstd
v8  record_errors and error_message in the answer
v9  flexible
v10 the leader, and how to reach it, with the error NOT_LEADER_OR_FOLLOWER
v11 the error TRANSACTION_ABORTABLE may be answered
v12 the partitions of a transaction are registered by this request
"""

# ruff: noqa: RUF012 - an empty list as default is copied by msgspec
from __future__ import annotations

from typing import Annotated, Final

from kafscale.wire.kafka.schema import Int16, Int32, Int64, Message, Records, Struct, V, message

API_KEY: Final = 0
VERSIONS: Final = range(13)
FLEXIBLE_FROM: Final = 9


@message(API_KEY, VERSIONS, FLEXIBLE_FROM)
class ProduceRequest(Message):
    transactional_id: Annotated[str | None, V(3)] = None
    acks: Int16 = 0
    timeout_ms: Int32 = 0
    topic_data: list[TopicProduceData] = []


class TopicProduceData(Struct):
    name: str = ""
    partition_data: list[PartitionProduceData] = []


class PartitionProduceData(Struct):
    index: Int32 = 0
    records: Records | None = None


@message(API_KEY, VERSIONS, FLEXIBLE_FROM)
class ProduceResponse(Message):
    responses: list[TopicProduceResponse] = []
    throttle_time_ms: Annotated[Int32, V(1)] = 0
    node_endpoints: Annotated[list[NodeEndpoint], V(10, tag=0)] = []


class TopicProduceResponse(Struct):
    name: str = ""
    partition_responses: list[PartitionProduceResponse] = []


class PartitionProduceResponse(Struct):
    index: Int32 = 0
    error_code: Int16 = 0
    base_offset: Int64 = 0
    log_append_time_ms: Annotated[Int64, V(2)] = -1
    log_start_offset: Annotated[Int64, V(5)] = -1
    record_errors: Annotated[list[BatchIndexAndErrorMessage], V(8)] = []
    error_message: Annotated[str | None, V(8)] = None
    current_leader: Annotated[LeaderIdAndEpoch | None, V(10, tag=0)] = None


class BatchIndexAndErrorMessage(Struct):
    batch_index: Int32 = 0
    batch_index_error_message: str | None = None


class LeaderIdAndEpoch(Struct):
    leader_id: Int32 = -1
    leader_epoch: Int32 = -1


class NodeEndpoint(Struct):
    node_id: Int32 = 0
    host: str = ""
    port: Int32 = 0
    rack: str | None = None
