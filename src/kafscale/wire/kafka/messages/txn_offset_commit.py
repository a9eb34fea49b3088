"""TxnOffsetCommit: API 28, versions 0-5.

v1  throttling is left to the client
v2  leader epochs
v3  flexible; member, generation and instance
v4  TRANSACTION_ABORTABLE may be answered
v5  the group becomes part of the transaction without AddOffsetsToTxn
"""

# ruff: noqa: RUF012 - an empty list as default is copied by msgspec
from __future__ import annotations

from typing import Annotated, Final

from kafscale.wire.kafka.schema import Int16, Int32, Int64, Message, Struct, V, message

API_KEY: Final = 28
VERSIONS: Final = range(6)
FLEXIBLE_FROM: Final = 3


@message(API_KEY, VERSIONS, FLEXIBLE_FROM)
class TxnOffsetCommitRequest(Message):
    transactional_id: str = ""
    group_id: str = ""
    producer_id: Int64 = 0
    producer_epoch: Int16 = 0
    generation_id: Annotated[Int32, V(3)] = -1
    member_id: Annotated[str, V(3)] = ""
    group_instance_id: Annotated[str | None, V(3)] = None
    topics: list[TxnOffsetCommitRequestTopic] = []


class TxnOffsetCommitRequestTopic(Struct):
    name: str = ""
    partitions: list[TxnOffsetCommitRequestPartition] = []


class TxnOffsetCommitRequestPartition(Struct):
    partition_index: Int32 = 0
    committed_offset: Int64 = 0
    committed_leader_epoch: Annotated[Int32, V(2)] = -1
    committed_metadata: str | None = ""


@message(API_KEY, VERSIONS, FLEXIBLE_FROM)
class TxnOffsetCommitResponse(Message):
    throttle_time_ms: Int32 = 0
    topics: list[TxnOffsetCommitResponseTopic] = []


class TxnOffsetCommitResponseTopic(Struct):
    name: str = ""
    partitions: list[TxnOffsetCommitResponsePartition] = []


class TxnOffsetCommitResponsePartition(Struct):
    partition_index: Int32 = 0
    error_code: Int16 = 0
