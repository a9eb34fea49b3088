"""A sick store costs producers a retriable refusal, never the broker's life."""

import asyncio

import pytest

from kafscale.model.errors import StoreRefused
from kafscale.objects.health import Health
from kafscale.testing.faulty_store import Fault, Rule
from kafscale.wire.kafka.errors import ErrorCode
from tests.unit.engine.engine_harness import EngineHarness
from tests.unit.gateways.kafka.caller import Caller, make_batch, values_of

pytestmark = pytest.mark.real_time


async def make_sick(harness: EngineHarness) -> None:
    """Let the writes of several topics fail until the broker has noticed."""
    others = [f"more-{number}" for number in range(4)]
    for name in others:
        await harness.engine.topics.create(name, 1, {})
        await harness.append(name, b"open")
    harness.clock.advance_ms(61_000)  # past good days do not count
    harness.plan.add(Rule(Fault.FAIL_BEFORE, "put_new", "*/segment-*"))
    async with Caller(harness.broker.port) as caller:
        row = await caller.produce("t", make_batch(b"waits"), timeout_ms=1)
        assert row.error_code == ErrorCode.REQUEST_TIMED_OUT
        for name in others:
            # Refused already if the retries of the first ones were quick.
            await caller.produce(name, make_batch(b"waits"), timeout_ms=1)
    async with asyncio.timeout(60):
        while harness.parts.store_gate.state() is not Health.UNAVAILABLE:
            await asyncio.sleep(0.01)


async def test_produce_is_refused_with_19_while_the_store_is_sick_and_reads_go_on(
    harness: EngineHarness,
) -> None:
    await harness.engine.topics.create("t", 1, {})
    await harness.append("t", b"readable")
    await make_sick(harness)
    async with Caller(harness.broker.port) as caller:
        row = await caller.produce("t", make_batch(b"refused"))
        assert row.error_code == ErrorCode.NOT_ENOUGH_REPLICAS
        assert values_of(await caller.fetch("t")) == [b"readable"]


async def test_the_broker_recovers_without_a_restart_and_loses_nothing_that_waited(
    harness: EngineHarness,
) -> None:
    await harness.engine.topics.create("t", 1, {})
    await harness.append("t", b"before")
    await make_sick(harness)
    harness.plan.clear()
    async with Caller(harness.broker.port) as caller:
        async with asyncio.timeout(20):
            while (await caller.offset("t", -1)).offset < 2:
                await asyncio.sleep(0.05)
        harness.clock.advance_ms(61_000)
        assert harness.parts.store_gate.state() is Health.HEALTHY
        assert (await caller.produce("t", make_batch(b"after"))).error_code == 0
        assert values_of(await caller.fetch("t")) == [b"before", b"waits", b"after"]


async def test_a_store_that_does_not_answer_is_7_and_the_outcome_shows_later(
    harness: EngineHarness,
) -> None:
    await harness.engine.topics.create("t", 1, {})
    stall = harness.plan.add(Rule(Fault.STALL_AFTER, "put_new", "*/segment-*"))
    async with Caller(harness.broker.port) as caller:
        row = await caller.produce("t", make_batch(b"unknown"), timeout_ms=30)
        assert row.error_code == ErrorCode.REQUEST_TIMED_OUT
        assert (await caller.offset("t", -1)).offset == 0
        stall.release()
        async with asyncio.timeout(20):
            while not values_of(await caller.fetch("t")):
                await asyncio.sleep(0.01)


async def test_a_definite_no_of_the_store_is_waited_out_as_well(harness: EngineHarness) -> None:
    await harness.engine.topics.create("t", 1, {})
    harness.plan.add(Rule(Fault.FAIL_BEFORE, "put_new", "*/segment-*", times=1, error=StoreRefused))
    assert await harness.append("t", b"a") == 0
