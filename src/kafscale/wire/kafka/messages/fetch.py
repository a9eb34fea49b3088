"""Fetch: API 1, versions 0-13.

v1  throttle_time_ms in the answer
v2  message format 1 may be answered
v3  max_bytes for the whole answer; partitions are served in the order asked for
v4  isolation_level; last_stable_offset, aborted_transactions; message format 2
v5  log_start_offset in both directions
v6  the error KAFKA_STORAGE_ERROR may be answered
v7  sessions: session_id, session_epoch, forgotten_topics_data
v8  throttling is left to the client
v9  current_leader_epoch, for fencing
v10 zstd
v11 rack_id and preferred_read_replica: reading from the closest replica
v12 flexible; last_fetched_epoch, diverging_epoch: truncation noticed while fetching
v13 topics by id instead of name
"""

# ruff: noqa: RUF012 - an empty list as default is copied by msgspec
from __future__ import annotations

from typing import Annotated, Final

from kafscale.wire.kafka.schema import (
    NO_UUID,
    Int8,
    Int16,
    Int32,
    Int64,
    Message,
    Records,
    Struct,
    Uuid,
    V,
    message,
)

API_KEY: Final = 1
VERSIONS: Final = range(14)
FLEXIBLE_FROM: Final = 12


@message(API_KEY, VERSIONS, FLEXIBLE_FROM)
class FetchRequest(Message):
    cluster_id: Annotated[str | None, V(12, tag=0)] = None
    replica_id: Int32 = -1
    max_wait_ms: Int32 = 0
    min_bytes: Int32 = 0
    max_bytes: Annotated[Int32, V(3)] = 0x7FFFFFFF
    isolation_level: Annotated[Int8, V(4)] = 0
    session_id: Annotated[Int32, V(7)] = 0
    session_epoch: Annotated[Int32, V(7)] = -1
    topics: list[FetchTopic] = []
    forgotten_topics_data: Annotated[list[ForgottenTopic], V(7)] = []
    rack_id: Annotated[str, V(11)] = ""


class FetchTopic(Struct):
    topic: Annotated[str, V(0, 12)] = ""
    topic_id: Annotated[Uuid, V(13)] = NO_UUID
    partitions: list[FetchPartition] = []


class FetchPartition(Struct):
    partition: Int32 = 0
    current_leader_epoch: Annotated[Int32, V(9)] = -1
    fetch_offset: Int64 = 0
    last_fetched_epoch: Annotated[Int32, V(12)] = -1
    log_start_offset: Annotated[Int64, V(5)] = -1
    partition_max_bytes: Int32 = 0


class ForgottenTopic(Struct):
    topic: Annotated[str, V(7, 12)] = ""
    topic_id: Annotated[Uuid, V(13)] = NO_UUID
    partitions: list[Int32] = []


@message(API_KEY, VERSIONS, FLEXIBLE_FROM)
class FetchResponse(Message):
    throttle_time_ms: Annotated[Int32, V(1)] = 0
    error_code: Annotated[Int16, V(7)] = 0
    session_id: Annotated[Int32, V(7)] = 0
    responses: list[FetchableTopicResponse] = []


class FetchableTopicResponse(Struct):
    topic: Annotated[str, V(0, 12)] = ""
    topic_id: Annotated[Uuid, V(13)] = NO_UUID
    partitions: list[PartitionData] = []


class PartitionData(Struct):
    partition_index: Int32 = 0
    error_code: Int16 = 0
    high_watermark: Int64 = 0
    last_stable_offset: Annotated[Int64, V(4)] = -1
    log_start_offset: Annotated[Int64, V(5)] = -1
    diverging_epoch: Annotated[EpochEndOffset | None, V(12, tag=0)] = None
    current_leader: Annotated[LeaderIdAndEpoch | None, V(12, tag=1)] = None
    snapshot_id: Annotated[SnapshotId | None, V(12, tag=2)] = None
    aborted_transactions: Annotated[list[AbortedTransaction] | None, V(4)] = []
    preferred_read_replica: Annotated[Int32, V(11)] = -1
    records: Records | None = None


class EpochEndOffset(Struct):
    epoch: Int32 = -1
    end_offset: Int64 = -1


class LeaderIdAndEpoch(Struct):
    leader_id: Int32 = -1
    leader_epoch: Int32 = -1


class SnapshotId(Struct):
    end_offset: Int64 = -1
    epoch: Int32 = -1


class AbortedTransaction(Struct):
    producer_id: Int64 = 0
    first_offset: Int64 = 0
