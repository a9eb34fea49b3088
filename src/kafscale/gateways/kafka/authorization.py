"""What every API asks of the authorizer: one row per API, so that none is forgotten.

Here: the table, the one step that the router takes for every request, and the bits of what a
client may do that some answers show. The step comes after a request is read and before anything
is prepared for it. A request that is denied does nothing.
Next door: who decides (model/access.py), how denied requests are
answered (requirements.py, api_requirements.py).
"""

from typing import Any, Final, Protocol

from kafscale.gateways.kafka.api_requirements import (
    ConfigResources,
    CoordinatorKeys,
    CreatedTopics,
    DeletedTopics,
    FetchedOffsets,
    FetchTopics,
    ListedGroups,
    MetadataTopics,
)
from kafscale.gateways.kafka.call import Call
from kafscale.gateways.kafka.requirements import (
    EachRow,
    WholeRequest,
    by_group,
    by_name,
    by_topic,
    cluster,
    error_alone,
    itself,
    topic_row,
)
from kafscale.model.access import CLUSTER_NAME, AccessOperation, ResourceType
from kafscale.wire.kafka.errors import ErrorCode
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

NOT_ASKED: Final = -0x80000000

_READ, _WRITE = AccessOperation.READ, AccessOperation.WRITE
_CREATE, _DELETE, _ALTER = AccessOperation.CREATE, AccessOperation.DELETE, AccessOperation.ALTER
_DESCRIBE = AccessOperation.DESCRIBE
_TOPIC, _GROUP, _CLUSTER = ResourceType.TOPIC, ResourceType.GROUP, ResourceType.CLUSTER


class Requirement(Protocol):
    """One thing that a request must be authorized for."""

    def check(self, call: Call) -> Message | None:
        """Take out what is denied; gives the answer if the request is denied as a whole."""
        ...


# -- what a client may do, where an answer shows it -----------------------------------------------

_CONFIGS: Final = (AccessOperation.DESCRIBE_CONFIGS, AccessOperation.ALTER_CONFIGS)
_OPERATIONS_ON: Final = {
    _TOPIC: (_READ, _WRITE, _CREATE, _DELETE, _ALTER, _DESCRIBE, *_CONFIGS),
    _GROUP: (_READ, _DELETE, _DESCRIBE),
    _CLUSTER: (
        _CREATE,
        AccessOperation.CLUSTER_ACTION,
        *_CONFIGS,
        AccessOperation.IDEMPOTENT_WRITE,
        _ALTER,
        _DESCRIBE,
    ),
}


def authorized_operations(call: Call, kind: ResourceType, name: str, *, asked: bool) -> int:
    """What the client may do to a resource, as the bits of Kafka's operations."""
    if not asked:
        return NOT_ASKED
    return sum(1 << one for one in _OPERATIONS_ON[kind] if call.allows(one, kind, name))


def operations_on_cluster(call: Call, *, asked: bool) -> int:
    """The same for the cluster; a client that may not describe it is shown no operations."""
    if asked and not call.allows(_DESCRIBE, _CLUSTER, CLUSTER_NAME):
        return 0
    return authorized_operations(call, _CLUSTER, CLUSTER_NAME, asked=asked)


def may_create(call: Call, name: str) -> bool:
    """Whether the client may create a topic of this name, by request or by asking for it."""
    anywhere = call.allows(_CREATE, _CLUSTER, CLUSTER_NAME)
    return anywhere or call.allows(_CREATE, _TOPIC, name)


# -- answers to requests that are refused as a whole ----------------------------------------------


def _commit_refused(call: Call, code: ErrorCode) -> Message:
    refused = topic_row(
        offset_commit.OffsetCommitResponseTopic,
        offset_commit.OffsetCommitResponsePartition,
        _indexes,
    )
    return offset_commit.OffsetCommitResponse(
        topics=[refused(row, code) for row in call.message.topics]
    )


def _join_refused(call: Call, code: ErrorCode) -> Message:
    return join_group.JoinGroupResponse(error_code=code, member_id=call.message.member_id)


def _producer_refused(call: Call, code: ErrorCode) -> Message:
    return init_producer_id.InitProducerIdResponse(error_code=code, producer_epoch=-1)


def _indexes(row: Any) -> list[int]:
    return [one.partition_index for one in row.partitions]


# -- the table ------------------------------------------------------------------------------------

# Every API that is offered has a row; an empty one asks for nothing.
REQUIREMENTS: Final[dict[int, tuple[Requirement, ...]]] = {
    produce.API_KEY: (
        EachRow(
            _WRITE,
            _TOPIC,
            "topic_data",
            by_name,
            "responses",
            topic_row(
                produce.TopicProduceResponse,
                produce.PartitionProduceResponse,
                lambda row: [one.index for one in row.partition_data],
                number="index",
                base_offset=-1,
            ),
        ),
    ),
    fetch.API_KEY: (FetchTopics(),),
    list_offsets.API_KEY: (
        EachRow(
            _DESCRIBE,
            _TOPIC,
            "topics",
            by_name,
            "topics",
            topic_row(
                list_offsets.ListOffsetsTopicResponse,
                list_offsets.ListOffsetsPartitionResponse,
                _indexes,
            ),
        ),
    ),
    metadata.API_KEY: (MetadataTopics(),),
    offset_commit.API_KEY: (
        WholeRequest(_READ, _GROUP, by_group, _commit_refused),
        EachRow(
            _READ,
            _TOPIC,
            "topics",
            by_name,
            "topics",
            topic_row(
                offset_commit.OffsetCommitResponseTopic,
                offset_commit.OffsetCommitResponsePartition,
                _indexes,
            ),
        ),
    ),
    offset_fetch.API_KEY: (FetchedOffsets(),),
    find_coordinator.API_KEY: (CoordinatorKeys(),),
    join_group.API_KEY: (WholeRequest(_READ, _GROUP, by_group, _join_refused),),
    heartbeat.API_KEY: (
        WholeRequest(_READ, _GROUP, by_group, error_alone(heartbeat.HeartbeatResponse)),
    ),
    leave_group.API_KEY: (
        WholeRequest(_READ, _GROUP, by_group, error_alone(leave_group.LeaveGroupResponse)),
    ),
    sync_group.API_KEY: (
        WholeRequest(_READ, _GROUP, by_group, error_alone(sync_group.SyncGroupResponse)),
    ),
    describe_groups.API_KEY: (
        EachRow(
            _DESCRIBE,
            _GROUP,
            "groups",
            itself,
            "groups",
            lambda row, code: describe_groups.DescribedGroup(code, row),
        ),
    ),
    list_groups.API_KEY: (ListedGroups(),),
    sasl_handshake.API_KEY: (),
    api_versions.API_KEY: (),
    create_topics.API_KEY: (CreatedTopics(),),
    delete_topics.API_KEY: (DeletedTopics(),),
    delete_records.API_KEY: (
        EachRow(
            _DELETE,
            _TOPIC,
            "topics",
            by_name,
            "topics",
            topic_row(
                delete_records.DeleteRecordsTopicResult,
                delete_records.DeleteRecordsPartitionResult,
                _indexes,
                low_watermark=-1,
            ),
        ),
    ),
    init_producer_id.API_KEY: (
        WholeRequest(AccessOperation.IDEMPOTENT_WRITE, _CLUSTER, cluster, _producer_refused),
    ),
    offset_for_leader_epoch.API_KEY: (
        EachRow(
            _DESCRIBE,
            _TOPIC,
            "topics",
            by_topic,
            "topics",
            topic_row(
                offset_for_leader_epoch.OffsetForLeaderTopicResult,
                offset_for_leader_epoch.EpochEndOffset,
                lambda row: [one.partition for one in row.partitions],
                name_of=by_topic,
                number="partition",
            ),
        ),
    ),
    describe_configs.API_KEY: (
        ConfigResources(
            AccessOperation.DESCRIBE_CONFIGS, "results", describe_configs.DescribeConfigsResult
        ),
    ),
    alter_configs.API_KEY: (
        ConfigResources(
            AccessOperation.ALTER_CONFIGS, "responses", alter_configs.AlterConfigsResourceResponse
        ),
    ),
    describe_log_dirs.API_KEY: (
        WholeRequest(
            _DESCRIBE, _CLUSTER, cluster, error_alone(describe_log_dirs.DescribeLogDirsResponse)
        ),
    ),
    create_partitions.API_KEY: (
        EachRow(
            _ALTER,
            _TOPIC,
            "topics",
            by_name,
            "results",
            lambda row, code: create_partitions.CreatePartitionsTopicResult(row.name, code),
        ),
    ),
    delete_groups.API_KEY: (
        EachRow(
            _DELETE,
            _GROUP,
            "groups_names",
            itself,
            "results",
            delete_groups.DeletableGroupResult,
        ),
    ),
    elect_leaders.API_KEY: (
        WholeRequest(_ALTER, _CLUSTER, cluster, error_alone(elect_leaders.ElectLeadersResponse)),
    ),
    offset_delete.API_KEY: (
        WholeRequest(_DELETE, _GROUP, by_group, error_alone(offset_delete.OffsetDeleteResponse)),
        EachRow(
            _READ,
            _TOPIC,
            "topics",
            by_name,
            "topics",
            topic_row(
                offset_delete.OffsetDeleteResponseTopic,
                offset_delete.OffsetDeleteResponsePartition,
                _indexes,
            ),
        ),
    ),
    incremental_alter_configs.API_KEY: (
        ConfigResources(
            AccessOperation.ALTER_CONFIGS,
            "responses",
            incremental_alter_configs.AlterConfigsResourceResponse,
        ),
    ),
    # Like Kafka: every client may know the brokers; operations are shown by what it may do.
    describe_cluster.API_KEY: (),
    describe_producers.API_KEY: (
        EachRow(
            _READ,
            _TOPIC,
            "topics",
            by_name,
            "topics",
            topic_row(
                describe_producers.TopicResponse,
                describe_producers.PartitionResponse,
                lambda row: row.partition_indexes,
            ),
        ),
    ),
}


def authorize(api_key: int, call: Call) -> Message | None:
    """Take out of a request what its client may not do; gives the answer if nothing is left of it.

    Rows that were taken out are answered beside what the handler answers.
    """
    if call.context.authorizer.allows_all:
        return None
    for requirement in REQUIREMENTS[api_key]:
        refusal = requirement.check(call)
        if refusal is not None:
            return refusal
    return None
