"""A connection's requests take effect in their order: what a client changes it sees afterwards.

Next door: answers in order and many requests under way (test_session.py).
"""

import asyncio
from typing import Any

import pytest

from kafscale.gateways.kafka import router
from kafscale.gateways.kafka.calls.call import Answer, Call
from kafscale.gateways.kafka.calls.request_order import Unsettled
from kafscale.objects.memory import MemoryObjectStore
from kafscale.testing.faulty_store import Fault, FaultPlan, FaultyObjectStore, Rule
from kafscale.testing.in_process import InProcessBroker
from kafscale.wire.kafka.catalog import BY_KEY
from kafscale.wire.kafka.errors import ErrorCode
from kafscale.wire.kafka.frame import RequestHeader
from kafscale.wire.kafka.messages.create_topics import CreatableTopic, CreateTopicsRequest
from kafscale.wire.kafka.messages.delete_groups import DeleteGroupsRequest
from kafscale.wire.kafka.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from kafscale.wire.kafka.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from kafscale.wire.kafka.messages.fetch import FetchRequest
from kafscale.wire.kafka.messages.heartbeat import HeartbeatRequest
from kafscale.wire.kafka.messages.join_group import JoinGroupRequest
from kafscale.wire.kafka.messages.leave_group import LeaveGroupRequest
from kafscale.wire.kafka.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from kafscale.wire.kafka.messages.metadata import MetadataRequest, MetadataRequestTopic
from kafscale.wire.kafka.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kafscale.wire.kafka.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestTopic
from kafscale.wire.kafka.messages.produce import ProduceRequest
from kafscale.wire.kafka.messages.sync_group import SyncGroupRequest
from kafscale.wire.kafka.schema import Message
from tests.unit.gateways.kafka.caller import (
    Caller,
    fetch_request,
    make_batch,
    produce_request,
    values_of,
)

ROUNDS = 12
LATEST, EARLIEST = -1, -2


def commit_request(group: str, topic: str, offset: int) -> OffsetCommitRequest:
    row = OffsetCommitRequestPartition(0, committed_offset=offset)
    return OffsetCommitRequest(group, topics=[OffsetCommitRequestTopic(topic, [row])])


def committed_request(group: str, topic: str) -> OffsetFetchRequest:
    return OffsetFetchRequest(group, [OffsetFetchRequestTopic(topic, [0])])


def bound_request(topic: str, timestamp: int) -> ListOffsetsRequest:
    row = ListOffsetsPartition(0, -1, timestamp, 1)
    return ListOffsetsRequest(topics=[ListOffsetsTopic(topic, [row])])


def trim_request(topic: str, offset: int) -> DeleteRecordsRequest:
    rows = [DeleteRecordsPartition(0, offset)]
    return DeleteRecordsRequest([DeleteRecordsTopic(topic, rows)], 10_000)


def create_request(topic: str) -> CreateTopicsRequest:
    return CreateTopicsRequest([CreatableTopic(topic, 1, 1, [], [])], 10_000)


def delete_request(topic: str) -> DeleteTopicsRequest:
    return DeleteTopicsRequest(topics=[DeleteTopicState(topic)], timeout_ms=10_000)


def metadata_request(topic: str) -> MetadataRequest:
    return MetadataRequest([MetadataRequestTopic(name=topic)], allow_auto_topic_creation=False)


def offset_in(answer: Any) -> int:
    """The offset in an answer of OffsetFetch."""
    (row,) = answer.topics[0].partitions
    return int(row.committed_offset)


def bound_in(answer: Any) -> int:
    """The offset in an answer of ListOffsets."""
    (row,) = answer.topics[0].partitions
    return int(row.offset)


async def test_a_committed_offset_is_seen_by_the_request_behind_the_commit(caller: Caller) -> None:
    await caller.create("t")
    for number in range(ROUNDS):
        caller.send(commit_request("g", "t", number), 8)
        caller.send(committed_request("g", "t"), 7)
    seen = []
    for _ in range(ROUNDS):
        await caller.answer()
        seen.append(offset_in(await caller.answer()))
    assert seen == list(range(ROUNDS))


async def test_an_offset_that_is_committed_later_is_not_seen(caller: Caller) -> None:
    await caller.create("t")
    for number in range(ROUNDS):
        caller.send(committed_request("g", "t"), 7)
        caller.send(commit_request("g", "t", number), 8)
    seen = []
    for _ in range(ROUNDS):
        seen.append(offset_in(await caller.answer()))
        await caller.answer()
    assert seen == list(range(-1, ROUNDS - 1))


async def test_a_deleted_group_has_no_offsets_for_the_request_behind(caller: Caller) -> None:
    await caller.create("t")
    for _ in range(ROUNDS):
        caller.send(commit_request("g", "t", 7), 8)
        caller.send(DeleteGroupsRequest(["g"]), 2)
        caller.send(committed_request("g", "t"), 7)
    for _ in range(ROUNDS):
        await caller.answer()
        (deleted,) = (await caller.answer()).results
        assert deleted.error_code == ErrorCode.NONE
        assert offset_in(await caller.answer()) == -1


async def test_deleted_records_are_gone_for_the_request_behind(caller: Caller) -> None:
    await caller.create("t")
    for _ in range(ROUNDS + 1):
        await caller.produce("t", make_batch(b"x"))
    for number in range(1, ROUNDS + 1):
        caller.send(trim_request("t", number), 2)
        caller.send(bound_request("t", EARLIEST), 7)
    seen = []
    for _ in range(ROUNDS):
        await caller.answer()
        seen.append(bound_in(await caller.answer()))
    assert seen == list(range(1, ROUNDS + 1))


async def test_a_topic_is_there_and_gone_for_the_requests_behind(caller: Caller) -> None:
    for number in range(ROUNDS):
        caller.send(create_request(f"t{number}"), 7)
        caller.send(metadata_request(f"t{number}"), 12)
        caller.send(delete_request(f"t{number}"), 6)
        caller.send(metadata_request(f"t{number}"), 12)
    codes = []
    for _ in range(ROUNDS):
        await caller.answer()
        codes.append((await caller.answer()).topics[0].error_code)
        await caller.answer()
        codes.append((await caller.answer()).topics[0].error_code)
    assert codes == [ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION] * ROUNDS


async def test_a_topic_takes_records_from_the_request_behind_its_creation(caller: Caller) -> None:
    for number in range(ROUNDS):
        caller.send(create_request(f"t{number}"), 7)
        caller.send(produce_request(f"t{number}", make_batch(b"first")), 9)
    for _ in range(ROUNDS):
        await caller.answer()
        (row,) = (await caller.answer()).responses[0].partition_responses
        assert (row.error_code, row.base_offset) == (ErrorCode.NONE, 0)


async def test_produced_records_are_seen_by_the_requests_behind(caller: Caller) -> None:
    await caller.create("t")
    for number in range(ROUNDS):
        caller.send(produce_request("t", make_batch(b"%d" % number)), 9)
        caller.send(bound_request("t", LATEST), 7)
        caller.send(fetch_request([("t", 0, number)]), 12)
    for number in range(ROUNDS):
        await caller.answer()
        assert bound_in(await caller.answer()) == number + 1
        (row,) = (await caller.answer()).responses[0].partitions
        assert values_of(row) == [b"%d" % number]


async def test_records_are_stored_before_their_topic_is_deleted(caller: Caller) -> None:
    for number in range(ROUNDS):
        await caller.create(f"t{number}")
        caller.send(produce_request(f"t{number}", make_batch(b"last")), 9)
        caller.send(delete_request(f"t{number}"), 6)
        (row,) = (await caller.answer()).responses[0].partition_responses
        assert (row.error_code, row.base_offset) == (ErrorCode.NONE, 0)
        assert (await caller.answer()).responses[0].error_code == ErrorCode.NONE


async def test_a_producers_requests_are_under_way_together(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    begun = 0
    honest = router.answer

    def answer(request: RequestHeader, call: Call) -> Answer:
        nonlocal begun
        begun += request.api_key == ProduceRequest.api_key
        return honest(request, call)

    monkeypatch.setattr(router, "answer", answer)
    plan = FaultPlan()
    store = FaultyObjectStore(MemoryObjectStore(), plan)
    async with InProcessBroker(store=store) as broker, Caller(broker.port) as caller:
        await caller.create("t")
        await caller.produce("t", make_batch(b"open"))
        stall = plan.add(Rule(Fault.STALL_BEFORE, "put_new", "*/segment-*"))
        for number in range(ROUNDS):
            caller.send(produce_request("t", make_batch(b"%d" % number)), 9)
        async with asyncio.timeout(20):
            while begun < 1 + ROUNDS:  # none of them is answered
                await asyncio.sleep(0.01)
        stall.release()
        rows = [(await caller.answer()).responses[0].partition_responses[0] for _ in range(ROUNDS)]
        assert [row.base_offset for row in rows] == list(range(1, ROUNDS + 1))


async def test_what_waits_for_an_earlier_request_begins_after_the_client_has_gone() -> None:
    plan = FaultPlan()
    store = FaultyObjectStore(MemoryObjectStore(), plan)
    async with InProcessBroker(store=store) as broker:
        async with Caller(broker.port) as leaving:
            await leaving.create("t")
            await leaving.produce("t", make_batch(b"open"))
            stall = plan.add(Rule(Fault.STALL_BEFORE, "put_new", "*/segment-*"))
            leaving.send(produce_request("t", make_batch(b"slow")), 9)
            leaving.send(create_request("behind"), 7)
            await stall.reached.wait()
            while broker.connections.held_bytes < 600:
                await asyncio.sleep(0.01)
        async with asyncio.timeout(20):
            while len(broker.connections):
                await asyncio.sleep(0.01)
        assert broker.engine.topics.find("behind") is None
        stall.release()
        async with asyncio.timeout(20):
            while broker.engine.topics.find("behind") is None:
                await asyncio.sleep(0.01)


async def test_what_comes_behind_a_fault_of_the_broker_never_begins(
    broker: InProcessBroker, caller: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    honest = router.answer

    async def fail() -> None:
        raise RuntimeError("not foreseen")

    def answer(request: RequestHeader, call: Call) -> Answer:
        if request.api_key == OffsetCommitRequest.api_key:
            return fail()
        return honest(request, call)

    await caller.create("t")
    monkeypatch.setattr(router, "answer", answer)
    caller.send(commit_request("g", "t", 7), 8)
    caller.send(DeleteGroupsRequest(["g"]), 2)
    caller.send(create_request("behind"), 7)
    assert await caller.is_closed()
    monkeypatch.undo()
    async with Caller(broker.port) as other:
        await other.create("later")
    assert broker.engine.topics.find("behind") is None


# -- the table -------------------------------------------------------------------------------------


def test_a_connection_has_one_request_at_a_time_that_goes_through_rows() -> None:
    by_rows = {api.API_KEY for api in router.APIS if api.ORDER.leaves & Unsettled.ROWS}
    assert ListOffsetsRequest.api_key in by_rows
    for key in by_rows:
        assert by_rows <= router.WAITS_FOR[key], BY_KEY[key].name


@pytest.mark.parametrize("kind", [ProduceRequest, OffsetCommitRequest, FetchRequest])
def test_what_clients_send_many_of_does_not_wait_for_its_own_kind(kind: type[Message]) -> None:
    assert kind.api_key not in router.WAITS_FOR[kind.api_key]


@pytest.mark.parametrize("kind", [FetchRequest, JoinGroupRequest, SyncGroupRequest])
def test_no_request_waits_for_one_that_may_wait_long_itself(kind: type[Message]) -> None:
    for key, earlier in router.WAITS_FOR.items():
        assert kind.api_key not in earlier, BY_KEY[key].name


def test_heartbeats_wait_for_no_commit() -> None:
    waits = router.WAITS_FOR[HeartbeatRequest.api_key]
    assert OffsetCommitRequest.api_key not in waits


@pytest.mark.parametrize("kind", [JoinGroupRequest, LeaveGroupRequest, SyncGroupRequest])
def test_a_member_hands_its_partitions_on_after_its_commits(kind: type[Message]) -> None:
    assert OffsetCommitRequest.api_key in router.WAITS_FOR[kind.api_key]
