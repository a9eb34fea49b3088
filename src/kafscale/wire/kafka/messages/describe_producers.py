"""DescribeProducers: API 61, version 0, flexible."""

# ruff: noqa: RUF012 - an empty list as default is copied by msgspec
from __future__ import annotations

from typing import Final

from kafscale.wire.kafka.schema import Int16, Int32, Int64, Message, Struct, message

API_KEY: Final = 61
VERSIONS: Final = range(1)
FLEXIBLE_FROM: Final = 0


@message(API_KEY, VERSIONS, FLEXIBLE_FROM)
class DescribeProducersRequest(Message):
    topics: list[TopicRequest] = []


class TopicRequest(Struct):
    name: str = ""
    partition_indexes: list[Int32] = []


@message(API_KEY, VERSIONS, FLEXIBLE_FROM)
class DescribeProducersResponse(Message):
    throttle_time_ms: Int32 = 0
    topics: list[TopicResponse] = []


class TopicResponse(Struct):
    name: str = ""
    partitions: list[PartitionResponse] = []


class PartitionResponse(Struct):
    partition_index: Int32 = 0
    error_code: Int16 = 0
    error_message: str | None = None
    active_producers: list[ProducerState] = []


class ProducerState(Struct):
    producer_id: Int64 = 0
    producer_epoch: Int32 = 0
    last_sequence: Int32 = -1
    last_timestamp: Int64 = -1
    coordinator_epoch: Int32 = 0
    current_txn_start_offset: Int64 = -1
