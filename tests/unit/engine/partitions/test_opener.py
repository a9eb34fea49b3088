"""Logs are opened before anybody asks, and cost little until somebody does."""

import asyncio

import pytest

from kafscale.engine.partitions.opener import OwnedLogs
from kafscale.engine.partitions.priority_gate import Turns
from kafscale.testing.faulty_store import Fault, Rule
from tests.unit.engine.engine_harness import Shop
from tests.unit.gateways.kafka.caller import NOW_MS

HOUR_MS = 3_600_000


def opener(shop: Shop) -> OwnedLogs:
    return OwnedLogs(shop.engine.topics, shop.engine.logs, shop.engine.fleet)


async def test_all_logs_are_opened(shop: Shop) -> None:
    await shop.engine.create_topic("t", 5, {})
    await shop.engine.create_topic("u", 2, {})
    assert await opener(shop).open_all()
    assert shop.engine.logs.count() == 7


async def test_what_a_client_asks_for_is_opened_before_the_rest(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    await shop.engine.create_topic("t", 5, {})
    logs = shop.engine.logs
    monkeypatch.setattr(logs, "_turns", Turns(1))
    monkeypatch.setattr(type(shop.engine.fleet), "has_peers", True)  # many at once
    stall = shop.plan.add(Rule(Fault.STALL_BEFORE, "find", "*/t/0", times=1))
    passing = asyncio.ensure_future(opener(shop).open_all())
    await stall.reached.wait()
    asked = asyncio.ensure_future(logs.open(shop.engine.topics.get("t"), 3))
    await asyncio.sleep(0)
    before = len(shop.store.calls)
    stall.release()
    await asyncio.gather(passing, asked)
    order = [key[-1] for verb, key in shop.store.calls[before:] if verb == "find"]
    assert order == ["3", "1", "2", "4"]


async def test_what_the_store_does_not_give_is_tried_again(shop: Shop) -> None:
    await shop.engine.create_topic("t", 3, {})
    shop.plan.add(Rule(Fault.FAIL_BEFORE, "find", "*/t/1", times=1))
    assert not await opener(shop).open_all()
    assert shop.engine.logs.count() == 2
    assert await opener(shop).open_all()
    assert shop.engine.logs.count() == 3


async def test_retention_reaches_logs_nobody_uses(shop: Shop) -> None:
    await shop.engine.create_topic("t", 1, {"retention.ms": "1000"})
    await shop.append("t", b"old")
    await shop.reopen()
    shop.clock.advance_ms(HOUR_MS)
    await opener(shop).open_all()
    await shop.engine.housekeeping.tidy()
    found = shop.engine.logs.peek(shop.engine.topics.get("t"), 0)
    assert found is not None
    assert (found[1].start, found[1].high) == (1, 1)


async def test_logs_nobody_uses_are_visited_rarely(shop: Shop) -> None:
    await shop.engine.create_topic("t", 1, {})
    await opener(shop).open_all()
    topic = shop.engine.topics.get("t")

    async def visits(passes: int) -> int:
        before = len(shop.store.calls)
        for _ in range(passes):
            shop.clock.advance_ms(30_000)
            await shop.engine.housekeeping.tidy()
        calls = shop.store.calls[before:]
        return sum(call == ("find", topic.folder(0)) for call in calls)

    assert await visits(20) <= 4  # one visit may ask for more than one thing
    await shop.append("t", b"x", timestamp_ms=NOW_MS)
    assert await visits(20) >= 20
