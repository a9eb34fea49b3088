"""What Apache Kafka asks a client to be authorized for: users, requests, and what was answered.

Here: users who differ in the few operations that they are granted, requests of every API
that this broker offers, and the part of an answer that depends on authorization. Apache Kafka's own
answers are in a table beside the tests of the broker (`ANSWERS`): tests/e2e/test_access_table.py
makes it, and tests/unit/gateways/kafka/access/test_against_apache.py holds the broker to it.
"""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec

from kafscale.access.acls import OPERATIONS_ON
from kafscale.model.security.access import CLUSTER_NAME, AccessOperation, ResourceType
from kafscale.records.batch import TRANSACTIONAL, sign
from kafscale.wire.kafka.messages import (
    alter_client_quotas,
    alter_configs,
    alter_partition_reassignments,
    alter_user_scram_credentials,
    consumer_group_describe,
    consumer_group_heartbeat,
    create_acls,
    create_partitions,
    create_topics,
    delete_acls,
    delete_groups,
    delete_records,
    delete_topics,
    describe_acls,
    describe_client_quotas,
    describe_cluster,
    describe_configs,
    describe_groups,
    describe_log_dirs,
    describe_producers,
    describe_topic_partitions,
    describe_transactions,
    describe_user_scram_credentials,
    elect_leaders,
    find_coordinator,
    heartbeat,
    incremental_alter_configs,
    init_producer_id,
    join_group,
    leave_group,
    list_config_resources,
    list_groups,
    list_offsets,
    list_partition_reassignments,
    list_transactions,
    metadata,
    offset_commit,
    offset_delete,
    offset_fetch,
    offset_for_leader_epoch,
    sync_group,
)
from kafscale.wire.kafka.schema import NO_UUID, Message
from tests.support.access_requests import share_requests, transactional_requests
from tests.unit.gateways.kafka.caller import fetch_request, make_batch, produce_request

ANSWERS = Path(__file__).parents[1] / "unit/gateways/kafka/access/apache_answers.json"

TOPIC, GROUP = "t", "g"
REFUSALS = frozenset({29, 30, 31, 53, 65})  # the codes of authorization

Grant = tuple[ResourceType, AccessOperation]


def _users() -> dict[str, tuple[Grant, ...]]:
    users: dict[str, tuple[Grant, ...]] = {"none": ()}
    for kind, operations in OPERATIONS_ON.items():
        for operation in (*operations, AccessOperation.ALL):
            users[f"{kind.name}.{operation.name}"] = ((kind, operation),)
    for pair in (
        "GROUP.READ+TOPIC.READ",
        "GROUP.DELETE+TOPIC.READ",
        "GROUP.DESCRIBE+TOPIC.DESCRIBE",
        "TOPIC.DESCRIBE+TOPIC.CREATE",
        "TOPIC.DESCRIBE+CLUSTER.CREATE",
        "TOPIC.CREATE+TOPIC.DESCRIBE_CONFIGS",
        "TOPIC.DELETE+TOPIC.DESCRIBE",
        "TRANSACTIONAL_ID.WRITE+TOPIC.WRITE",
        "TRANSACTIONAL_ID.WRITE+GROUP.READ",
        "TRANSACTIONAL_ID.WRITE+GROUP.READ+TOPIC.READ",
    ):
        grants = tuple(grant for one in pair.split("+") for grant in users[one])
        users[pair.replace("+", "-and-")] = grants
    return users


USERS = _users()


def acl_of(user: str, grant: Grant) -> create_acls.AclCreation:
    """The entry that gives a user what it is granted, for every resource of the type."""
    kind, operation = grant
    name = CLUSTER_NAME if kind is ResourceType.CLUSTER else "*"
    return create_acls.AclCreation(kind, name, 3, f"User:{user}", "*", operation, 3)


def doomed(name: str) -> str:
    """A topic that is there to be deleted, made of the name that a request gets."""
    return f"{name}-doomed"


def name_for(number: int) -> str:
    """The name that requests of one user get."""
    return f"n-{number}"


Make = Callable[[str], Message]  # takes a name that no other request uses

_ops: dict[str, Any] = {"include_topic_authorized_operations": True}


def _partition_rows(module: Any, topic: str, part: str) -> Any:
    return getattr(module, topic)(TOPIC, [getattr(module, part)(0)])


def _config(kind: int, name: str) -> dict[str, Make]:
    return {
        "DescribeConfigs": lambda _: describe_configs.DescribeConfigsRequest(
            [describe_configs.DescribeConfigsResource(kind, name)]
        ),
        "AlterConfigs": lambda _: alter_configs.AlterConfigsRequest(
            [alter_configs.AlterConfigsResource(kind, name)], validate_only=True
        ),
        "IncrementalAlterConfigs": lambda _: (
            incremental_alter_configs.IncrementalAlterConfigsRequest(
                [incremental_alter_configs.AlterConfigsResource(kind, name)], validate_only=True
            )
        ),
    }


_CONFIG_VERSIONS = {"DescribeConfigs": 4, "AlterConfigs": 2, "IncrementalAlterConfigs": 1}
_CONFIG_KINDS = {
    "topic": (2, TOPIC),
    "absent topic": (2, "absent"),
    "broker": (4, "1"),
    "group": (32, GROUP),
    "client metrics": (16, "m"),
}


def _transactional(_: str) -> Message:
    """A batch that says that it is part of a transaction."""
    batch = bytearray(make_batch(b"x", producer_id=7, producer_epoch=0, base_sequence=0))
    batch[22] |= TRANSACTIONAL
    sign(batch)
    request = produce_request(TOPIC, bytes(batch))
    request.transactional_id = "x"
    return request


def _commit(_: str) -> Message:
    row = offset_commit.OffsetCommitRequestPartition(0, 7)
    topics = [offset_commit.OffsetCommitRequestTopic(TOPIC, [row])]
    return offset_commit.OffsetCommitRequest(GROUP, topics=topics)


def _scram(name: str) -> Message:
    """The removal of a user who is not there."""
    deletion = alter_user_scram_credentials.ScramCredentialDeletion(name, 1)
    return alter_user_scram_credentials.AlterUserScramCredentialsRequest([deletion])


# By name: the version, and the request. Nothing here changes what a later request is answered.
REQUESTS: dict[str, tuple[int, Make]] = {
    "Produce": (9, lambda _: produce_request(TOPIC, make_batch(b"x"))),
    "Produce, transactional id": (9, _transactional),
    "Produce, absent topic": (9, lambda _: produce_request("absent", make_batch(b"x"))),
    "Fetch": (12, lambda _: fetch_request([(TOPIC, 0, 0)])),
    "Fetch, absent topic": (12, lambda _: fetch_request([("absent", 0, 0)])),
    "ListOffsets": (
        7,
        lambda _: list_offsets.ListOffsetsRequest(
            topics=[_partition_rows(list_offsets, "ListOffsetsTopic", "ListOffsetsPartition")]
        ),
    ),
    "Metadata": (
        12,
        lambda _: metadata.MetadataRequest(
            [metadata.MetadataRequestTopic(NO_UUID, TOPIC)], allow_auto_topic_creation=False, **_ops
        ),
    ),
    "Metadata of all topics": (12, lambda _: metadata.MetadataRequest(None, **_ops)),
    "Metadata of the cluster": (
        10,
        lambda _: metadata.MetadataRequest([], include_cluster_authorized_operations=True),
    ),
    "Metadata, absent topic": (
        12,
        lambda _: metadata.MetadataRequest(
            [metadata.MetadataRequestTopic(NO_UUID, "absent")], allow_auto_topic_creation=False
        ),
    ),
    "Metadata, new topic": (
        12,
        lambda name: metadata.MetadataRequest([metadata.MetadataRequestTopic(NO_UUID, name)]),
    ),
    "OffsetCommit": (8, _commit),
    "OffsetFetch": (
        7,
        lambda _: offset_fetch.OffsetFetchRequest(
            GROUP, [offset_fetch.OffsetFetchRequestTopic(TOPIC, [0])]
        ),
    ),
    "OffsetFetch of all topics": (7, lambda _: offset_fetch.OffsetFetchRequest(GROUP, None)),
    "OffsetFetch of groups, all topics": (
        8,
        lambda _: offset_fetch.OffsetFetchRequest(
            groups=[offset_fetch.OffsetFetchRequestGroup(GROUP, topics=None)]
        ),
    ),
    "InitProducerId, transactional id": (
        4,
        lambda _: init_producer_id.InitProducerIdRequest("x", 60_000),
    ),
    "OffsetFetch of groups": (
        8,
        lambda _: offset_fetch.OffsetFetchRequest(
            groups=[
                offset_fetch.OffsetFetchRequestGroup(
                    GROUP, topics=[offset_fetch.OffsetFetchRequestTopics(TOPIC, [0])]
                )
            ]
        ),
    ),
    "FindCoordinator": (3, lambda _: find_coordinator.FindCoordinatorRequest(GROUP)),
    "FindCoordinator of groups": (
        4,
        lambda _: find_coordinator.FindCoordinatorRequest(coordinator_keys=[GROUP]),
    ),
    "FindCoordinator, transactional id": (
        4,
        lambda _: find_coordinator.FindCoordinatorRequest(key_type=1, coordinator_keys=["x"]),
    ),
    "JoinGroup": (9, lambda _: join_group.JoinGroupRequest(GROUP, 10_000, 10_000)),
    "Heartbeat": (4, lambda _: heartbeat.HeartbeatRequest(GROUP)),
    "LeaveGroup": (
        5,
        lambda _: leave_group.LeaveGroupRequest(
            GROUP, members=[leave_group.MemberIdentity("absent")]
        ),
    ),
    "LeaveGroup without members": (5, lambda _: leave_group.LeaveGroupRequest(GROUP)),
    "LeaveGroup of one member": (
        2,
        lambda _: leave_group.LeaveGroupRequest(GROUP, member_id="absent"),
    ),
    "SyncGroup": (
        5,
        lambda _: sync_group.SyncGroupRequest(
            GROUP, protocol_type="consumer", protocol_name="range"
        ),
    ),
    "DescribeGroups": (
        5,
        lambda _: describe_groups.DescribeGroupsRequest(
            [GROUP], include_authorized_operations=True
        ),
    ),
    "ConsumerGroupHeartbeat": (
        1,
        lambda _: consumer_group_heartbeat.ConsumerGroupHeartbeatRequest(
            "another", "absent", 7, subscribed_topic_names=[TOPIC]
        ),
    ),
    "ConsumerGroupDescribe": (
        1,
        lambda _: consumer_group_describe.ConsumerGroupDescribeRequest([GROUP]),
    ),
    "ListGroups": (4, lambda _: list_groups.ListGroupsRequest()),
    "CreateTopics": (
        7,
        lambda name: create_topics.CreateTopicsRequest(
            [create_topics.CreatableTopic(f"{name}-more", 1, 1)], validate_only=True
        ),
    ),
    "CreateTopics, existing topic": (
        7,
        lambda _: create_topics.CreateTopicsRequest([create_topics.CreatableTopic(TOPIC, 1, 1)]),
    ),
    "DeleteTopics": (
        6,
        lambda name: delete_topics.DeleteTopicsRequest(
            [delete_topics.DeleteTopicState(doomed(name))], timeout_ms=10_000
        ),
    ),
    "DeleteTopics by id": (
        6,
        lambda _: delete_topics.DeleteTopicsRequest(
            [delete_topics.DeleteTopicState(None, b"a" * 16)]
        ),
    ),
    "DeleteRecords": (
        2,
        lambda _: delete_records.DeleteRecordsRequest(
            [_partition_rows(delete_records, "DeleteRecordsTopic", "DeleteRecordsPartition")], 1000
        ),
    ),
    "InitProducerId": (4, lambda _: init_producer_id.InitProducerIdRequest(None)),
    "OffsetForLeaderEpoch": (
        4,
        lambda _: offset_for_leader_epoch.OffsetForLeaderEpochRequest(
            topics=[
                _partition_rows(
                    offset_for_leader_epoch, "OffsetForLeaderTopic", "OffsetForLeaderPartition"
                )
            ]
        ),
    ),
    "DescribeLogDirs": (4, lambda _: describe_log_dirs.DescribeLogDirsRequest(None)),
    "CreatePartitions": (
        3,
        lambda _: create_partitions.CreatePartitionsRequest(
            [create_partitions.CreatePartitionsTopic(TOPIC, 9)], validate_only=True
        ),
    ),
    "CreatePartitions, absent topic": (
        3,
        lambda _: create_partitions.CreatePartitionsRequest(
            [create_partitions.CreatePartitionsTopic("absent", 9)], validate_only=True
        ),
    ),
    "DeleteGroups": (2, lambda _: delete_groups.DeleteGroupsRequest(["absent"])),
    "ElectLeaders": (2, lambda _: elect_leaders.ElectLeadersRequest(0, None)),
    "OffsetDelete": (
        0,
        lambda _: offset_delete.OffsetDeleteRequest(
            GROUP,
            [
                offset_delete.OffsetDeleteRequestTopic(
                    TOPIC, [offset_delete.OffsetDeleteRequestPartition(7)]
                )
            ],
        ),
    ),
    "DescribeProducers": (
        0,
        lambda _: describe_producers.DescribeProducersRequest(
            [describe_producers.TopicRequest(TOPIC, [0])]
        ),
    ),
    "DescribeAcls": (
        3,
        lambda name: describe_acls.DescribeAclsRequest(2, name, 3, None, None, 1, 1),
    ),
    "CreateAcls": (
        3,
        lambda _: create_acls.CreateAclsRequest(
            [create_acls.AclCreation(2, "unused", 3, "User:unused", "*", 3, 3)]
        ),
    ),
    "DeleteAcls": (
        3,
        lambda name: delete_acls.DeleteAclsRequest(
            [delete_acls.DeleteAclsFilter(2, name, 3, None, None, 1, 1)]
        ),
    ),
    "AlterPartitionReassignments": (
        0,
        lambda _: alter_partition_reassignments.AlterPartitionReassignmentsRequest(),
    ),
    "ListPartitionReassignments": (
        0,
        lambda _: list_partition_reassignments.ListPartitionReassignmentsRequest(),
    ),
    "DescribeClientQuotas": (1, lambda _: describe_client_quotas.DescribeClientQuotasRequest()),
    "AlterClientQuotas": (
        1,
        lambda _: alter_client_quotas.AlterClientQuotasRequest(
            [alter_client_quotas.EntryData([alter_client_quotas.EntityData("user", "unused")])],
            validate_only=True,
        ),
    ),
    "DescribeUserScramCredentials": (
        0,
        lambda _: describe_user_scram_credentials.DescribeUserScramCredentialsRequest(),
    ),
    "AlterUserScramCredentials": (0, _scram),
    "DescribeTransactions": (
        0,
        lambda _: describe_transactions.DescribeTransactionsRequest(["x"]),
    ),
    "ListTransactions": (0, lambda _: list_transactions.ListTransactionsRequest()),
    "ListConfigResources": (1, lambda _: list_config_resources.ListConfigResourcesRequest()),
    "ListConfigResources of client metrics": (
        0,
        lambda _: list_config_resources.ListConfigResourcesRequest(),
    ),
    "DescribeCluster": (
        1,
        lambda _: describe_cluster.DescribeClusterRequest(
            include_cluster_authorized_operations=True
        ),
    ),
    "DescribeTopicPartitions": (
        0,
        lambda _: describe_topic_partitions.DescribeTopicPartitionsRequest(
            [describe_topic_partitions.TopicRequest(TOPIC)]
        ),
    ),
    "DescribeTopicPartitions of all topics": (
        0,
        lambda _: describe_topic_partitions.DescribeTopicPartitionsRequest([]),
    ),
    **{
        f"{api}, {what}": (_CONFIG_VERSIONS[api], make)
        for what, resource in _CONFIG_KINDS.items()
        for api, make in _config(*resource).items()
    },
    **transactional_requests(TOPIC, GROUP),
    **share_requests(TOPIC, GROUP),
}


def key_of(name: str) -> int:
    """The API of a request."""
    return REQUESTS[name][1]("a").api_key


def judge(answer: Message) -> str:
    """What an answer shows of authorization: refusals, operations, which of our names are there."""
    facts = sorted({fact for fact in _facts(answer) if fact is not None})
    return " ".join(facts) or "served"


def _facts(value: object) -> Iterator[str | None]:
    if isinstance(value, list):
        for one in value:
            yield from _facts(one)
    elif isinstance(value, msgspec.Struct):
        for field in value.__struct_fields__:
            one = getattr(value, field)
            if field.endswith("error_code") and one in REFUSALS:
                yield f"{one}" if field == "error_code" else f"{field}={one}"
            elif field.endswith("authorized_operations"):
                yield f"{field}={one & 0xFFFFFFFF:x}"
            elif field in ("name", "group_id", "resource_name") and one in (TOPIC, GROUP):
                yield f"shows {one}"
            else:
                yield from _facts(one)


def read_answers() -> dict[str, dict[str, str]]:
    """Apache Kafka's answers: by request, by user; what the other users get is under `others`."""
    answers: dict[str, dict[str, str]] = json.loads(ANSWERS.read_text())
    return answers


def pack(judged: dict[str, dict[str, str]]) -> dict[str, dict[str, str]]:
    """The same with the commonest answer of each request under `others`."""
    packed: dict[str, dict[str, str]] = {}
    for request, by_user in sorted(judged.items()):
        found = list(by_user.values())
        others = max(sorted(set(found)), key=found.count)
        rest = {user: one for user, one in sorted(by_user.items()) if one != others}
        packed[request] = {"others": others, **rest}
    return packed
