import asyncio

import pytest

from kafscale.testing.in_process import InProcessBroker
from kafscale.wire.kafka.errors import ErrorCode
from kafscale.wire.kafka.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from kafscale.wire.kafka.schema import NO_UUID
from tests.unit.gateways.kafka.caller import Caller, fetch_request, make_batch, values_of

UNKNOWN = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


@pytest.mark.parametrize("version", range(7))
async def test_every_version_deletes_by_name(
    broker: InProcessBroker, caller: Caller, version: int
) -> None:
    await caller.create("a")
    await caller.create("b")
    request = DeleteTopicsRequest(
        topics=[DeleteTopicState("a"), DeleteTopicState("missing")],
        topic_names=["a", "missing"],
    )
    answer = await caller.ask(request, version)
    assert [(row.name, row.error_code) for row in answer.responses] == [
        ("a", 0),
        ("missing", UNKNOWN),
    ]
    assert [topic.name for topic in broker.engine.topics.all()] == ["b"]


async def test_a_topic_is_deleted_by_id(broker: InProcessBroker, caller: Caller) -> None:
    made = await caller.create("t")
    states = [DeleteTopicState(None, made.topic_id), DeleteTopicState(None, b"\1" * 16)]
    answer = await caller.ask(DeleteTopicsRequest(topics=states), 6)
    assert [(row.name, row.error_code) for row in answer.responses] == [
        ("t", 0),
        (None, ErrorCode.UNKNOWN_TOPIC_ID),
    ]
    assert broker.engine.topics.all() == []


@pytest.mark.parametrize(
    "state", [DeleteTopicState(None, NO_UUID), DeleteTopicState("t", b"\1" * 16)]
)
async def test_a_topic_is_named_by_name_or_id_not_by_both_or_neither(
    caller: Caller, state: DeleteTopicState
) -> None:
    await caller.create("t")
    answer = await caller.ask(DeleteTopicsRequest(topics=[state]), 6)
    assert answer.responses[0].error_code == ErrorCode.INVALID_REQUEST


async def test_a_topic_created_again_sees_nothing_of_its_predecessor(caller: Caller) -> None:
    first = await caller.create("t")
    await caller.produce("t", make_batch(b"old"))
    assert await caller.delete("t") == 0
    assert (await caller.produce("t", make_batch(b"lost"))).error_code == UNKNOWN
    assert (await caller.fetch("t")).error_code == UNKNOWN
    second = await caller.create("t")
    assert second.topic_id not in (first.topic_id, NO_UUID)
    assert (await caller.offset("t", -1)).offset == 0
    assert (await caller.produce("t", make_batch(b"new"))).base_offset == 0
    assert values_of(await caller.fetch("t")) == [b"new"]


async def test_r4_the_old_id_of_a_topic_created_again_is_unknown(caller: Caller) -> None:
    first = await caller.create("t")
    await caller.delete("t")
    second = await caller.create("t")
    old = await caller.fetch(first.topic_id, version=13)
    assert old.error_code == ErrorCode.UNKNOWN_TOPIC_ID
    assert (await caller.fetch(second.topic_id, version=13)).error_code == 0


async def test_after_a_restart_the_new_topic_is_still_the_new_one(
    broker: InProcessBroker, caller: Caller
) -> None:
    await caller.create("t")
    await caller.produce("t", make_batch(b"old"))
    await caller.delete("t")
    made = await caller.create("t", 2)
    await caller.produce("t", make_batch(b"new"), partition=1)
    await broker.restart()
    async with Caller(broker.port) as later:
        assert values_of(await later.fetch("t", partition=1)) == [b"new"]
        assert (await later.offset("t", -1)).offset == 0
        assert broker.engine.topics.get("t").topic_id == made.topic_id


async def test_a_fetch_that_waits_is_answered_when_its_topic_is_deleted(
    broker: InProcessBroker, caller: Caller
) -> None:
    await caller.create("t")
    await caller.produce("t", make_batch(b"old"))
    async with Caller(broker.port) as waiting:
        waiting.send(fetch_request([("t", 0, 1)], max_wait_ms=30_000), 12)
        while not any(
            lane.watchers
            for _, log in broker.engine._parts.logs.each()
            for lane in log.lanes.values()
        ):
            await asyncio.sleep(0.01)
        await caller.delete("t")
        (row,) = (await waiting.answer()).responses[0].partitions
        assert row.error_code == UNKNOWN
    assert list(broker.engine._parts.logs.each()) == [], "its log did not come back"
