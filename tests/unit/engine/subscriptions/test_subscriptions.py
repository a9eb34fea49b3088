"""Subscriptions of one broker: delivering, acknowledging, keeping, and what tools see."""

import asyncio

import pytest
from structlog.testing import capture_logs

from kafscale.engine.coordinator.offsets import OffsetCommit
from kafscale.engine.subscriptions.ports import EARLIEST, LATEST
from kafscale.engine.subscriptions.serving import MOST_REREADS
from kafscale.metadata import keys
from kafscale.model.errors import (
    ConsumerBusy,
    InvalidRequest,
    SubscriptionExists,
    SubscriptionNotFound,
    UnknownTopic,
)
from kafscale.subscriptions.events import Ack, Found, Mode
from kafscale.subscriptions.machine import SubscriptionMachine
from tests.unit.engine.engine_harness import EngineHarness
from tests.unit.engine.subscriptions.consumer import Wholes, attach, named
from tests.unit.gateways.kafka.caller import NOW_MS

ONE_SECOND = 1.1  # of the loop's time: what was acknowledged is saved by then


async def filled(harness: EngineHarness, *counts: int) -> None:
    await harness.engine.topics.create("t", 1, {})
    for count in counts:
        await harness.append("t", *(b"v" for _ in range(count)))


async def committed(harness: EngineHarness, group_id: str = "s") -> int | None:
    found = await harness.engine.offsets.committed(group_id)
    return found["t", 0].offset if ("t", 0) in found else None


async def settle() -> None:
    await asyncio.sleep(0.05)


async def test_a_consumer_gets_what_is_there_and_what_comes(harness: EngineHarness) -> None:
    await filled(harness, 3)
    taker = await attach(harness.engine)
    await settle()
    assert taker.offsets == [0, 1, 2]
    await harness.append("t", b"4")
    await settle()
    assert taker.offsets == [0, 1, 2, 3]


async def test_a_consumer_without_permits_gets_nothing(harness: EngineHarness) -> None:
    await filled(harness, 3)
    taker = await attach(harness.engine, permits=0)
    await settle()
    assert taker.offsets == []
    taker.attached.permit(2)
    await settle()
    assert taker.offsets == [0, 1]


async def test_a_new_subscription_begins_where_its_consumer_says(harness: EngineHarness) -> None:
    await filled(harness, 3)
    at_end = await attach(harness.engine, group_id="end", start=LATEST)
    at_offset = await attach(harness.engine, group_id="offset", start=1)
    by_time = await attach(harness.engine, group_id="time", start_ms=NOW_MS + 2)
    await harness.append("t", b"4")
    await settle()
    assert at_end.offsets == [3]
    assert at_offset.offsets == [1, 2, 3]
    assert by_time.offsets == [2, 3]
    with pytest.raises(SubscriptionNotFound):
        await attach(harness.engine, group_id="none", may_create=False)


async def test_an_exclusive_subscription_has_one_consumer(harness: EngineHarness) -> None:
    await filled(harness, 1)
    first = await attach(harness.engine)
    with pytest.raises(ConsumerBusy):
        await attach(harness.engine)
    with pytest.raises(ConsumerBusy):
        await attach(harness.engine, mode=Mode.SHARED)
    await first.attached.close()
    second = await attach(harness.engine, mode=Mode.SHARED)
    await settle()
    assert second.offsets == [0]


async def test_what_was_acknowledged_a_second_ago_survives_a_crash(harness: EngineHarness) -> None:
    await filled(harness, 6)
    taker = await attach(harness.engine, mode=Mode.SHARED)
    await settle()
    await taker.attached.acknowledge([Ack(0), Ack(1), Ack(3)])
    await asyncio.sleep(ONE_SECOND)
    harness.metadata.refuse_commits = 1_000  # the broker cannot save anything while it stops
    await harness.broker.stop()
    harness.metadata.refuse_commits = 0
    await harness.broker.start()
    again = await attach(harness.engine, mode=Mode.SHARED)
    await settle()
    assert again.offsets == [2, 4, 5]


async def test_its_position_is_the_committed_offset_of_a_group(harness: EngineHarness) -> None:
    await filled(harness, 5)
    taker = await attach(harness.engine)
    assert await committed(harness) == 0
    await settle()
    await taker.attached.acknowledge_up_to(Ack(2))
    await asyncio.sleep(ONE_SECOND)
    assert await committed(harness) == 3
    assert "s" in [group.group_id for group in await harness.engine.groups.list()]


async def test_many_acknowledgements_of_a_second_are_one_write(harness: EngineHarness) -> None:
    await filled(harness, 200)
    takers = [await attach(harness.engine, group_id=f"s{number}") for number in range(20)]
    await settle()
    commits = 0
    real = harness.metadata.inner.commit

    async def counted(writes, guards=()):  # type: ignore[no-untyped-def]
        nonlocal commits
        commits += 1
        return await real(writes, guards)

    harness.metadata.inner.commit = counted  # type: ignore[method-assign]
    for taker in takers:
        for first in range(100):
            await taker.attached.acknowledge([Ack(first)])
    await asyncio.sleep(ONE_SECOND)
    assert commits == 1
    assert await committed(harness, "s19") == 100


async def test_a_tool_that_commits_an_offset_moves_the_subscription(harness: EngineHarness) -> None:
    await filled(harness, 5)
    taker = await attach(harness.engine)
    await settle()
    await harness.engine.offsets.commit("s", [OffsetCommit("t", 0, 4)])
    await taker.attached.acknowledge([Ack(0)])
    await asyncio.sleep(ONE_SECOND)
    assert taker.ends == [None]
    again = await attach(harness.engine)
    await settle()
    assert again.offsets == [4]
    await again.attached.close()
    await harness.engine.offsets.commit("s", [OffsetCommit("t", 0, 2)])
    last = await attach(harness.engine)
    await settle()
    assert last.offsets == [2, 3, 4]


async def test_a_tool_that_deletes_the_group_deletes_the_subscription(
    harness: EngineHarness,
) -> None:
    await filled(harness, 5)
    taker = await attach(harness.engine)
    await settle()
    await harness.engine.groups.delete("s")
    await taker.attached.acknowledge([Ack(0)])
    await asyncio.sleep(ONE_SECOND)
    assert isinstance(taker.ends[0], SubscriptionNotFound)
    with pytest.raises(SubscriptionNotFound):
        await harness.engine.subscriptions.describe(named(harness.engine))


async def test_an_entry_is_acknowledged_by_its_first_offset(harness: EngineHarness) -> None:
    await filled(harness, 4, 3)
    taker = await attach(harness.engine, framing=Wholes())
    await settle()
    assert [(one.first, one.next) for one in taker.deliveries] == [(0, 4), (4, 7)]
    await taker.attached.acknowledge([Ack(4)])
    await taker.attached.acknowledge([Ack(0, [0b0101])])
    await taker.attached.close()
    again = await attach(harness.engine, framing=Wholes())
    await settle()
    assert again.offsets == [0, 2]
    assert [(one.first, one.next) for one in again.deliveries] == [(0, 1), (2, 3)]
    await again.attached.acknowledge([Ack(0), Ack(2)])
    assert again.attached.acknowledged_to == 7


async def test_entries_of_an_earlier_connection_can_be_acknowledged(
    harness: EngineHarness,
) -> None:
    await filled(harness, 4, 3)
    taker = await attach(harness.engine, permits=0, framing=Wholes())
    await taker.attached.acknowledge([Ack(4), Ack(-1), Ack(10**15)])
    await taker.attached.acknowledge_up_to(Ack(1))  # some client's id of the entry before
    assert taker.attached.acknowledged_to == 7


async def test_messages_handed_back_come_again_with_a_count(harness: EngineHarness) -> None:
    await filled(harness, 3)
    taker = await attach(harness.engine, mode=Mode.SHARED)
    await settle()
    taker.attached.redeliver([1])
    await settle()
    assert taker.deliveries[-1][:4] == (1, 2, True, 1)
    taker.attached.redeliver()
    await settle()
    assert sorted(one[3] for one in taker.deliveries[-3:]) == [1, 1, 2]
    with pytest.raises(InvalidRequest):
        await taker.attached.acknowledge_up_to(Ack(0))


async def test_a_seek_disconnects_and_goes_on_from_there(harness: EngineHarness) -> None:
    await filled(harness, 5)
    taker = await attach(harness.engine, mode=Mode.SHARED)
    other = await attach(harness.engine, mode=Mode.SHARED)
    await settle()
    await taker.attached.seek(3)
    assert taker.ends == other.ends == [None]
    assert await committed(harness) == 3
    taker.attached.permit(10)  # a call that comes late does nothing
    again = await attach(harness.engine)
    await settle()
    assert again.offsets == [3, 4]
    await again.attached.seek_time(NOW_MS + 1)
    again = await attach(harness.engine)
    await settle()
    assert again.offsets == [1, 2, 3, 4]
    await again.attached.seek(EARLIEST)
    assert await committed(harness) == 0


async def test_unsubscribing_deletes_everything(harness: EngineHarness) -> None:
    await filled(harness, 2)
    taker = await attach(harness.engine, mode=Mode.SHARED)
    other = await attach(harness.engine, mode=Mode.SHARED)
    with pytest.raises(ConsumerBusy):
        await taker.attached.unsubscribe()
    await taker.attached.unsubscribe(force=True)
    assert isinstance(other.ends[0], SubscriptionNotFound)
    assert await committed(harness) is None
    assert await harness.metadata.find(keys.SUBSCRIPTIONS) == []
    assert len(harness.engine.subscriptions) == 0


async def test_a_subscription_that_is_not_durable_ends_with_its_consumer(
    harness: EngineHarness,
) -> None:
    await filled(harness, 2)
    taker = await attach(harness.engine, is_durable=False)
    await settle()
    await taker.attached.acknowledge([Ack(0)])
    await taker.attached.close()
    assert await harness.metadata.find(keys.SUBSCRIPTIONS) == []
    assert len(harness.engine.subscriptions) == 0
    again = await attach(harness.engine, is_durable=False)
    await settle()
    assert again.offsets == [0, 1]


async def test_what_retention_deletes_is_passed_over(harness: EngineHarness) -> None:
    await filled(harness, 2, 2, 2)
    topic = harness.engine.topics.get("t")
    taker = await attach(harness.engine, permits=0)
    await harness.engine.partitions.delete_records(topic, 0, 3)
    taker.attached.permit(10)
    await settle()
    assert taker.offsets == [3, 4, 5]
    assert taker.attached.acknowledged_to == 3


async def test_what_was_handed_back_and_is_deleted_is_passed_over(harness: EngineHarness) -> None:
    await filled(harness, 2, 2, 2)
    taker = await attach(harness.engine, permits=7, mode=Mode.SHARED)
    await settle()
    await harness.append("t", b"v")
    await settle()
    taker.attached.redeliver()  # it has no permits: all seven wait
    await harness.engine.partitions.delete_records(harness.engine.topics.get("t"), 0, 3)
    taker.attached.permit(10)
    await settle()
    assert taker.offsets == [0, 1, 2, 3, 4, 5, 6, 3, 4, 5, 6]


async def test_a_machine_that_reads_without_end_is_paused_and_logged(
    harness: EngineHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    await filled(harness, 2)
    taker = await attach(harness.engine, permits=0)
    machine = taker.attached._serving.machine
    reads = 0

    def take_nothing(self: SubscriptionMachine, found: Found, now_ms: int) -> None:
        nonlocal reads
        reads += 1

    handlers = {**SubscriptionMachine._handlers, Found: take_nothing}
    monkeypatch.setattr(SubscriptionMachine, "_handlers", handlers)
    with capture_logs() as logged:
        taker.attached.permit(1)
        await settle()
        taker.attached.permit(1)  # an event does not end the pause
        await settle()
    assert machine.next_read(NOW_MS) == 0
    assert reads == MOST_REREADS + 1
    assert [line["event"] for line in logged] == ["subscription_makes_no_progress"]
    monkeypatch.undo()  # the fault is gone, as after an event that helps
    await asyncio.sleep(ONE_SECOND)
    assert taker.offsets == [0, 1]


async def test_a_deleted_topic_ends_its_subscriptions(harness: EngineHarness) -> None:
    await filled(harness, 2)
    taker = await attach(harness.engine)
    await settle()
    await harness.engine.topics.delete("t")
    await settle()
    assert isinstance(taker.ends[0], UnknownTopic)
    await filled(harness, 1)
    again = await attach(harness.engine)
    await settle()
    assert again.offsets == [0]


async def test_a_store_that_is_away_loses_no_acknowledgement(harness: EngineHarness) -> None:
    await filled(harness, 4)
    taker = await attach(harness.engine)
    await settle()
    harness.metadata.refuse_commits = 2
    await taker.attached.acknowledge_up_to(Ack(1))
    await asyncio.sleep(2 * ONE_SECOND)
    assert await committed(harness) == 0
    await asyncio.sleep(2 * ONE_SECOND)
    assert await committed(harness) == 2
    harness.metadata.lose_answers = 1
    await taker.attached.acknowledge_up_to(Ack(2))
    await asyncio.sleep(3 * ONE_SECOND)
    assert taker.ends == []
    assert await committed(harness) == 3


async def test_subscriptions_do_not_expire(harness: EngineHarness) -> None:
    await filled(harness, 4)
    taker = await attach(harness.engine)
    await taker.attached.close()
    harness.clock.advance_ms(400 * 24 * 3600 * 1000)
    await harness.parts.expiry.expire()
    assert await committed(harness) == 0
    await harness.engine.subscriptions.delete(named(harness.engine))
    assert await committed(harness) is None


async def test_tools_create_list_describe_skip_and_reset(harness: EngineHarness) -> None:
    await filled(harness, 5)
    subscriptions, name = harness.engine.subscriptions, named(harness.engine, "a/b")
    await subscriptions.create(name, EARLIEST, {"why": "test"})
    with pytest.raises(SubscriptionExists):
        await subscriptions.create(name, EARLIEST, {})
    assert await subscriptions.list(harness.engine.topics.get("t")) == [("a/b", 0)]
    described = await subscriptions.describe(name)
    assert (described.backlog, described.properties, described.census) == (5, {"why": "test"}, None)
    await subscriptions.skip(name, 2)
    assert (await subscriptions.describe(name)).backlog == 3
    await subscriptions.reset(name, LATEST)
    assert (await subscriptions.describe(name)).backlog == 0
    await subscriptions.reset(name, LATEST, at_ms=NOW_MS + 1)
    taker = await attach(harness.engine, group_id="a/b", mode=Mode.SHARED)
    await settle()
    await taker.attached.acknowledge([Ack(2)])
    described = await subscriptions.describe(name)
    assert described.backlog == 3
    assert described.census is not None
    assert described.census.consumers[0].unacked == 3
    with pytest.raises(ConsumerBusy):
        await subscriptions.delete(name)
    await subscriptions.delete(name, force=True)
    with pytest.raises(SubscriptionNotFound):
        await subscriptions.describe(name)
