"""Every API asks the authorizer, answers with Kafka's own error, and does nothing if denied."""

from collections.abc import AsyncIterator, Iterator

import msgspec
import pytest

from kafscale.gateways.kafka import router
from kafscale.model.security.access import ANONYMOUS, AccessOperation, Principal, ResourceType
from kafscale.testing.in_process import InProcessBroker
from kafscale.wire.kafka.catalog import BY_KEY
from kafscale.wire.kafka.errors import ErrorCode
from kafscale.wire.kafka.messages import (
    add_offsets_to_txn,
    add_partitions_to_txn,
    alter_client_quotas,
    alter_configs,
    alter_partition_reassignments,
    alter_share_group_offsets,
    alter_user_scram_credentials,
    consumer_group_describe,
    consumer_group_heartbeat,
    create_acls,
    create_partitions,
    create_topics,
    delete_acls,
    delete_groups,
    delete_records,
    delete_share_group_offsets,
    delete_topics,
    describe_acls,
    describe_client_quotas,
    describe_configs,
    describe_groups,
    describe_log_dirs,
    describe_producers,
    describe_share_group_offsets,
    describe_topic_partitions,
    describe_transactions,
    describe_user_scram_credentials,
    elect_leaders,
    end_txn,
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
    share_acknowledge,
    share_fetch,
    share_group_describe,
    share_group_heartbeat,
    sync_group,
    txn_offset_commit,
)
from kafscale.wire.kafka.messages.api_versions import ApiVersionsRequest
from kafscale.wire.kafka.messages.describe_cluster import DescribeClusterRequest
from kafscale.wire.kafka.messages.sasl_authenticate import SaslAuthenticateRequest
from kafscale.wire.kafka.messages.sasl_handshake import SaslHandshakeRequest
from kafscale.wire.kafka.schema import NO_UUID, Message
from tests.unit.gateways.kafka.caller import Caller, fetch_request, make_batch, produce_request

TOPIC = ErrorCode.TOPIC_AUTHORIZATION_FAILED
GROUP = ErrorCode.GROUP_AUTHORIZATION_FAILED
CLUSTER = ErrorCode.CLUSTER_AUTHORIZATION_FAILED


class Rules:
    """Denies what a test says: everything, resources by name, or operations."""

    allows_all = False

    def __init__(self) -> None:
        self.denies_all = False
        self.denied: set[str] = set()
        self.denied_operations: set[AccessOperation] = set()
        self.asked: list[tuple[Principal, AccessOperation, ResourceType, str]] = []

    def allows(
        self,
        principal: Principal,
        host: str,
        operation: AccessOperation,
        kind: ResourceType,
        name: str,
    ) -> bool:
        self.asked.append((principal, operation, kind, name))
        is_denied = name in self.denied or operation in self.denied_operations
        return not self.denies_all and not is_denied

    def allows_any(
        self, principal: Principal, host: str, operation: AccessOperation, kind: ResourceType
    ) -> bool:
        return not self.denies_all


@pytest.fixture
def rules() -> Rules:
    return Rules()


@pytest.fixture
async def guarded(rules: Rules) -> AsyncIterator[InProcessBroker]:
    async with InProcessBroker(authorizer=rules) as broker:
        yield broker


@pytest.fixture
async def caller(guarded: InProcessBroker) -> AsyncIterator[Caller]:
    async with Caller(guarded.port) as connected:
        yield connected


def codes(value: object) -> Iterator[int]:
    """Every error code in a response."""
    if isinstance(value, list):
        for one in value:
            yield from codes(one)
    elif isinstance(value, msgspec.Struct):
        for name in value.__struct_fields__:
            if name in ("error_code", "partition_error_code"):
                yield getattr(value, name)
            else:
                yield from codes(getattr(value, name))


# One request per API, about the topic "t" and the group "g", and the error that it gets.
REQUESTS: list[tuple[Message, int, ErrorCode]] = [
    (produce_request("t", make_batch(b"x")), 9, TOPIC),
    (fetch_request([("t", 0, 0)]), 12, TOPIC),
    (
        list_offsets.ListOffsetsRequest(
            topics=[list_offsets.ListOffsetsTopic("t", [list_offsets.ListOffsetsPartition(0)])]
        ),
        7,
        TOPIC,
    ),
    (metadata.MetadataRequest([metadata.MetadataRequestTopic(NO_UUID, "t")]), 12, TOPIC),
    (metadata.MetadataRequest([metadata.MetadataRequestTopic(NO_UUID, "t")]), 0, TOPIC),
    (metadata.MetadataRequest([metadata.MetadataRequestTopic(NO_UUID, "new")]), 9, TOPIC),
    (
        offset_commit.OffsetCommitRequest(
            "g",
            topics=[
                offset_commit.OffsetCommitRequestTopic(
                    "t", [offset_commit.OffsetCommitRequestPartition(0, 7)]
                )
            ],
        ),
        8,
        GROUP,
    ),
    (offset_fetch.OffsetFetchRequest("g", None), 7, GROUP),
    (
        offset_fetch.OffsetFetchRequest("g", [offset_fetch.OffsetFetchRequestTopic("t", [0])]),
        1,
        GROUP,
    ),
    (
        offset_fetch.OffsetFetchRequest(
            groups=[offset_fetch.OffsetFetchRequestGroup("g", topics=None)]
        ),
        8,
        GROUP,
    ),
    (find_coordinator.FindCoordinatorRequest("g"), 3, GROUP),
    (find_coordinator.FindCoordinatorRequest(coordinator_keys=["g"]), 4, GROUP),
    (
        find_coordinator.FindCoordinatorRequest("g", key_type=1),
        3,
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    ),
    (
        add_partitions_to_txn.AddPartitionsToTxnRequest(
            "tx", 1, 0, [add_partitions_to_txn.AddPartitionsToTxnTopic("t", [0])]
        ),
        3,
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    ),
    (
        add_offsets_to_txn.AddOffsetsToTxnRequest("tx", 1, 0, "g"),
        3,
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    ),
    (
        end_txn.EndTxnRequest("tx", 1, 0, True),
        3,
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    ),
    (
        txn_offset_commit.TxnOffsetCommitRequest(
            "tx",
            "g",
            1,
            0,
            topics=[
                txn_offset_commit.TxnOffsetCommitRequestTopic(
                    "t", [txn_offset_commit.TxnOffsetCommitRequestPartition(0, 7)]
                )
            ],
        ),
        3,
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    ),
    (join_group.JoinGroupRequest("g", 10_000, 10_000), 9, GROUP),
    (heartbeat.HeartbeatRequest("g"), 4, GROUP),
    (leave_group.LeaveGroupRequest("g"), 5, GROUP),
    (sync_group.SyncGroupRequest("g"), 5, GROUP),
    (describe_groups.DescribeGroupsRequest(["g"]), 5, GROUP),
    (consumer_group_heartbeat.ConsumerGroupHeartbeatRequest("g", "m", 1), 1, GROUP),
    (consumer_group_describe.ConsumerGroupDescribeRequest(["g"]), 1, GROUP),
    (share_group_heartbeat.ShareGroupHeartbeatRequest("g", "m", 1), 1, GROUP),
    (share_group_describe.ShareGroupDescribeRequest(["g"]), 1, GROUP),
    (share_fetch.ShareFetchRequest("g", "m"), 2, GROUP),
    (share_acknowledge.ShareAcknowledgeRequest("g", "m", 1), 2, GROUP),
    (
        describe_share_group_offsets.DescribeShareGroupOffsetsRequest(
            [describe_share_group_offsets.ShareOffsetsGroup("g")]
        ),
        1,
        GROUP,
    ),
    (alter_share_group_offsets.AlterShareGroupOffsetsRequest("g"), 0, GROUP),
    (delete_share_group_offsets.DeleteShareGroupOffsetsRequest("g"), 0, GROUP),
    (create_topics.CreateTopicsRequest([create_topics.CreatableTopic("new", 1, 1)]), 7, TOPIC),
    (delete_topics.DeleteTopicsRequest([delete_topics.DeleteTopicState("t")]), 6, TOPIC),
    (delete_topics.DeleteTopicsRequest(topic_names=["t"]), 5, TOPIC),
    (
        delete_records.DeleteRecordsRequest(
            [delete_records.DeleteRecordsTopic("t", [delete_records.DeleteRecordsPartition(0, 1)])]
        ),
        2,
        TOPIC,
    ),
    (init_producer_id.InitProducerIdRequest(None), 4, CLUSTER),
    (
        offset_for_leader_epoch.OffsetForLeaderEpochRequest(
            topics=[
                offset_for_leader_epoch.OffsetForLeaderTopic(
                    "t", [offset_for_leader_epoch.OffsetForLeaderPartition(0)]
                )
            ]
        ),
        4,
        TOPIC,
    ),
    (
        describe_configs.DescribeConfigsRequest([describe_configs.DescribeConfigsResource(2, "t")]),
        4,
        TOPIC,
    ),
    (
        describe_configs.DescribeConfigsRequest([describe_configs.DescribeConfigsResource(4, "0")]),
        4,
        CLUSTER,
    ),
    (
        alter_configs.AlterConfigsRequest([alter_configs.AlterConfigsResource(2, "t")]),
        2,
        TOPIC,
    ),
    (describe_log_dirs.DescribeLogDirsRequest(None), 4, CLUSTER),
    (
        create_partitions.CreatePartitionsRequest(
            [create_partitions.CreatePartitionsTopic("t", 9)]
        ),
        3,
        TOPIC,
    ),
    (delete_groups.DeleteGroupsRequest(["g"]), 2, GROUP),
    (elect_leaders.ElectLeadersRequest(0, None), 2, CLUSTER),
    (offset_delete.OffsetDeleteRequest("g"), 0, GROUP),
    (
        incremental_alter_configs.IncrementalAlterConfigsRequest(
            [incremental_alter_configs.AlterConfigsResource(2, "t")]
        ),
        1,
        TOPIC,
    ),
    (
        describe_producers.DescribeProducersRequest([describe_producers.TopicRequest("t", [0])]),
        0,
        TOPIC,
    ),
    (
        describe_configs.DescribeConfigsRequest(
            [describe_configs.DescribeConfigsResource(32, "g")]
        ),
        4,
        GROUP,
    ),
    (describe_acls.DescribeAclsRequest(), 3, CLUSTER),
    (create_acls.CreateAclsRequest([create_acls.AclCreation()]), 3, CLUSTER),
    (delete_acls.DeleteAclsRequest([delete_acls.DeleteAclsFilter()]), 3, CLUSTER),
    (alter_partition_reassignments.AlterPartitionReassignmentsRequest(), 1, CLUSTER),
    (list_partition_reassignments.ListPartitionReassignmentsRequest(), 0, CLUSTER),
    (describe_client_quotas.DescribeClientQuotasRequest(), 1, CLUSTER),
    (
        alter_client_quotas.AlterClientQuotasRequest([alter_client_quotas.EntryData()]),
        1,
        CLUSTER,
    ),
    (
        describe_user_scram_credentials.DescribeUserScramCredentialsRequest(),
        0,
        CLUSTER,
    ),
    (
        describe_transactions.DescribeTransactionsRequest(["tx"]),
        0,
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    ),
    (
        alter_user_scram_credentials.AlterUserScramCredentialsRequest(
            [alter_user_scram_credentials.ScramCredentialDeletion("bob", 1)]
        ),
        0,
        CLUSTER,
    ),
    (list_config_resources.ListConfigResourcesRequest(), 1, CLUSTER),
    (
        describe_topic_partitions.DescribeTopicPartitionsRequest(
            [describe_topic_partitions.TopicRequest("t")]
        ),
        0,
        TOPIC,
    ),
]
# Delegation tokens go by who owns them: tests/unit/gateways/kafka/apis/test_delegation_tokens.py.
TOKEN_APIS = {key for key, name in router.NAMES.items() if "DelegationToken" in name}
# Requests that need no leave, or whose answer only leaves out what is denied.
NEVER_REFUSED = {
    ApiVersionsRequest.api_key,
    SaslHandshakeRequest.api_key,
    SaslAuthenticateRequest.api_key,
    *TOKEN_APIS,
    DescribeClusterRequest.api_key,
    list_groups.API_KEY,
    list_transactions.API_KEY,
}


def test_every_api_asks_for_something_unless_it_is_listed_here() -> None:
    asks_nothing = {api.API_KEY for api in router.APIS if not api.REQUIREMENTS}
    assert asks_nothing == NEVER_REFUSED - {list_groups.API_KEY}


def test_every_api_that_can_be_refused_is_refused_here() -> None:
    refused = {request.api_key for request, _, _ in REQUESTS}
    assert refused | NEVER_REFUSED == router.NAMES.keys()


@pytest.mark.parametrize(
    ("request_", "version", "code"),
    REQUESTS,
    ids=[f"{BY_KEY[row[0].api_key].name}-{row[1]}-{row[2].name}" for row in REQUESTS],
)
async def test_a_request_that_is_denied_gets_the_error_of_its_resource_and_does_nothing(
    request_: Message,
    version: int,
    code: ErrorCode,
    rules: Rules,
    guarded: InProcessBroker,
    caller: Caller,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    await caller.create("t")
    lines: list[dict[str, object]] = []
    monkeypatch.setattr(guarded.connections._audit, "_write_line", lines.append)
    rules.denies_all = True
    answer = await caller.ask(request_, version)
    assert set(codes(answer)) - {0} == {code}
    assert [line["kind"] for line in lines] == ["denied"]
    rules.denies_all = False
    assert {principal for principal, *_ in rules.asked} == {ANONYMOUS}
    engine = guarded.engine
    assert [(topic.name, topic.partitions) for topic in engine.topics.all()] == [("t", 1)]
    assert (await caller.offset("t", -1)).offset == 0, "nothing was written"
    assert (await caller.ask(list_groups.ListGroupsRequest(), 5)).groups == []


async def test_rows_that_are_allowed_are_served_beside_those_that_are_denied(
    rules: Rules, caller: Caller
) -> None:
    for name in ("open", "secret"):
        await caller.create(name)
        await caller.produce(name, make_batch(b"x"))
    rules.denied = {"secret"}
    assert (await caller.produce("secret", make_batch(b"y"))).error_code == TOPIC
    both = produce_request("secret", make_batch(b"y"))
    both.topic_data += produce_request("open", make_batch(b"y")).topic_data
    answer = await caller.ask(both, 9)
    rows = {topic.name: topic.partition_responses[0] for topic in answer.responses}
    assert (rows["open"].error_code, rows["open"].base_offset) == (0, 1)
    assert (rows["secret"].error_code, rows["secret"].base_offset) == (TOPIC, -1)
    answer = await caller.ask(fetch_request([("secret", 0, 0), ("open", 0, 0)]), 12)
    found = {topic.topic: topic.partitions[0] for topic in answer.responses}
    assert (found["open"].error_code, found["secret"].error_code) == (0, TOPIC)
    assert found["open"].records
    assert found["secret"].records == b"", "null would be a broken answer to librdkafka"
    rules.denied = set()
    assert (await caller.offset("secret", -1)).offset == 1, "nothing was added"


async def test_a_fetch_session_has_only_topics_that_its_client_may_read(
    rules: Rules, caller: Caller
) -> None:
    for name in ("open", "secret"):
        await caller.create(name)
    both = [("open", 0, 0), ("secret", 0, 0)]
    rules.denied = {"secret"}
    answer = await caller.ask(fetch_request(both, session_epoch=0), 12)
    assert answer.session_id == 0, "the client must name its topics again"
    assert sorted(codes(answer.responses)) == [0, TOPIC]
    rules.denied = set()
    session_id = (await caller.ask(fetch_request(both, session_epoch=0), 12)).session_id
    assert session_id
    later = fetch_request([], session_id=session_id, session_epoch=1)
    assert (await caller.ask(later, 12)).error_code == 0
    rules.denied = {"secret"}
    later = fetch_request([], session_id=session_id, session_epoch=2)
    assert (await caller.ask(later, 12)).error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND


async def test_a_producer_that_wants_no_answers_loses_its_connection(
    rules: Rules, caller: Caller
) -> None:
    await caller.create("t")
    rules.denied = {"t"}
    caller.send(produce_request("t", make_batch(b"x"), acks=0), 9)
    assert await caller.is_closed()


async def test_topics_are_left_out_of_all_topics_and_hidden_by_their_ids(
    rules: Rules, guarded: InProcessBroker, caller: Caller
) -> None:
    for name in ("open", "secret"):
        await caller.create(name)
    rules.denied = {"secret"}
    for version in (0, 12):
        asked = metadata.MetadataRequest(None if version else [])
        answer = await caller.ask(asked, version)
        assert [row.name for row in answer.topics] == ["open"]
    (topic_id,) = (t.topic_id for t in guarded.engine.topics.all() if t.name == "secret")
    by_id = metadata.MetadataRequest([metadata.MetadataRequestTopic(topic_id, None)])
    (row,) = (await caller.ask(by_id, 12)).topics
    assert (row.error_code, row.topic_id, row.partitions) == (TOPIC, topic_id, [])
    fetched = await caller.ask(fetch_request([(topic_id, 0, 0)]), 13)
    assert list(codes(fetched.responses)) == [TOPIC]


async def test_asking_for_a_topic_creates_it_only_where_the_client_may_create(
    rules: Rules, guarded: InProcessBroker, caller: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines: list[dict[str, object]] = []
    monkeypatch.setattr(guarded.connections._audit, "_write_line", lines.append)
    rules.denied_operations = {AccessOperation.CREATE}
    asked = metadata.MetadataRequest([metadata.MetadataRequestTopic(NO_UUID, "new")])
    (row,) = (await caller.ask(asked, 9)).topics
    assert row.error_code == TOPIC
    assert [(line["kind"], line["operation"]) for line in lines] == [("denied", "CREATE")]
    assert not guarded.engine.topics.all()
    rules.denied_operations = set()
    (row,) = (await caller.ask(asked, 9)).topics
    assert row.error_code == 0


async def test_groups_are_left_out_of_the_list(rules: Rules, caller: Caller) -> None:
    await caller.create("t")
    for group in ("open", "secret"):
        commit = offset_commit.OffsetCommitRequest(
            group,
            topics=[
                offset_commit.OffsetCommitRequestTopic(
                    "t", [offset_commit.OffsetCommitRequestPartition(0, 7)]
                )
            ],
        )
        assert set(codes(await caller.ask(commit, 8))) == {0}
    rules.denied = {"secret", "kafka-cluster"}
    answer = await caller.ask(list_groups.ListGroupsRequest(), 5)
    assert [row.group_id for row in answer.groups] == ["open"]


async def test_offsets_of_topics_are_left_out_or_refused(rules: Rules, caller: Caller) -> None:
    for name in ("open", "secret"):
        await caller.create(name)
    commit = offset_commit.OffsetCommitRequest(
        "g",
        topics=[
            offset_commit.OffsetCommitRequestTopic(
                name, [offset_commit.OffsetCommitRequestPartition(0, 7)]
            )
            for name in ("open", "secret")
        ],
    )
    rules.denied = {"secret"}
    answer = await caller.ask(commit, 8)
    assert {row.name: row.partitions[0].error_code for row in answer.topics} == {
        "open": 0,
        "secret": TOPIC,
    }
    rules.denied = set()
    assert set(codes(await caller.ask(commit, 8))) == {0}
    rules.denied = {"secret"}
    for version in (7, 8):
        asked = offset_fetch.OffsetFetchRequest(
            "g", None, [offset_fetch.OffsetFetchRequestGroup("g", topics=None)]
        )
        answer = await caller.ask(asked, version)
        topics = answer.groups[0].topics if version >= 8 else answer.topics
        assert [row.name for row in topics] == ["open"]
    named = offset_fetch.OffsetFetchRequestTopics("secret", [0])
    asked = offset_fetch.OffsetFetchRequest(
        groups=[offset_fetch.OffsetFetchRequestGroup("g", topics=[named])]
    )
    answer = await caller.ask(asked, 8)
    assert answer.groups[0].topics[0].partitions[0].error_code == TOPIC


async def test_operations_that_are_shown_are_those_that_are_allowed(
    rules: Rules, caller: Caller
) -> None:
    rules.denied = {"kafka-cluster"}
    answer = await caller.ask(DescribeClusterRequest(True), 1)
    assert answer.error_code == 0, "every client may know the brokers"
    assert answer.cluster_authorized_operations == 0
