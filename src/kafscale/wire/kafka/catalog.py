"""Every API this room can read and write, listed once.

Here: the list, and finding an API by its number.
Next door: the tables (messages/), which of these a broker offers (the Kafka gateway).
Never here: behaviour.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from kafscale.wire.kafka.messages import (
    alter_configs,
    api_versions,
    create_partitions,
    create_topics,
    delete_groups,
    delete_records,
    delete_topics,
    describe_cluster,
    describe_configs,
    describe_groups,
    describe_log_dirs,
    describe_producers,
    elect_leaders,
    fetch,
    find_coordinator,
    heartbeat,
    incremental_alter_configs,
    init_producer_id,
    join_group,
    leave_group,
    list_groups,
    list_offsets,
    metadata,
    offset_commit,
    offset_delete,
    offset_fetch,
    offset_for_leader_epoch,
    produce,
    sasl_handshake,
    sync_group,
)
from kafscale.wire.kafka.schema import Message


class Api(NamedTuple):
    """A request and the response it gets."""

    request: type[Message]
    response: type[Message]

    @property
    def key(self) -> int:
        return self.request.api_key

    @property
    def name(self) -> str:
        return self.request.__name__.removesuffix("Request")

    @property
    def versions(self) -> range:
        return self.request.versions

    def flexible(self, version: int) -> bool:
        """Whether this version has compact lengths and tagged fields."""
        return version >= self.request.flexible_from


APIS: Final[tuple[Api, ...]] = (
    Api(produce.ProduceRequest, produce.ProduceResponse),
    Api(fetch.FetchRequest, fetch.FetchResponse),
    Api(list_offsets.ListOffsetsRequest, list_offsets.ListOffsetsResponse),
    Api(metadata.MetadataRequest, metadata.MetadataResponse),
    Api(offset_commit.OffsetCommitRequest, offset_commit.OffsetCommitResponse),
    Api(offset_fetch.OffsetFetchRequest, offset_fetch.OffsetFetchResponse),
    Api(find_coordinator.FindCoordinatorRequest, find_coordinator.FindCoordinatorResponse),
    Api(join_group.JoinGroupRequest, join_group.JoinGroupResponse),
    Api(heartbeat.HeartbeatRequest, heartbeat.HeartbeatResponse),
    Api(leave_group.LeaveGroupRequest, leave_group.LeaveGroupResponse),
    Api(sync_group.SyncGroupRequest, sync_group.SyncGroupResponse),
    Api(describe_groups.DescribeGroupsRequest, describe_groups.DescribeGroupsResponse),
    Api(list_groups.ListGroupsRequest, list_groups.ListGroupsResponse),
    Api(sasl_handshake.SaslHandshakeRequest, sasl_handshake.SaslHandshakeResponse),
    Api(api_versions.ApiVersionsRequest, api_versions.ApiVersionsResponse),
    Api(create_topics.CreateTopicsRequest, create_topics.CreateTopicsResponse),
    Api(delete_topics.DeleteTopicsRequest, delete_topics.DeleteTopicsResponse),
    Api(delete_records.DeleteRecordsRequest, delete_records.DeleteRecordsResponse),
    Api(init_producer_id.InitProducerIdRequest, init_producer_id.InitProducerIdResponse),
    Api(
        offset_for_leader_epoch.OffsetForLeaderEpochRequest,
        offset_for_leader_epoch.OffsetForLeaderEpochResponse,
    ),
    Api(describe_configs.DescribeConfigsRequest, describe_configs.DescribeConfigsResponse),
    Api(alter_configs.AlterConfigsRequest, alter_configs.AlterConfigsResponse),
    Api(describe_log_dirs.DescribeLogDirsRequest, describe_log_dirs.DescribeLogDirsResponse),
    Api(create_partitions.CreatePartitionsRequest, create_partitions.CreatePartitionsResponse),
    Api(delete_groups.DeleteGroupsRequest, delete_groups.DeleteGroupsResponse),
    Api(elect_leaders.ElectLeadersRequest, elect_leaders.ElectLeadersResponse),
    Api(offset_delete.OffsetDeleteRequest, offset_delete.OffsetDeleteResponse),
    Api(
        incremental_alter_configs.IncrementalAlterConfigsRequest,
        incremental_alter_configs.IncrementalAlterConfigsResponse,
    ),
    Api(describe_cluster.DescribeClusterRequest, describe_cluster.DescribeClusterResponse),
    Api(describe_producers.DescribeProducersRequest, describe_producers.DescribeProducersResponse),
)

BY_KEY: Final[dict[int, Api]] = {api.key: api for api in APIS}
