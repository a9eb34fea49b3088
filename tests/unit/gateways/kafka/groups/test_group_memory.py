"""What waits for a rebalance is on an account of its own, and costs producers nothing."""

import asyncio
import contextlib
from collections.abc import Callable

from kafscale.settings.config import Config
from kafscale.settings.sections import ConsumerSection, NetworkSection
from kafscale.settings.values import PositiveSize
from kafscale.testing.in_process import FOR_TESTS, InProcessBroker
from kafscale.wire.kafka.errors import ErrorCode
from kafscale.wire.kafka.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from kafscale.wire.kafka.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from tests.unit.gateways.kafka.caller import Caller, make_batch, produce_request, values_of
from tests.unit.gateways.kafka.settings import changed

MI = 1 << 20
LARGE = MI - 100  # a member may have a mebibyte, names included


def waiting_config(**network: PositiveSize) -> Config:
    """The first members of a group wait ten minutes for others."""
    section = ConsumerSection(
        initial_rebalance_delay_ms=600_000, max_member_bytes=PositiveSize(32 * MI)
    )
    return changed(FOR_TESTS, network=NetworkSection(**network), consumer=section)


def join_request(group: str, size: int, member_id: str = "") -> JoinGroupRequest:
    return JoinGroupRequest(
        group,
        session_timeout_ms=10_000,
        rebalance_timeout_ms=600_000,
        member_id=member_id,
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol("range", bytes(size))],
    )


async def wait_until(is_true: Callable[[], bool]) -> None:
    async with asyncio.timeout(20):
        while not is_true():
            await asyncio.sleep(0.01)


async def test_joins_that_wait_leave_the_memory_in_flight_to_producers() -> None:
    config = waiting_config(max_in_flight_bytes=PositiveSize(4 * MI))
    async with (
        InProcessBroker(config=config) as broker,
        Caller(broker.port) as producer,
        contextlib.AsyncExitStack() as stack,
    ):
        await producer.create("t")
        for number in range(12):
            waiting = await stack.enter_async_context(Caller(broker.port))
            waiting.send(join_request(f"g{number}", LARGE), 1)
        await wait_until(lambda: broker.engine.groups.memory.held_bytes == 12 * LARGE)
        assert broker.connections.held_bytes < 100_000
        produced = await producer.produce("t", make_batch(bytes(200_000)))
        assert produced.error_code == 0


async def test_a_sync_that_waits_for_the_leader_holds_nothing() -> None:
    config = changed(FOR_TESTS, consumer=ConsumerSection(initial_rebalance_delay_ms=100))
    async with (
        InProcessBroker(config=config) as broker,
        Caller(broker.port) as leader,
        Caller(broker.port) as follower,
    ):
        leader.send(join_request("g", 10), 1)
        follower.send(join_request("g", 10), 1)
        joined = [(await leader.answer(), leader), (await follower.answer(), follower)]
        answer, caller = next(pair for pair in joined if pair[0].member_id != pair[0].leader)
        rows = [SyncGroupRequestAssignment(f"m{number}", bytes(LARGE)) for number in range(4)]
        caller.send(SyncGroupRequest("g", 1, answer.member_id, assignments=rows), 3)
        (member,) = [
            member
            for member in (await broker.engine.groups.describe("g")).roster.by_id.values()  # type: ignore[union-attr]
            if member.member_id == answer.member_id
        ]
        await wait_until(lambda: member.is_waiting)
        assert broker.connections.held_bytes < 10_000
        assert broker.engine.groups.memory.held_bytes == 20


async def test_answers_that_wait_behind_a_join_hold_no_memory_in_flight() -> None:
    async with (
        InProcessBroker(config=waiting_config()) as broker,
        Caller(broker.port) as caller,
        Caller(broker.port) as pipelining,
    ):
        await caller.create("t")
        pipelining.send(join_request("g", 10), 1)
        pipelining.send(produce_request("t", make_batch(bytes(500_000))), 9)
        async with asyncio.timeout(20):
            while not values_of(await caller.fetch("t")):
                await asyncio.sleep(0.01)
        assert broker.connections.held_bytes < 10_000


async def test_members_with_much_metadata_leave_room_for_ordinary_ones() -> None:
    config = waiting_config()
    async with (
        InProcessBroker(config=config) as broker,
        Caller(broker.port) as late,
        contextlib.AsyncExitStack() as stack,
    ):
        for number in range(16):
            waiting = await stack.enter_async_context(Caller(broker.port))
            waiting.send(join_request(f"g{number}", LARGE), 1)
        memory = broker.engine.groups.memory
        await wait_until(lambda: memory.held_bytes == 16 * LARGE)
        refused = await late.ask(join_request("another", LARGE), 1)
        assert refused.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
        assert memory.held_bytes == 16 * LARGE
        late.send(join_request("ordinary", 1000), 1)
        await wait_until(lambda: memory.held_bytes == 16 * LARGE + 1000)


async def test_the_account_is_free_again_when_members_have_gone() -> None:
    async with InProcessBroker(config=FOR_TESTS) as broker, Caller(broker.port) as caller:
        memory = broker.engine.groups.memory
        joined = await caller.ask(join_request("g", LARGE), 1)
        assert memory.held_bytes == LARGE
        share = [SyncGroupRequestAssignment(joined.member_id, bytes(5000))]
        await caller.ask(SyncGroupRequest("g", 1, joined.member_id, assignments=share), 3)
        assert memory.held_bytes == LARGE + 5000
        again = await caller.ask(join_request("g", 100, joined.member_id), 1)
        assert again.error_code == 0
        assert memory.held_bytes == 100
        broker.engine.groups.drop()
        assert memory.held_bytes == 0
