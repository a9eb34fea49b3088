"""Clients over their quota are answered, told to wait, and made to wait."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from kafscale.access.quotas import QuotaKey, entity_of
from kafscale.testing.in_process import InProcessBroker
from kafscale.wire.kafka.errors import ErrorCode
from kafscale.wire.kafka.messages.api_versions import ApiVersionsRequest
from kafscale.wire.kafka.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from kafscale.wire.kafka.messages.create_topics import CreatableTopic, CreateTopicsRequest
from kafscale.wire.kafka.messages.delete_topics import DeleteTopicsRequest
from kafscale.wire.kafka.messages.metadata import MetadataRequest, MetadataRequestTopic
from tests.support.exposition import parse, series
from tests.unit.gateways.kafka.caller import Caller, fetch_request, make_batch, produce_request

pytestmark = pytest.mark.real_time

ANYONE = entity_of([("client-id", None)])
BATCH = make_batch(b"x" * 1000)


@pytest.fixture
async def broker() -> AsyncIterator[InProcessBroker]:
    async with InProcessBroker() as started:
        yield started


async def limit(broker: InProcessBroker, key: QuotaKey, value: float) -> None:
    await broker.engine.quotas.alter(ANYONE, {key: value})


def throttled(broker: InProcessBroker, quota: str) -> float:
    return parse(broker.metrics()).get(series("kafscale_throttled_total", quota=quota), 0)


async def is_silent(caller: Caller) -> bool:
    """Whether no answer is there after all that the broker can do at once has been done."""
    for _ in range(20):
        await asyncio.sleep(0)
    return not caller.reader._buffer  # type: ignore[attr-defined]


async def test_a_producer_over_its_quota_is_answered_then_not_read_from(
    broker: InProcessBroker, caller: Caller
) -> None:
    await caller.create("t")
    await limit(broker, QuotaKey.PRODUCED_BYTES, 50.0)
    first = await caller.ask(produce_request("t", BATCH), 9)
    row = first.responses[0].partition_responses[0]
    assert (row.error_code, row.base_offset) == (0, 0), "what it sent is stored"
    size = 1000 + 100
    assert 1000 * (size / 50 - 10) < first.throttle_time_ms < 1000 * (size / 50 - 9)
    (connection,) = broker.connections._open
    assert connection.is_muted
    caller.send(ApiVersionsRequest(), 0)
    assert await is_silent(caller)
    connection._muted_until_s = 0.0
    connection._unmute()
    assert (await caller.answer()).error_code == 0
    assert throttled(broker, "producer_byte_rate") == 1


async def test_requests_sent_before_the_answer_wait_too(
    broker: InProcessBroker, caller: Caller
) -> None:
    await caller.create("t")
    await limit(broker, QuotaKey.PRODUCED_BYTES, 50.0)
    for _ in range(3):
        caller.send(produce_request("t", BATCH), 9)
    await caller.answer()
    assert await is_silent(caller)
    assert (await _ask_beside(broker, ApiVersionsRequest(), 0)).error_code == 0
    assert throttled(broker, "producer_byte_rate") == 1, "the others have not begun"


async def _ask_beside(broker: InProcessBroker, request: object, version: int) -> object:
    async with Caller(broker.port) as other:
        return await other.ask(request, version)  # type: ignore[arg-type]


async def test_without_an_answer_the_producer_waits_all_the_same(
    broker: InProcessBroker, caller: Caller
) -> None:
    await caller.create("t")
    await limit(broker, QuotaKey.PRODUCED_BYTES, 50.0)
    caller.send(produce_request("t", BATCH, acks=0), 9)
    caller._sent.pop()
    async with asyncio.timeout(10):
        while not any(one.is_muted for one in broker.connections._open):
            await asyncio.sleep(0.001)


async def test_what_a_producer_sent_before_it_left_is_stored_although_it_is_muted(
    broker: InProcessBroker, caller: Caller
) -> None:
    await caller.create("t")
    await limit(broker, QuotaKey.PRODUCED_BYTES, 50.0)
    async with Caller(broker.port) as leaving:
        for _ in range(3):
            leaving.send(produce_request("t", BATCH, acks=0), 9)
        await leaving.writer.drain()
        async with asyncio.timeout(10):
            while not any(one.is_muted for one in broker.connections._open):
                await asyncio.sleep(0.001)
        for connection in list(broker.connections._open):
            if connection.is_muted:
                connection._transport.abort()  # type: ignore[union-attr]
    await broker.engine.quotas.alter(ANYONE, {QuotaKey.PRODUCED_BYTES: None})
    async with asyncio.timeout(10):
        while (await caller.fetch("t", max_wait_ms=0, min_bytes=0)).high_watermark < 3:
            await asyncio.sleep(0.01)


async def test_a_consumer_gets_what_is_left_of_its_quota_and_is_told_to_wait(
    broker: InProcessBroker, caller: Caller
) -> None:
    await caller.create("t")
    for _ in range(20):
        await caller.produce("t", BATCH)
    await limit(broker, QuotaKey.CONSUMED_BYTES, 300.0)
    answer = await caller.ask(fetch_request([("t", 0, 0)]), 12)
    size = len(answer.responses[0].partitions[0].records)
    assert len(BATCH) <= size <= 3000
    assert answer.throttle_time_ms == 0
    answer = await caller.ask(fetch_request([("t", 0, 2)]), 12)
    assert len(answer.responses[0].partitions[0].records) == len(BATCH), "one batch, always"
    assert answer.throttle_time_ms > 0
    assert throttled(broker, "consumer_byte_rate") == 1


async def test_the_loops_time_is_charged_by_the_handlers_that_take_it(
    broker: InProcessBroker, caller: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    await limit(broker, QuotaKey.REQUEST_TIME, 1.0)
    assert (await caller.ask(MetadataRequest(None), 9)).throttle_time_ms == 0
    meter = broker.engine.quotas.limits_of("ANONYMOUS", "tests", 0.0).request_time
    charged: list[float] = []

    def charge(self: object, amount: float, now_s: float) -> float:
        charged.append(amount)
        return 5.0

    monkeypatch.setattr(type(meter), "charge", charge)
    answer = await caller.ask(CreateTopicsRequest([CreatableTopic("t", 1, 1)], 10_000), 7)
    assert 0 < charged[0] < 100 * 10, "percent of a second"
    assert answer.topics[0].error_code == 0
    assert answer.throttle_time_ms == 1000, "one sample at most"
    assert throttled(broker, "request_percentage") == 1


async def test_changes_over_the_quota_are_refused_where_the_client_knows_the_error(
    broker: InProcessBroker, caller: Caller
) -> None:
    await limit(broker, QuotaKey.MUTATIONS, 1.0)

    async def create(name: str, partitions: int, version: int) -> tuple[int, int]:
        request = CreateTopicsRequest([CreatableTopic(name, partitions, 1)], 10_000)
        async with Caller(broker.port) as fresh:  # the other one may be muted
            answer = await fresh.ask(request, version)
        return answer.topics[0].error_code, answer.throttle_time_ms

    assert await create("a", 12, 7) == (0, 0), "the bucket holds eleven tokens and may go into debt"
    code, wait_ms = await create("b", 1, 7)
    assert code == ErrorCode.THROTTLING_QUOTA_EXCEEDED
    assert wait_ms > 0
    code, wait_ms = await create("b", 4, 5)
    assert code == 0, "an older client gets its topic"
    assert wait_ms > 4000
    async with Caller(broker.port) as fresh:
        more = CreatePartitionsRequest([CreatePartitionsTopic("a", 13)], 10_000)
        row = (await fresh.ask(more, 3)).results[0]
        assert row.error_code == ErrorCode.THROTTLING_QUOTA_EXCEEDED
    async with Caller(broker.port) as fresh:
        gone = DeleteTopicsRequest(topic_names=["a"], timeout_ms=10_000)
        row = (await fresh.ask(gone, 5)).responses[0]
        assert row.error_code == ErrorCode.THROTTLING_QUOTA_EXCEEDED
    assert throttled(broker, "controller_mutation_rate") == 4


async def test_a_topic_that_is_created_by_asking_for_it_is_charged_and_created(
    broker: InProcessBroker, caller: Caller
) -> None:
    await limit(broker, QuotaKey.MUTATIONS, 0.01)
    for name in ("a", "b"):
        async with Caller(broker.port) as fresh:
            asked = MetadataRequest([MetadataRequestTopic(name=name)], True)
            answer = await fresh.ask(asked, 9)
        assert answer.topics[0].error_code == 0
        assert answer.throttle_time_ms > 0


async def test_a_muted_connection_that_is_gone_leaves_no_timer(
    broker: InProcessBroker, caller: Caller
) -> None:
    await caller.create("t")
    await limit(broker, QuotaKey.PRODUCED_BYTES, 1.0)
    async with Caller(broker.port) as leaving:
        await leaving.ask(produce_request("t", BATCH), 9)
        (muted,) = (one for one in broker.connections._open if one.is_muted)
    async with asyncio.timeout(10):
        while muted in broker.connections._open:
            muted._transport.abort()  # type: ignore[union-attr]
            await asyncio.sleep(0)
    assert muted._unmuting is not None
    assert muted._unmuting.cancelled()


async def test_other_clients_do_not_feel_a_quota(broker: InProcessBroker, caller: Caller) -> None:
    await caller.create("t")
    other = entity_of([("client-id", "someone-else")])
    await broker.engine.quotas.alter(other, {QuotaKey.PRODUCED_BYTES: 1.0})
    answer = await caller.ask(produce_request("t", BATCH), 9)
    assert answer.throttle_time_ms == 0
    assert not any(one.is_muted for one in broker.connections._open)


async def test_an_address_that_opens_too_many_connections_loses_the_new_ones(
    broker: InProcessBroker, caller: Caller
) -> None:
    await broker.engine.quotas.alter(entity_of([("ip", "127.0.0.1")]), {QuotaKey.CONNECTIONS: 1.0})
    for _ in range(10):
        async with Caller(broker.port) as one:
            assert (await one.ask(ApiVersionsRequest(), 0)).error_code == 0
    async with Caller(broker.port) as one:
        one.send(ApiVersionsRequest(), 0)
        assert await one.is_closed()
    assert throttled(broker, "connection_creation_rate") == 1
    assert (await caller.ask(ApiVersionsRequest(), 0)).error_code == 0, "old ones stay"
