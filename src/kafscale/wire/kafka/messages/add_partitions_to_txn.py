"""AddPartitionsToTxn: API 24, versions 0-3.

v1  throttling is left to the client
v2  PRODUCER_FENCED may be answered
v3  flexible
Versions 4 and 5 are for brokers among themselves.
"""

# ruff: noqa: RUF012 - an empty list as default is copied by msgspec
from __future__ import annotations

from typing import Final

from kafscale.wire.kafka.schema import Int16, Int32, Int64, Message, Struct, message

API_KEY: Final = 24
VERSIONS: Final = range(4)
FLEXIBLE_FROM: Final = 3


@message(API_KEY, VERSIONS, FLEXIBLE_FROM)
class AddPartitionsToTxnRequest(Message):
    v3_and_below_transactional_id: str = ""
    v3_and_below_producer_id: Int64 = 0
    v3_and_below_producer_epoch: Int16 = 0
    v3_and_below_topics: list[AddPartitionsToTxnTopic] = []


class AddPartitionsToTxnTopic(Struct):
    name: str = ""
    partitions: list[Int32] = []


@message(API_KEY, VERSIONS, FLEXIBLE_FROM)
class AddPartitionsToTxnResponse(Message):
    throttle_time_ms: Int32 = 0
    results_by_topic_v3_and_below: list[AddPartitionsToTxnTopicResult] = []


class AddPartitionsToTxnTopicResult(Struct):
    name: str = ""
    results_by_partition: list[AddPartitionsToTxnPartitionResult] = []


class AddPartitionsToTxnPartitionResult(Struct):
    partition_index: Int32 = 0
    partition_error_code: Int16 = 0
