"""Requests with very many rows: answered like others, and other connections do not wait."""

import asyncio
from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest

from kafscale.gateways.kafka.apis import (
    alter_partition_reassignments,
    offset_commit,
    offset_delete,
    offset_fetch,
)
from kafscale.testing.clock import ManualClock
from kafscale.testing.in_process import InProcessBroker
from kafscale.wire.kafka.errors import ErrorCode
from kafscale.wire.kafka.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from kafscale.wire.kafka.messages.api_versions import ApiVersionsRequest
from kafscale.wire.kafka.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from kafscale.wire.kafka.messages.leave_group import LeaveGroupRequest, MemberIdentity
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
from kafscale.wire.kafka.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from kafscale.wire.kafka.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from kafscale.wire.kafka.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from kafscale.wire.kafka.schema import NO_UUID, Message
from tests.unit.gateways.kafka.caller import NOW_MS, Caller, make_batch, produce_request

MANY = 3_000


class BusyClock(ManualClock):
    """Every look at it takes a millisecond, so that work seems to take long."""

    def elapsed_s(self) -> float:
        self.advance_ms(1)
        return super().elapsed_s()


@pytest.fixture
def clock() -> ManualClock:
    return BusyClock(NOW_MS)


def list_offsets(rows: int) -> ListOffsetsRequest:
    wanted = [ListOffsetsPartition(0, -1, -1) for _ in range(rows)]
    return ListOffsetsRequest(-1, 0, [ListOffsetsTopic("t", wanted)])


async def test_another_connection_is_answered_first(
    caller: Caller, broker: InProcessBroker
) -> None:
    await caller.create("t")
    answered: list[str] = []

    async def note(one: Caller, name: str) -> None:
        await one.answer()
        answered.append(name)

    async with Caller(broker.port) as other:
        caller.send(list_offsets(MANY), 5)
        other.send(ApiVersionsRequest(), 0)
        await asyncio.gather(note(caller, "long"), note(other, "short"))
    assert answered == ["short", "long"]


async def test_requests_sent_at_once_let_another_connection_in_between(
    caller: Caller, broker: InProcessBroker
) -> None:
    answered: list[str] = []

    async def note(one: Caller, name: str, times: int) -> None:
        for _ in range(times):
            await one.answer()
        answered.append(name)

    async with Caller(broker.port) as other:
        for _ in range(500):
            caller.send(ApiVersionsRequest(), 0)
        other.send(ApiVersionsRequest(), 0)
        await asyncio.gather(note(caller, "all", 500), note(other, "one", 1))
    assert answered == ["one", "all"]


async def test_batches_keep_their_order_behind_a_request_with_many(caller: Caller) -> None:
    await caller.create("t")
    rows = [PartitionProduceData(0, make_batch(b"%d" % number)) for number in range(MANY)]
    caller.send(ProduceRequest(None, -1, 600_000, [TopicProduceData("t", rows)]), 9)
    caller.send(produce_request("t", make_batch(b"last")), 9)
    caller.send(list_offsets(1), 5)
    first, second, end = [await caller.answer() for _ in range(3)]
    offsets = [row.base_offset for row in first.responses[0].partition_responses]
    assert offsets == list(range(MANY))
    assert second.responses[0].partition_responses[0].base_offset == MANY
    assert end.topics[0].partitions[0].offset == MANY + 1


async def test_each_row_of_a_long_produce_request_has_its_own_result(caller: Caller) -> None:
    await caller.create("t")
    bad, good = b"", make_batch(b"v")
    rows = [PartitionProduceData(0, good if at % 2 else bad) for at in range(MANY)]
    request = ProduceRequest(None, -1, 600_000, [TopicProduceData("t", rows)])
    (topic,) = (await caller.ask(request, 9)).responses
    codes = [row.error_code for row in topic.partition_responses]
    assert codes == [ErrorCode.INVALID_RECORD, ErrorCode.NONE] * (MANY // 2)


async def test_offsets_committed_by_a_long_request_are_seen_behind_it(caller: Caller) -> None:
    await caller.create("t", 100)
    rows = [OffsetCommitRequestPartition(at % 100, at) for at in range(MANY)]
    rows.append(OffsetCommitRequestPartition(1000, 1))
    caller.send(OffsetCommitRequest("g", topics=[OffsetCommitRequestTopic("t", rows)]), 2)
    caller.send(OffsetFetchRequest("g", [OffsetFetchRequestTopic("t", [0, 99])]), 5)
    committed, fetched = [await caller.answer() for _ in range(2)]
    codes = [row.error_code for row in committed.topics[0].partitions]
    assert codes == [0] * MANY + [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    found = [row.committed_offset for row in fetched.topics[0].partitions]
    assert found == [MANY - 100, MANY - 1]


@pytest.mark.parametrize("session_epoch", [-1, 0])
async def test_a_fetch_of_many_rows_answers_each_and_keeps_its_limit(
    caller: Caller, session_epoch: int
) -> None:
    await caller.create("t", 2)
    await caller.produce("t", make_batch(b"v" * 1000))
    rows = [FetchPartition(at, fetch_offset=0, partition_max_bytes=10_000) for at in range(MANY)]
    request = FetchRequest(
        max_wait_ms=0,
        max_bytes=1500,
        session_epoch=session_epoch,
        topics=[FetchTopic("t", partitions=rows)],
    )
    answer = await caller.ask(request, 11)
    found = answer.responses[0].partitions
    assert [row.partition_index for row in found] == list(range(MANY))
    assert [row.error_code for row in found] == [0, 0] + [3] * (MANY - 2)
    assert len(found[0].records) > 1000
    assert bool(answer.session_id) == (session_epoch == 0)


async def test_a_long_fetch_waits_for_news_of_any_partition(
    caller: Caller, broker: InProcessBroker
) -> None:
    await caller.create("t", 1000)
    rows = [FetchPartition(at % 1000, fetch_offset=0) for at in range(MANY)]
    request = FetchRequest(
        max_wait_ms=30_000,
        min_bytes=1,
        max_bytes=1 << 20,
        topics=[FetchTopic("t", partitions=rows)],
    )
    caller.send(request, 11)
    async with Caller(broker.port) as other:
        await other.produce("t", make_batch(b"news"), partition=999)
        answer = await caller.answer()
    with_news = {row.partition_index for row in answer.responses[0].partitions if row.records}
    assert with_news == {999}


async def test_every_member_of_a_long_leave_has_its_own_result(caller: Caller) -> None:
    names = [f"m{number}" for number in range(MANY)]
    request = LeaveGroupRequest("g", "", [MemberIdentity(name) for name in names])
    answer = await caller.ask(request, 3)
    assert [row.member_id for row in answer.members] == names
    assert {row.error_code for row in answer.members} == {ErrorCode.UNKNOWN_MEMBER_ID}


async def test_metadata_of_many_names_describes_each_once(caller: Caller) -> None:
    await caller.create("t")
    names = ["t", "t", *(f"a/{number}" for number in range(MANY))]
    request = MetadataRequest([MetadataRequestTopic(NO_UUID, name) for name in names], False)
    answer = await caller.ask(request, 7)
    assert [row.name for row in answer.topics] == names[1:]


async def test_deleting_the_last_offset_of_a_group_among_many_is_no_error(caller: Caller) -> None:
    await caller.create("t")
    committed = [OffsetCommitRequestTopic("t", [OffsetCommitRequestPartition(0, 1)])]
    await caller.ask(OffsetCommitRequest("g", topics=committed), 2)
    rows = [OffsetDeleteRequestPartition(number) for number in range(MANY)]
    request = OffsetDeleteRequest("g", [OffsetDeleteRequestTopic("t", rows)])
    answer = await caller.ask(request, 0)
    assert answer.error_code == 0
    codes = [row.error_code for row in answer.topics[0].partitions]
    assert codes == [0] + [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION] * (MANY - 1)
    assert (await caller.ask(request, 0)).error_code == ErrorCode.GROUP_ID_NOT_FOUND


NUMBERS = list(range(MANY))
# By API: the module that makes the rows of the answer, their class, a request, its version.
ONE_TOPIC_WITH_MANY = {
    "OffsetFetch": (
        offset_fetch,
        "OffsetFetchResponsePartition",
        OffsetFetchRequest("g", [OffsetFetchRequestTopic("t", NUMBERS)]),
        5,
    ),
    "OffsetFetch of groups": (
        offset_fetch,
        "OffsetFetchResponsePartitions",
        OffsetFetchRequest(
            groups=[OffsetFetchRequestGroup("g", topics=[OffsetFetchRequestTopics("t", NUMBERS)])]
        ),
        8,
    ),
    "OffsetCommit": (
        offset_commit,
        "OffsetCommitResponsePartition",
        OffsetCommitRequest(
            "g",
            topics=[
                OffsetCommitRequestTopic("t", [OffsetCommitRequestPartition(n, 1) for n in NUMBERS])
            ],
        ),
        2,
    ),
    "OffsetDelete": (
        offset_delete,
        "OffsetDeleteResponsePartition",
        OffsetDeleteRequest(
            "g", [OffsetDeleteRequestTopic("t", [OffsetDeleteRequestPartition(n) for n in NUMBERS])]
        ),
        0,
    ),
    "AlterPartitionReassignments": (
        alter_partition_reassignments,
        "ReassignablePartitionResponse",
        AlterPartitionReassignmentsRequest(
            topics=[ReassignableTopic("t", [ReassignablePartition(n, [0]) for n in NUMBERS])]
        ),
        0,
    ),
}


@pytest.mark.parametrize(
    ("module", "row_class", "request_", "version"),
    ONE_TOPIC_WITH_MANY.values(),
    ids=ONE_TOPIC_WITH_MANY.keys(),
)
async def test_the_rows_of_one_topic_are_answered_in_pieces(
    caller: Caller,
    monkeypatch: pytest.MonkeyPatch,
    module: ModuleType,
    row_class: str,
    request_: Message,
    version: int,
) -> None:
    await caller.create("t")
    await caller.ask(
        OffsetCommitRequest(
            "g", topics=[OffsetCommitRequestTopic("t", [OffsetCommitRequestPartition(0, 1)])]
        ),
        2,
    )
    made = most_in_a_turn = 0
    make: Callable[..., Any] = getattr(module, row_class)

    def counted(*args: Any) -> Any:
        nonlocal made
        made += 1
        return make(*args)

    async def watch_turns() -> None:
        nonlocal most_in_a_turn
        before = made
        while True:
            await asyncio.sleep(0)
            most_in_a_turn, before = max(most_in_a_turn, made - before), made

    monkeypatch.setattr(module, row_class, counted)
    watching = asyncio.get_running_loop().create_task(watch_turns())
    await caller.ask(request_, version)
    watching.cancel()
    assert made == MANY
    assert most_in_a_turn < MANY // 10
