"""Logs are opened before a client asks, and cost little until one does."""

import asyncio

import pytest

from kafscale.engine.partitions.opener import Opener
from kafscale.engine.partitions.priority_gate import PriorityGate
from kafscale.testing.faulty_store import Fault, Rule
from tests.unit.engine.engine_harness import EngineHarness
from tests.unit.gateways.kafka.caller import NOW_MS

HOUR_MS = 3_600_000


def opener(harness: EngineHarness) -> Opener:
    return Opener(harness.engine.topics._registry, harness.parts.logs, harness.engine.cluster)


async def test_all_logs_are_opened(harness: EngineHarness) -> None:
    await harness.engine.topics.create("t", 5, {})
    await harness.engine.topics.create("u", 2, {})
    assert await opener(harness).open_all()
    assert harness.parts.logs.count() == 7


async def test_what_a_client_asks_for_is_opened_before_the_rest(
    harness: EngineHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    await harness.engine.topics.create("t", 5, {})
    logs = harness.parts.logs
    monkeypatch.setattr(logs, "_gate", PriorityGate(1))
    monkeypatch.setattr(type(harness.engine.cluster), "has_peers", True)  # many at once
    stall = harness.plan.add(Rule(Fault.STALL_BEFORE, "find", "*/t/0", times=1))
    passing = asyncio.ensure_future(opener(harness).open_all())
    await stall.reached.wait()
    asked = asyncio.ensure_future(logs.open(harness.engine.topics.get("t"), 3))
    await asyncio.sleep(0)
    before = len(harness.store.calls)
    stall.release()
    await asyncio.gather(passing, asked)
    order = [key[-1] for verb, key in harness.store.calls[before:] if verb == "find"]
    assert order == ["3", "1", "2", "4"]


async def test_what_the_store_does_not_give_is_tried_again(harness: EngineHarness) -> None:
    await harness.engine.topics.create("t", 3, {})
    harness.plan.add(Rule(Fault.FAIL_BEFORE, "find", "*/t/1", times=1))
    assert not await opener(harness).open_all()
    assert harness.parts.logs.count() == 2
    assert await opener(harness).open_all()
    assert harness.parts.logs.count() == 3


async def test_retention_reaches_logs_that_no_client_uses(harness: EngineHarness) -> None:
    await harness.engine.topics.create("t", 1, {"retention.ms": "1000"})
    await harness.append("t", b"old")
    await harness.reopen()
    harness.clock.advance_ms(HOUR_MS)
    await opener(harness).open_all()
    await harness.parts.log_upkeep.tidy()
    found = harness.parts.logs.resolve(harness.engine.topics.get("t"), 0)
    assert found is not None
    assert (found[1].start, found[1].high) == (1, 1)


async def test_an_idle_log_is_not_asked_for_whether_a_client_uses_it_or_not(
    harness: EngineHarness,
) -> None:
    await harness.engine.topics.create("t", 1, {})
    await opener(harness).open_all()
    topic = harness.engine.topics.get("t")

    async def visits(passes: int) -> int:
        before = len(harness.store.calls)
        for _ in range(passes):
            harness.clock.advance_ms(30_000)
            await harness.parts.log_upkeep.tidy()
        calls = harness.store.calls[before:]
        return sum(call == ("find", topic.folder(0)) for call in calls)

    assert await visits(20) == 0
    await harness.append("t", b"x", timestamp_ms=NOW_MS)
    assert await visits(20) == 0
