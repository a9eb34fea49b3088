"""Which requests the audit log hears of."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from kafscale.gateways.kafka import router
from kafscale.gateways.kafka.access.audited_changes import CHANGES
from kafscale.model.security.access import ResourceType
from kafscale.model.security.audit import AuditEvent
from kafscale.testing.in_process import InProcessBroker
from kafscale.wire.kafka.messages import alter_client_quotas, create_topics, metadata, offset_delete
from kafscale.wire.kafka.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from tests.support.authorizers import Denies
from tests.unit.gateways.kafka.caller import Caller

NOT_ADMINISTRATIVE = {
    "Produce", "Fetch", "ListOffsets", "Metadata", "OffsetCommit", "OffsetFetch",
    "FindCoordinator", "JoinGroup", "Heartbeat", "LeaveGroup", "SyncGroup", "DescribeGroups",
    "AddPartitionsToTxn", "AddOffsetsToTxn", "EndTxn", "TxnOffsetCommit",
    "ListGroups", "SaslHandshake", "SaslAuthenticate", "ApiVersions", "InitProducerId",
    "OffsetForLeaderEpoch", "DescribeAcls", "DescribeConfigs", "DescribeLogDirs",
    "DescribeDelegationToken", "ListPartitionReassignments", "DescribeClientQuotas",
    "DescribeUserScramCredentials", "DescribeCluster", "DescribeProducers", "DescribeTransactions",
    "ListTransactions", "ListConfigResources", "DescribeTopicPartitions",
    "ConsumerGroupHeartbeat", "ConsumerGroupDescribe",
    "ShareGroupHeartbeat", "ShareGroupDescribe", "ShareFetch", "ShareAcknowledge",
    "DescribeShareGroupOffsets",
}  # fmt: skip


def is_denied(kind: ResourceType, name: str) -> bool:
    return name.startswith("secret") or kind is ResourceType.CLUSTER


@pytest.fixture
async def broker() -> AsyncIterator[InProcessBroker]:
    async with InProcessBroker(authorizer=Denies(is_denied)) as started:
        yield started


@pytest.fixture
def events(broker: InProcessBroker, monkeypatch: pytest.MonkeyPatch) -> list[AuditEvent]:
    heard: list[AuditEvent] = []
    monkeypatch.setattr(broker.connections._audit, "_write_line", heard.append)
    monkeypatch.setattr(broker.connections._audit, "_fields_of", lambda event: event)
    return heard


def facts(event: AuditEvent) -> tuple[Any, ...]:
    return (event.kind, event.outcome, event.api, event.operation, event.resources)


def test_every_api_is_a_change_or_known_to_be_none() -> None:
    for key, name in router.NAMES.items():
        assert (key in CHANGES) != (name in NOT_ADMINISTRATIVE), name


async def test_changes_and_denials_of_one_request_are_told_apart(
    caller: Caller, events: list[AuditEvent]
) -> None:
    names = ["orders", "bad name", "secret-1", "secret-2"]
    topics = [create_topics.CreatableTopic(name, 1, 1) for name in names]
    await caller.ask(create_topics.CreateTopicsRequest(topics, 10_000), 7)
    assert sorted(map(facts, events)) == [
        ("change", "INVALID_TOPIC_EXCEPTION", "CreateTopics", "CREATE", ("bad name",)),
        ("change", "ok", "CreateTopics", "CREATE", ("orders",)),
        ("denied", "denied", "CreateTopics", "CREATE", ("secret-1", "secret-2")),
    ]
    assert {(one.principal, one.address, one.client_id, one.listener) for one in events} == {
        ("User:ANONYMOUS", "127.0.0.1", "tests", "PLAINTEXT")
    }
    assert [one.count for one in events if one.kind == "denied"] == [2]


async def test_a_request_that_only_validates_or_reads_is_no_change(
    caller: Caller, events: list[AuditEvent]
) -> None:
    await caller.create("orders", validate_only=True)
    await caller.ask(metadata.MetadataRequest(None), 9)
    assert events == []


async def test_a_denied_reader_is_told_of_once_per_request(
    caller: Caller, events: list[AuditEvent]
) -> None:
    rows = [metadata.MetadataRequestTopic(name=f"secret-{number}") for number in range(500)]
    await caller.ask(metadata.MetadataRequest(rows), 9)
    (event,) = events
    assert (event.operation, event.resource_type, event.count) == ("DESCRIBE", "TOPIC", 500)
    assert event.resources[:2] == ("secret-0", "secret-1")
    assert len(event.resources) == 100


async def test_topics_offsets_and_quotas_are_named_as_their_apis_name_them(
    caller: Caller, events: list[AuditEvent], broker: InProcessBroker
) -> None:
    await caller.create("orders")
    events.clear()
    by_id = broker.engine.topics.get("orders").topic_id
    await caller.ask(offset_delete.OffsetDeleteRequest("shop", []), 0)
    gone = DeleteTopicState(None, by_id), DeleteTopicState(None, b"\x01" * 16)
    await caller.ask(DeleteTopicsRequest(topics=list(gone), timeout_ms=10_000), 6)
    entity = [alter_client_quotas.EntityData("user", None)]
    entry = alter_client_quotas.EntryData(entity, [])
    await caller.ask(alter_client_quotas.AlterClientQuotasRequest([entry]), 1)
    assert [(one.kind, one.outcome, one.resources) for one in events] == [
        ("change", "GROUP_ID_NOT_FOUND", ("shop",)),
        ("change", "ok", ("orders",)),
        ("change", "UNKNOWN_TOPIC_ID", ("id " + "01" * 16,)),
        ("denied", "denied", ("kafka-cluster",)),
    ]
