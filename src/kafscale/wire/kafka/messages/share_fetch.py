"""ShareFetch: API 78, versions 1-2.

v0  was a preview and is gone
v2  share_acquire_mode; acknowledgements that renew locks, marked by is_renew_ack
"""

# ruff: noqa: RUF012 - an empty list as default is copied by msgspec
from __future__ import annotations

from typing import Annotated, Final

from msgspec import field

from kafscale.wire.kafka.messages.share_acknowledge import (
    AcknowledgementBatch,
    ShareLeader,
    ShareNodeEndpoint,
)
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

API_KEY: Final = 78
VERSIONS: Final = range(1, 3)
FLEXIBLE_FROM: Final = 0


@message(API_KEY, VERSIONS, FLEXIBLE_FROM)
class ShareFetchRequest(Message):
    group_id: str | None = None
    member_id: str | None = None
    share_session_epoch: Int32 = 0
    max_wait_ms: Int32 = 0
    min_bytes: Int32 = 0
    max_bytes: Int32 = 0x7FFFFFFF
    max_records: Int32 = 0
    batch_size: Int32 = 0
    share_acquire_mode: Annotated[Int8, V(2)] = 0
    is_renew_ack: Annotated[bool, V(2)] = False
    topics: list[ShareFetchTopic] = []
    forgotten_topics_data: list[ForgottenShareTopic] = []


class ShareFetchTopic(Struct):
    topic_id: Uuid = NO_UUID
    partitions: list[ShareFetchPartition] = []


class ShareFetchPartition(Struct):
    partition_index: Int32 = 0
    acknowledgement_batches: list[AcknowledgementBatch] = []


class ForgottenShareTopic(Struct):
    topic_id: Uuid = NO_UUID
    partitions: list[Int32] = []


@message(API_KEY, VERSIONS, FLEXIBLE_FROM)
class ShareFetchResponse(Message):
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: str | None = None
    acquisition_lock_timeout_ms: Int32 = 0
    responses: list[ShareFetchableTopicResponse] = []
    node_endpoints: list[ShareNodeEndpoint] = []


class ShareFetchableTopicResponse(Struct):
    topic_id: Uuid = NO_UUID
    partitions: list[SharePartitionData] = []


class SharePartitionData(Struct):
    partition_index: Int32 = 0
    error_code: Int16 = 0
    error_message: str | None = None
    acknowledge_error_code: Int16 = 0
    acknowledge_error_message: str | None = None
    current_leader: ShareLeader = field(default_factory=ShareLeader)
    records: Records = b""
    acquired_records: list[AcquiredRecords] = []


class AcquiredRecords(Struct):
    first_offset: Int64 = 0
    last_offset: Int64 = 0
    delivery_count: Int16 = 0
