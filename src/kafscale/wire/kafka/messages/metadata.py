"""Metadata: API 3, versions 0-12.

v0  no topics named means all of them
v1  null means all topics, none named means none; rack, controller_id, is_internal
v2  cluster_id
v3  throttle_time_ms
v4  allow_auto_topic_creation
v5  offline_replicas
v6  throttling is left to the client
v7  leader_epoch
v8  authorized operations, when asked for
v9  flexible
v10 topic ids; a topic may be asked for by id in later versions
v11 cluster authorized operations are gone (DescribeCluster has them)
v12 topics by id: the name may be null in both directions
"""

# ruff: noqa: RUF012 - an empty list as default is copied by msgspec
from __future__ import annotations

from typing import Annotated, Final

from kafscale.wire.kafka.schema import NO_UUID, Int16, Int32, Message, Struct, Uuid, V, message

API_KEY: Final = 3
VERSIONS: Final = range(13)
FLEXIBLE_FROM: Final = 9


@message(API_KEY, VERSIONS, FLEXIBLE_FROM)
class MetadataRequest(Message):
    topics: Annotated[list[MetadataRequestTopic] | None, V(nullable=1)] = []
    allow_auto_topic_creation: Annotated[bool, V(4)] = True
    include_cluster_authorized_operations: Annotated[bool, V(8, 10)] = False
    include_topic_authorized_operations: Annotated[bool, V(8)] = False


class MetadataRequestTopic(Struct):
    topic_id: Annotated[Uuid, V(10)] = NO_UUID
    name: Annotated[str | None, V(nullable=10)] = ""


@message(API_KEY, VERSIONS, FLEXIBLE_FROM)
class MetadataResponse(Message):
    throttle_time_ms: Annotated[Int32, V(3)] = 0
    brokers: list[MetadataResponseBroker] = []
    cluster_id: Annotated[str | None, V(2)] = None
    controller_id: Annotated[Int32, V(1)] = -1
    topics: list[MetadataResponseTopic] = []
    cluster_authorized_operations: Annotated[Int32, V(8, 10)] = -0x80000000


class MetadataResponseBroker(Struct):
    node_id: Int32 = 0
    host: str = ""
    port: Int32 = 0
    rack: Annotated[str | None, V(1)] = None


class MetadataResponseTopic(Struct):
    error_code: Int16 = 0
    name: Annotated[str | None, V(nullable=12)] = ""
    topic_id: Annotated[Uuid, V(10)] = NO_UUID
    is_internal: Annotated[bool, V(1)] = False
    partitions: list[MetadataResponsePartition] = []
    topic_authorized_operations: Annotated[Int32, V(8)] = -0x80000000


class MetadataResponsePartition(Struct):
    error_code: Int16 = 0
    partition_index: Int32 = 0
    leader_id: Int32 = 0
    leader_epoch: Annotated[Int32, V(7)] = -1
    replica_nodes: list[Int32] = []
    isr_nodes: list[Int32] = []
    offline_replicas: Annotated[list[Int32], V(5)] = []
