"""When a producer is answered: after the commit, unless its topic says otherwise."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from msgspec.structs import replace

from kafscale.gateways.fluvio.listener_names import DATA_LISTENER
from kafscale.objects.memory import MemoryObjectStore
from kafscale.settings.config import Config
from kafscale.testing.faulty_store import Fault, FaultPlan, FaultyObjectStore, Rule
from kafscale.testing.in_process import InProcessBroker
from kafscale.wire.fluvio.errors import NO_ERROR, FluvioCode, FluvioError
from kafscale.wire.fluvio.messages.fetch_offsets import (
    FetchOffsetsRequest,
    FetchOffsetsResponse,
    PartitionOffsets,
    TopicOffsetsRequest,
)
from kafscale.wire.fluvio.messages.produce import ProduceResponse
from kafscale.wire.fluvio.messages.stream_fetch import UpdateOffsetsRequest, UpdateOffsetsResponse
from tests.support.fluvio_records import write_batch
from tests.support.fluvio_wire import FluvioConnection
from tests.unit.gateways.fluvio.conftest import WITH_FLUVIO
from tests.unit.gateways.fluvio.test_data import (
    CREDIT,
    FETCH_OFFSETS,
    PRODUCE,
    V,
    produce,
    produce_request,
    stored,
    values,
)

pytestmark = pytest.mark.real_time

UNCOMMITTED, COMMITTED = 1, -1  # as Produce writes them


class Stalled:
    """A broker whose store can be told to wait before it keeps records."""

    def __init__(self, broker: InProcessBroker, plan: FaultPlan) -> None:
        self.broker, self._plan = broker, plan

    def stall(self) -> Rule:
        return self._plan.add(Rule(Fault.STALL_BEFORE, "put_new", "*/segment-*"))

    async def connect(self) -> FluvioConnection:
        return await FluvioConnection.open(self.broker.endpoints[DATA_LISTENER])


@asynccontextmanager
async def stalled(config: Config = WITH_FLUVIO) -> AsyncIterator[Stalled]:
    plan = FaultPlan()
    store = FaultyObjectStore(MemoryObjectStore(), plan)
    async with InProcessBroker(store=store, config=config) as broker:
        yield Stalled(broker, plan)


async def is_waiting(data: FluvioConnection, number: int) -> bool:
    """Whether a request has no answer though one that came after it has."""
    await data.ask(CREDIT, 0, UpdateOffsetsRequest(), UpdateOffsetsResponse)
    return data.has_no_answer(number)


async def end_of(data: FluvioConnection) -> PartitionOffsets:
    asked = FetchOffsetsRequest([TopicOffsetsRequest("t", [0])])
    answer = await data.ask(FETCH_OFFSETS, V, asked, FetchOffsetsResponse)
    return answer.topics[0].partitions[0]


@pytest.mark.parametrize("isolation", [UNCOMMITTED, COMMITTED])
async def test_both_isolations_are_answered_after_the_commit(isolation: int) -> None:
    async with stalled() as bench, await bench.connect() as data, await bench.connect() as other:
        await bench.broker.engine.topics.create("t", 1, {})
        stall = bench.stall()
        number = data.send(
            PRODUCE, V, produce_request(write_batch(values("a")), isolation=isolation)
        )
        await stall.reached.wait()
        assert await is_waiting(data, number)
        assert await end_of(other) == PartitionOffsets(NO_ERROR, 0, 0, 0)
        stall.release()
        answer = await data.next(number, ProduceResponse, V)
        assert answer.topics[0].partitions[0].error == NO_ERROR
        assert await end_of(other) == PartitionOffsets(NO_ERROR, 0, 0, 1)


async def test_a_topic_may_have_uncommitted_records_answered_from_memory() -> None:
    async with stalled() as bench, await bench.connect() as data:
        await bench.broker.engine.topics.create("t", 1, {"kafscale.acks1": "buffered"})
        stall = bench.stall()
        for offset in range(2):
            (row,) = await produce(data, produce_request(write_batch(values("a"))))
            assert (row.error, row.base_offset) == (NO_ERROR, offset)
        committed = produce_request(write_batch(values("b")), isolation=COMMITTED)
        number = data.send(PRODUCE, V, committed)
        await stall.reached.wait()
        assert await is_waiting(data, number)
        stall.release()
        answer = await data.next(number, ProduceResponse, V)
        assert answer.topics[0].partitions[0].base_offset == 2
        assert [one.value for one in await stored(bench.broker)] == [b"a", b"a", b"b"]


async def test_a_store_that_does_not_answer_leaves_the_outcome_open() -> None:
    hasty = replace(WITH_FLUVIO, network=replace(WITH_FLUVIO.network, request_timeout=0.05))
    async with stalled(hasty) as bench, await bench.connect() as data:
        await bench.broker.engine.topics.create("t", 1, {})
        stall = bench.stall()
        (row,) = await produce(data, produce_request(write_batch(values("a"))))
        assert row.error == FluvioError(FluvioCode.REQUEST_TIMED_OUT, (50, PRODUCE))
        assert row.base_offset == -1
        stall.release()
        while (await end_of(data)).last_stable_offset == 0:  # what timed out is not taken back
            await asyncio.sleep(0.01)
        assert [one.value for one in await stored(bench.broker)] == [b"a"]
