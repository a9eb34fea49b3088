from typing import Any

from kafscale.testing.in_process import InProcessBroker
from kafscale.wire.kafka.errors import ErrorCode
from kafscale.wire.kafka.messages.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    TopicRequest,
)
from tests.unit.gateways.kafka.caller import Caller


async def ask(
    caller: Caller, *names: str, limit: int = 2000, cursor: Cursor | None = None
) -> tuple[list[tuple[str, list[int]]], Cursor | None, Any]:
    topics = [TopicRequest(name) for name in names]
    answer = await caller.ask(DescribeTopicPartitionsRequest(topics, limit, cursor), 0)
    rows = [
        (row.name, [partition.partition_index for partition in row.partitions])
        for row in answer.topics
    ]
    return rows, answer.next_cursor, answer


async def test_all_topics_are_described_in_the_order_of_their_names(
    broker: InProcessBroker, caller: Caller
) -> None:
    await caller.create("b", 2)
    await caller.create("a", 1)
    rows, cursor, answer = await ask(caller)
    assert (rows, cursor) == ([("a", [0]), ("b", [0, 1])], None)
    here = broker.engine.identity.broker_id
    for topic in answer.topics:
        assert topic.error_code == 0
        assert topic.topic_id == broker.engine.topics.get(topic.name).topic_id
        assert not topic.is_internal
        assert topic.topic_authorized_operations > 0
        for row in topic.partitions:
            assert (row.error_code, row.leader_id) == (0, here)
            assert (row.replica_nodes, row.isr_nodes) == ([here], [here])
            assert (row.eligible_leader_replicas, row.last_known_elr) == ([], [])


async def test_a_page_ends_where_the_next_one_begins(caller: Caller) -> None:
    for name, partitions in (("a", 3), ("b", 1), ("c", 2)):
        await caller.create(name, partitions)
    pages = []
    cursor: Cursor | None = None
    for _ in range(10):
        rows, cursor, _ = await ask(caller, limit=2, cursor=cursor)
        pages.append(rows)
        if cursor is None:
            break
    assert pages == [[("a", [0, 1])], [("a", [2]), ("b", [0])], [("c", [0, 1])]]


async def test_a_page_has_at_least_one_partition_and_not_more_than_2000(caller: Caller) -> None:
    await caller.create("a", 2)
    assert (await ask(caller, limit=-5))[:2] == ([("a", [0])], Cursor("a", 1))
    for number in range(3):
        await caller.create(f"large-{number}", 1000)
    rows, cursor, _ = await ask(caller, limit=1_000_000)
    assert sum(len(numbers) for _, numbers in rows) == 2000
    assert cursor == Cursor("large-1", 998)


async def test_a_topic_that_is_not_there_is_unknown_and_not_created(
    broker: InProcessBroker, caller: Caller
) -> None:
    await caller.create("t")
    _, _, answer = await ask(caller, "t", "missing", "no name", "t")
    assert [(row.name, row.error_code) for row in answer.topics] == [
        ("missing", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ("no name", ErrorCode.INVALID_TOPIC_EXCEPTION),
        ("t", 0),
    ]
    assert [topic.name for topic in broker.engine.topics.all()] == ["t"]


async def test_a_cursor_that_cannot_be_is_an_invalid_request(caller: Caller) -> None:
    await caller.create("t")
    _, _, answer = await ask(caller, "t", cursor=Cursor("t", -1))
    assert [row.error_code for row in answer.topics] == [ErrorCode.INVALID_REQUEST]
    rows, cursor, _ = await ask(caller, "t", cursor=Cursor("t", 7))
    assert (rows, cursor) == ([("t", [])], None)
