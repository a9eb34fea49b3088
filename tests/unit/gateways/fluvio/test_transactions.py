"""Transactions of Kafka clients, as streams see them: what is committed, and nothing else."""

from collections.abc import AsyncIterator

import pytest

from kafscale.testing.in_process import InProcessBroker
from kafscale.wire.fluvio.errors import NO_ERROR
from kafscale.wire.fluvio.messages.fetch_offsets import (
    FetchOffsetsRequest,
    FetchOffsetsResponse,
    PartitionOffsets,
    TopicOffsetsRequest,
)
from kafscale.wire.fluvio.messages.stream_fetch import StreamFetchRequest
from tests.support.fluvio_wire import FluvioConnection
from tests.unit.gateways.fluvio.test_data import FETCH_OFFSETS, StreamOf, V
from tests.unit.gateways.kafka.apis.test_transactions import Producer
from tests.unit.gateways.kafka.caller import Caller

pytestmark = pytest.mark.real_time

UNCOMMITTED, COMMITTED = 0, 1  # what clients ask for; the first one is their default


@pytest.fixture
async def producer(broker: InProcessBroker) -> AsyncIterator[Producer]:
    async with Caller(broker.port) as caller:
        await caller.create("t", partitions=1)
        yield await Producer(caller).begin()


async def transact(producer: Producer, *values: bytes, commits: bool) -> None:
    assert await producer.add(0) == [0]
    for value in values:
        assert await producer.send(value) == 0
    assert (await producer.end(commits=commits)).error_code == 0


async def read_to(
    data: FluvioConnection, end: int, isolation: int, start: int = 0
) -> list[tuple[int, bytes]]:
    """The records of a stream up to an offset."""
    stream = StreamOf(
        data, StreamFetchRequest("t", 0, start, max_bytes=1 << 20, isolation=isolation)
    )
    found: list[tuple[int, bytes]] = []
    following = start
    while following < end:
        records, following, stream_id = await stream.read()
        found += records
        if following < end:
            await stream.give_credit(following, stream_id)
    assert following == end
    return found


@pytest.mark.parametrize("isolation", [UNCOMMITTED, COMMITTED])
async def test_markers_and_aborted_records_reach_no_client(
    data: FluvioConnection, producer: Producer, isolation: int
) -> None:
    await transact(producer, b"aborted first", commits=False)  # offset 0, its marker is 1
    await transact(producer, b"a", b"b", commits=True)  # 2, 3, and 4
    await transact(producer, b"aborted", b"aborted, too", commits=False)  # 5, 6, and 7
    await transact(producer, b"c", commits=True)  # 8 and 9
    await transact(producer, b"aborted last", commits=False)  # 10 and 11
    records = await read_to(data, 12, isolation)
    assert records == [(2, b"a"), (3, b"b"), (8, b"c")]
    assert await read_to(data, 12, isolation, start=6) == [(8, b"c")]


@pytest.mark.parametrize("isolation", [UNCOMMITTED, COMMITTED])
async def test_a_stream_waits_for_the_end_of_a_transaction(
    data: FluvioConnection, producer: Producer, isolation: int
) -> None:
    await transact(producer, b"a", commits=True)
    await producer.add(0)
    assert await producer.send(b"open") == 0
    asked = FetchOffsetsRequest([TopicOffsetsRequest("t", [0])])
    answer = await data.ask(FETCH_OFFSETS, V, asked, FetchOffsetsResponse)
    # A client that reads up to the end would wait without end if this were more than it can read.
    assert answer.topics[0].partitions == [PartitionOffsets(NO_ERROR, 0, 0, 2)]
    stream = StreamOf(data, StreamFetchRequest("t", max_bytes=1 << 20, isolation=isolation))
    records, following, stream_id = await stream.read()
    assert (records, following) == ([(0, b"a")], 2)
    await stream.give_credit(2, stream_id)
    await data.ask(FETCH_OFFSETS, V, asked, FetchOffsetsResponse)
    assert data.has_no_answer(stream.number)
    assert (await producer.end(commits=True)).error_code == 0
    assert (await stream.read())[:2] == ([(2, b"open")], 4)
