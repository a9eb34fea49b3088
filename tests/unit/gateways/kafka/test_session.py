"""Many requests under way on one connection, answers strictly in order."""

import asyncio
import gc
import struct
import warnings

import pytest
from structlog.testing import capture_logs

from kafscale.gateways.connection import Connection
from kafscale.gateways.kafka import router
from kafscale.gateways.kafka.calls.call import Answer, Call
from kafscale.gateways.kafka.session import MAY_BEGIN, SessionState
from kafscale.objects.memory import MemoryObjectStore
from kafscale.settings.sections import NetworkSection
from kafscale.settings.values import PositiveSize
from kafscale.testing.faulty_store import Fault, FaultPlan, FaultyObjectStore, Rule
from kafscale.testing.in_process import FOR_TESTS, InProcessBroker
from kafscale.wire.kafka import frame
from kafscale.wire.kafka.frame import RequestHeader
from kafscale.wire.kafka.messages.api_versions import ApiVersionsRequest
from kafscale.wire.kafka.messages.create_topics import CreatableTopic, CreateTopicsRequest
from kafscale.wire.kafka.messages.describe_groups import DescribeGroupsRequest
from kafscale.wire.kafka.messages.metadata import MetadataRequest, MetadataResponse
from tests.support.exposition import parse, series
from tests.unit.gateways.connections_harness import FakeTransport, feed
from tests.unit.gateways.kafka.caller import (
    Caller,
    fetch_request,
    make_batch,
    produce_request,
    values_of,
)
from tests.unit.gateways.kafka.settings import changed

HELLO = ApiVersionsRequest("tests", "1")


def refusals(broker: InProcessBroker, reason: str) -> float:
    return parse(broker.metrics()).get(series("kafscale_bad_requests_total", reason=reason), 0)


async def test_slow_and_fast_requests_mixed_are_answered_in_order(
    broker: InProcessBroker, caller: Caller
) -> None:
    await caller.create("t")
    await caller.create("empty")
    for number in range(60):
        match number % 4:
            case 0:
                caller.send(produce_request("t", make_batch(b"%d" % number)), 9)
            case 1:
                caller.send(HELLO, 3)
            case 2:
                caller.send(MetadataRequest([]), 12)
            case 3:
                caller.send(fetch_request([("empty", 0, 0)], max_wait_ms=20), 12)
    answers = [await caller.answer() for _ in range(60)]  # each checks its correlation id
    offsets = [row.responses[0].partition_responses[0].base_offset for row in answers[::4]]
    assert offsets == list(range(15))


async def test_a_client_that_leaves_before_its_question_has_begun_leaves_nothing_behind(
    broker: InProcessBroker,
) -> None:
    (listener,) = broker.parts.doors.listeners
    connection = Connection(broker.connections, listener.name, listener._make_session)
    connection.connection_made(FakeTransport())  # type: ignore[arg-type]
    feed(connection, b"".join(frame.request_frame(1, DescribeGroupsRequest(["g"]), 5, "tests")))
    connection.connection_lost(None)
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        await asyncio.sleep(0.01)
        gc.collect()
    assert [str(one.message) for one in found] == []


async def test_requests_are_counted_by_api(broker: InProcessBroker, caller: Caller) -> None:
    def counted(api: str) -> float:
        return parse(broker.metrics()).get(series("kafscale_requests_total", api=api), 0)

    before = counted("Metadata")
    for _ in range(3):
        await caller.ask(MetadataRequest([]), 12)
    await caller.ask(HELLO, 3)
    assert counted("Metadata") - before == 3
    assert counted("ApiVersions") >= 1


async def test_what_waits_does_not_hold_up_the_work_of_those_behind_it(
    broker: InProcessBroker, caller: Caller
) -> None:
    await caller.create("t")
    await caller.create("empty")
    async with Caller(broker.port) as pipelining:
        pipelining.send(fetch_request([("empty", 0, 0)], max_wait_ms=30_000), 12)
        pipelining.send(produce_request("t", make_batch(b"behind")), 9)
        async with asyncio.timeout(20):
            while not values_of(await caller.fetch("t")):  # its work is done
                await asyncio.sleep(0.01)
        with pytest.raises(TimeoutError):  # its answer waits
            async with asyncio.timeout(0.05):
                await pipelining.reader.read(1)
        await caller.produce("empty", make_batch(b"news"))
        await pipelining.answer()
        row = (await pipelining.answer()).responses[0].partition_responses[0]
        assert (row.error_code, row.base_offset) == (0, 0)


async def test_a_producers_batches_keep_their_order_while_its_log_is_opened() -> None:
    plan = FaultPlan()
    store = FaultyObjectStore(MemoryObjectStore(), plan)
    async with InProcessBroker(store=store) as broker, Caller(broker.port) as caller:
        await caller.create("slow")
        await caller.create("fast")
        await caller.produce("fast", make_batch(b"open"))
        stall = plan.add(Rule(Fault.STALL_BEFORE, "find", "*/slow/0"))
        for number in range(3):
            caller.send(produce_request("slow", make_batch(b"%d" % number)), 9)
            caller.send(produce_request("fast", make_batch(b"%d" % number)), 9)
        await stall.reached.wait()
        stall.release()
        rows = [(await caller.answer()).responses[0].partition_responses[0] for _ in range(6)]
        assert [row.base_offset for row in rows] == [0, 1, 1, 2, 2, 3]
        assert values_of(await caller.fetch("slow")) == [b"0", b"1", b"2"]


async def test_logs_of_requests_behind_one_that_waits_are_opened_meanwhile() -> None:
    plan = FaultPlan()
    store = FaultyObjectStore(MemoryObjectStore(), plan)
    async with InProcessBroker(store=store) as broker, Caller(broker.port) as caller:
        await caller.create("t", 3)
        stalls = [plan.add(Rule(Fault.STALL_BEFORE, "find", f"*/t/{at}")) for at in range(3)]
        for at in (0, 1, 2, 0):
            caller.send(produce_request("t", make_batch(b"x"), partition=at), 9)
        async with asyncio.timeout(20):
            for stall in stalls:
                await stall.reached.wait()  # all at once, although none has been let go
        for stall in reversed(stalls):
            stall.release()
        rows = [(await caller.answer()).responses[0].partition_responses[0] for _ in range(4)]
        found = [(row.index, row.error_code, row.base_offset) for row in rows]
        assert found == [(0, 0, 0), (1, 0, 0), (2, 0, 0), (0, 0, 1)]


async def test_thousands_of_requests_behind_a_slow_one_need_no_deep_stack() -> None:
    plan = FaultPlan()
    store = FaultyObjectStore(MemoryObjectStore(), plan)
    async with InProcessBroker(store=store) as broker, Caller(broker.port) as caller:
        await caller.create("t")
        stall = plan.add(Rule(Fault.STALL_BEFORE, "find", "*/t/0"))
        caller.send(produce_request("t", make_batch(b"first")), 9)
        await stall.reached.wait()
        for _ in range(3000):
            caller.send(HELLO, 3)
        await caller.writer.drain()
        stall.release()
        for _ in range(3001):
            await caller.answer()
        assert refusals(broker, "internal_error") == 0


async def test_few_reads_of_one_connection_are_under_way_at_once(
    broker: InProcessBroker, caller: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    under_way, most = 0, 0
    honest = broker.engine.partitions.fetch

    async def fetch(*wanted, **wishes):  # type: ignore[no-untyped-def]
        nonlocal under_way, most
        under_way += 1
        most = max(most, under_way)
        try:
            return await honest(*wanted, **wishes)
        finally:
            under_way -= 1

    monkeypatch.setattr(broker.engine.partitions, "fetch", fetch)
    await caller.create("t")
    async with Caller(broker.port) as pipelining:
        for _ in range(20):
            pipelining.send(fetch_request([("t", 0, 0)], max_wait_ms=30_000), 12)
        async with asyncio.timeout(20):
            while most < 4:
                await asyncio.sleep(0.01)
        await caller.produce("t", make_batch(b"news"))
        for _ in range(20):
            (row,) = (await pipelining.answer()).responses[0].partitions
            assert values_of(row) == [b"news"]
    assert most == 4


async def test_a_flood_of_tiny_requests_that_wait_is_left_in_the_network() -> None:
    limits = NetworkSection(max_in_flight_bytes_per_connection=PositiveSize(1 << 20))
    async with (
        InProcessBroker(config=changed(FOR_TESTS, network=limits)) as broker,
        Caller(broker.port) as caller,
    ):
        await caller.create("t")
        for _ in range(4):
            caller.send(fetch_request([("t", 0, 0)], max_wait_ms=30_000), 12)
        caller.writer.write(struct.pack(">ib", 1, 0) * 100_000)
        async with asyncio.timeout(20):
            while broker.connections.held_bytes < 1 << 20:
                await asyncio.sleep(0.01)
        assert broker.connections.held_bytes < 10 << 20
        caller.writer.transport.abort()


async def test_long_answers_do_not_pile_up_behind_one_that_waits(
    broker: InProcessBroker, caller: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(100):  # an answer of few rows and many bytes
        await caller.create(f"{number:03}" + "t" * 240)
    await caller.create("empty")
    begun = 0
    honest = router.answer

    def answer(request: RequestHeader, call: Call) -> Answer:
        nonlocal begun
        begun += 1
        return honest(request, call)

    monkeypatch.setattr(router, "answer", answer)
    async with Caller(broker.port) as pipelining:
        pipelining.send(fetch_request([("empty", 0, 0)], max_wait_ms=30_000), 12)
        for _ in range(300):
            pipelining.send(MetadataRequest(None), 1)
        pipelining.send(HELLO, 3)
        size = len(b"".join(frame.response_frame(1, await caller.ask(MetadataRequest(None), 1), 1)))
        async with asyncio.timeout(20):
            while begun * size < 4 << 20:
                await asyncio.sleep(0.01)
        await caller.ask(HELLO, 3)
        assert begun * size < 5 << 20
        await caller.produce("empty", make_batch(b"news"))
        for _ in range(302):
            await pipelining.answer()


@pytest.mark.parametrize("later", [False, True], ids=["at once", "later"])
async def test_a_mistake_of_the_broker_closes_the_connection_instead_of_leaving_it_hanging(
    broker: InProcessBroker, caller: Caller, monkeypatch: pytest.MonkeyPatch, later: bool
) -> None:
    wrong = MetadataResponse(cluster_id=4711)  # type: ignore[arg-type]

    async def answer_later() -> MetadataResponse:
        return wrong

    def answer(request: object, call: object) -> object:
        return answer_later() if later else wrong

    monkeypatch.setattr(router, "answer", answer)
    caller.send(MetadataRequest([]), 12)
    assert await caller.is_closed()
    assert refusals(broker, "internal_error") == 1
    monkeypatch.undo()
    async with Caller(broker.port) as other:
        assert (await other.ask(HELLO, 3)).error_code == 0


async def test_a_mistake_of_the_broker_before_a_request_begins_closes_the_connection_too(
    broker: InProcessBroker, caller: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def prepare() -> None:
        raise RuntimeError("not foreseen")

    monkeypatch.setattr(router, "prepare", lambda request, call: prepare())
    caller.send(HELLO, 3)
    assert await caller.is_closed()
    assert refusals(broker, "internal_error") == 1


async def test_while_the_store_hangs_writers_wait_and_readers_are_served() -> None:
    plan = FaultPlan()
    store = FaultyObjectStore(MemoryObjectStore(), plan)
    limits = NetworkSection(max_in_flight_bytes=PositiveSize(100_000))
    async with (
        InProcessBroker(config=changed(FOR_TESTS, network=limits), store=store) as broker,
        Caller(broker.port) as writer,
        Caller(broker.port) as reader,
    ):
        await writer.create("t")
        await writer.produce("t", make_batch(b"readable"))
        stall = plan.add(Rule(Fault.STALL_BEFORE, "put_new", "*/segment-*"))
        for _ in range(50):
            writer.send(produce_request("t", make_batch(b"x" * 10_000)), 9)
        await stall.reached.wait()
        for _ in range(5):
            assert values_of(await reader.fetch("t")) == [b"readable"]
        assert broker.connections.held_bytes < 250_000, "the rest waits in the network"
        stall.release()
        rows = [(await writer.answer()).responses[0].partition_responses[0] for _ in range(50)]
        assert [row.base_offset for row in rows] == list(range(1, 51))
        assert broker.connections.held_bytes == 0


async def test_a_client_that_leaves_early_leaves_nothing_behind(broker: InProcessBroker) -> None:
    async with Caller(broker.port) as caller:
        await caller.create("t")
        for _ in range(10):
            caller.send(produce_request("t", make_batch(b"x")), 9)
    async with asyncio.timeout(20):
        while len(broker.connections):
            await asyncio.sleep(0.01)
    assert broker.connections.held_bytes == 0


async def test_frames_far_above_a_megabyte_arrive(caller: Caller) -> None:
    await caller.create("t", configs={"max.message.bytes": "20000000"})
    value = bytes(range(256)) * 40_000
    row = await caller.produce("t", make_batch(value))
    assert row.error_code == 0
    assert values_of(await caller.fetch("t", partition_bytes=1 << 25)) == [value]


def test_every_state_says_which_of_the_requests_that_are_offered_begin() -> None:
    assert MAY_BEGIN.keys() == set(SessionState)
    assert all(keys <= router.NAMES.keys() for keys in MAY_BEGIN.values())
    assert MAY_BEGIN[SessionState.OPEN] == router.NAMES.keys()
    assert not MAY_BEGIN[SessionState.CLOSED] & router.READING, "a read needs its client"


async def test_a_bad_request_of_many_rows_is_one_line_and_counts_once(
    broker: InProcessBroker, caller: Caller
) -> None:
    rows = 50_000
    names = [CreatableTopic(f"bad name {number}", 1, 1, [], []) for number in range(rows)]
    before = refusals(broker, "invalid_request")
    with capture_logs() as logged:
        answer = await caller.ask(CreateTopicsRequest(names, 30_000, False), 5)
    assert len(answer.topics) == rows
    lines = [row for row in logged if row["event"] == "bad_request"]
    assert [(row["reason"], row["count"]) for row in lines] == [("invalid_request", rows)]
    assert lines[0]["detail"] == "named twice, or too many topics in one request"
    assert refusals(broker, "invalid_request") == before + 1


async def test_harmless_refusals_are_no_bad_requests(
    broker: InProcessBroker, caller: Caller
) -> None:
    await caller.create("t")
    wish = CreateTopicsRequest([CreatableTopic("t", 1, 1, [], [])], 30_000, False)
    with capture_logs() as logged:
        answer = await caller.ask(wish, 5)
    assert answer.topics[0].error_code == 36
    assert refusals(broker, "topic_exists") == 0
    counted = parse(broker.metrics())
    assert counted[series("kafscale_client_errors_total", reason="topic_exists")] == 1
    assert [row["event"] for row in logged if row["log_level"] == "info"] == ["audit"]
