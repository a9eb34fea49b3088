"""Three forms of a name mean one topic, and each client hears the form that it uses."""

from types import SimpleNamespace
from typing import Any

import pytest

from kafscale.gateways.kafka.calls.topic_names import name_fields, resolve, restore
from kafscale.gateways.kafka.router import APIS
from kafscale.model.tenancy import Tenancy
from kafscale.turns import run_through
from kafscale.wire.kafka.catalog import BY_KEY
from kafscale.wire.kafka.errors import ErrorCode
from kafscale.wire.kafka.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from kafscale.wire.kafka.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from kafscale.wire.kafka.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
)
from kafscale.wire.kafka.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from kafscale.wire.kafka.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseTopic,
)
from kafscale.wire.kafka.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kafscale.wire.kafka.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestTopic
from kafscale.wire.kafka.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from kafscale.wire.kafka.schema import NO_UUID
from tests.unit.gateways.kafka.caller import Caller, make_batch

SHORT = ("orders", "public/default/orders", "persistent://public/default/orders")
LONG = ("acme/billing/orders", "persistent://acme/billing/orders")


async def names_told(caller: Caller, *asked: str, version: int = 12) -> list[tuple[int, Any]]:
    topics = [MetadataRequestTopic(NO_UUID, name) for name in asked]
    answer = await caller.ask(MetadataRequest(topics), version)
    return [(row.error_code, row.name) for row in answer.topics]


def write(name: str, value: bytes) -> ProduceRequest:
    data = [TopicProduceData(name, [PartitionProduceData(0, make_batch(value))])]
    return ProduceRequest(None, -1, 10_000, data)


async def read(caller: Caller, name: str, version: int, **more: int) -> Any:
    asked = FetchTopic(name, partitions=[FetchPartition(partition_max_bytes=1 << 20)])
    request = FetchRequest(max_wait_ms=100, min_bytes=1, topics=[asked], **more)
    return await caller.ask(request, version)


@pytest.mark.parametrize("forms", [SHORT, LONG], ids=["default", "another"])
async def test_each_form_writes_to_and_reads_from_the_same_topic(
    caller: Caller, forms: tuple[str, ...]
) -> None:
    await caller.create(forms[0])
    for number, name in enumerate(forms):
        assert await names_told(caller, name) == [(0, name)]
        (told,) = (await caller.ask(write(name, b"%d" % number), 9)).responses
        assert told.name == name
        assert told.partition_responses[0].base_offset == number
    for name in forms:
        (told,) = (await read(caller, name, 12)).responses
        assert told.topic == name
        assert told.partitions[0].high_watermark == len(forms)


async def test_two_forms_in_one_question_get_two_answers(caller: Caller) -> None:
    await caller.create("orders")
    assert sorted(await names_told(caller, *SHORT, "orders")) == sorted((0, one) for one in SHORT)


async def test_a_fetch_session_goes_on_in_the_form_that_it_began_with(caller: Caller) -> None:
    await caller.create("orders")
    began = await read(caller, SHORT[2], 12, session_epoch=0)
    await caller.ask(write("orders", b"v"), 9)
    following = FetchRequest(
        max_wait_ms=5000, min_bytes=1, session_id=began.session_id, session_epoch=1
    )
    (told,) = (await caller.ask(following, 12)).responses
    assert told.topic == SHORT[2]


async def test_offsets_are_the_same_under_every_form(caller: Caller) -> None:
    await caller.create("orders")
    row = OffsetCommitRequestPartition(0, committed_offset=7)
    commit = OffsetCommitRequest("g", topics=[OffsetCommitRequestTopic(SHORT[1], [row])])
    (told,) = (await caller.ask(commit, 8)).topics
    assert (told.name, told.partitions[0].error_code) == (SHORT[1], 0)
    for name in SHORT:
        asked = OffsetFetchRequest("g", [OffsetFetchRequestTopic(name, [0])])
        (found,) = (await caller.ask(asked, 7)).topics
        assert (found.name, found.partitions[0].committed_offset) == (name, 7)


async def test_topics_are_created_changed_and_deleted_by_every_form(caller: Caller) -> None:
    created = await caller.create(LONG[1])
    assert (created.name, created.error_code) == (LONG[1], 0)
    more = CreatePartitionsRequest([CreatePartitionsTopic(LONG[0], 3)], 10_000)
    (told,) = (await caller.ask(more, 3)).results
    assert (told.name, told.error_code) == (LONG[0], 0)
    asked = DescribeConfigsRequest([DescribeConfigsResource(2, LONG[1], None)])
    (configs,) = (await caller.ask(asked, 4)).results
    assert (configs.resource_name, configs.error_code) == (LONG[1], 0)
    (gone,) = (await caller.ask(DeleteTopicsRequest([DeleteTopicState(LONG[1])]), 6)).responses
    assert (gone.name, gone.error_code) == (LONG[1], 0)
    again = DeleteTopicsRequest(topic_names=[LONG[0]])
    (missing,) = (await caller.ask(again, 5)).responses
    assert (missing.name, missing.error_code) == (
        LONG[0],
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    )


@pytest.mark.parametrize(
    "name",
    ["a/b", "a/b/c/d", "non-persistent://a/b/c", "persistent://c", "a//c", "/a/b", "a/../c"],
)
async def test_what_is_no_topics_name_is_refused_at_once(caller: Caller, name: str) -> None:
    assert await names_told(caller, name) == [(ErrorCode.INVALID_TOPIC_EXCEPTION, name)]


async def test_all_topics_are_told_by_the_names_they_are_kept_under(caller: Caller) -> None:
    for name in (SHORT[2], LONG[1]):
        await caller.create(name)
    answer = await caller.ask(MetadataRequest(None), 12)
    assert sorted(row.name for row in answer.topics) == ["acme/billing/orders", "orders"]


def test_names_of_very_many_rows_are_put_back_in_pieces() -> None:
    asked = [f"acme/billing/orders-{number}" for number in range(3_000)]
    asked += ["persistent://acme/billing/orders-0"]
    call: Any = SimpleNamespace(context=SimpleNamespace(tenancy=Tenancy()), spelled={})
    call.message = MetadataRequest([MetadataRequestTopic(NO_UUID, name) for name in asked])
    run_through(resolve(call, MetadataRequest.api_key))
    answer = MetadataResponse(
        topics=[MetadataResponseTopic(name=row.name) for row in call.message.topics]
    )
    assert sum(1 for _ in restore(call, answer)) > 3
    assert [row.name for row in answer.topics] == asked


def test_every_offered_request_is_looked_through_for_names() -> None:
    without = {
        *("ApiVersions", "FindCoordinator", "InitProducerId", "ListGroups", "DescribeGroups"),
        *("JoinGroup", "SyncGroup", "Heartbeat", "LeaveGroup", "DeleteGroups", "DescribeCluster"),
        *("SaslHandshake", "SaslAuthenticate", "ListConfigResources"),
    }
    named = {BY_KEY[api.API_KEY].name for api in APIS if name_fields(BY_KEY[api.API_KEY].request)}
    assert named.isdisjoint(without)
    assert named >= {
        *("Produce", "Fetch", "ListOffsets", "Metadata", "OffsetCommit", "OffsetFetch"),
        *("OffsetDelete", "OffsetForLeaderEpoch", "CreateTopics", "DeleteTopics"),
        *("CreatePartitions", "DeleteRecords", "DescribeConfigs", "AlterConfigs"),
        *("IncrementalAlterConfigs", "ElectLeaders", "AlterPartitionReassignments"),
        *("ListPartitionReassignments", "DescribeLogDirs", "DescribeProducers"),
        *("DescribeTopicPartitions", "CreateAcls", "DeleteAcls", "DescribeAcls"),
    }
