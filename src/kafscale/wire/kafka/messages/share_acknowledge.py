"""ShareAcknowledge: API 79, versions 1-2.

v0  was a preview and is gone
v2  acknowledgements that renew locks, marked by is_renew_ack; the time of a lock in the answer
"""

# ruff: noqa: RUF012 - an empty list as default is copied by msgspec
from __future__ import annotations

from typing import Annotated, Final

from msgspec import field

from kafscale.wire.kafka.schema import (
    NO_UUID,
    Int8,
    Int16,
    Int32,
    Int64,
    Message,
    Struct,
    Uuid,
    V,
    message,
)

API_KEY: Final = 79
VERSIONS: Final = range(1, 3)
FLEXIBLE_FROM: Final = 0


@message(API_KEY, VERSIONS, FLEXIBLE_FROM)
class ShareAcknowledgeRequest(Message):
    group_id: str | None = None
    member_id: str | None = None
    share_session_epoch: Int32 = 0
    is_renew_ack: Annotated[bool, V(2)] = False
    topics: list[AcknowledgeTopic] = []


class AcknowledgeTopic(Struct):
    topic_id: Uuid = NO_UUID
    partitions: list[AcknowledgePartition] = []


class AcknowledgePartition(Struct):
    partition_index: Int32 = 0
    acknowledgement_batches: list[AcknowledgementBatch] = []


class AcknowledgementBatch(Struct):
    first_offset: Int64 = 0
    last_offset: Int64 = 0
    acknowledge_types: list[Int8] = []


@message(API_KEY, VERSIONS, FLEXIBLE_FROM)
class ShareAcknowledgeResponse(Message):
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: str | None = None
    acquisition_lock_timeout_ms: Annotated[Int32, V(2)] = 0
    responses: list[ShareAcknowledgeTopicResponse] = []
    node_endpoints: list[ShareNodeEndpoint] = []


class ShareAcknowledgeTopicResponse(Struct):
    topic_id: Uuid = NO_UUID
    partitions: list[AcknowledgedPartition] = []


class ShareLeader(Struct):
    leader_id: Int32 = 0
    leader_epoch: Int32 = 0


class AcknowledgedPartition(Struct):
    partition_index: Int32 = 0
    error_code: Int16 = 0
    error_message: str | None = None
    current_leader: ShareLeader = field(default_factory=ShareLeader)


class ShareNodeEndpoint(Struct):
    node_id: Int32 = 0
    host: str = ""
    port: Int32 = 0
    rack: str | None = None
