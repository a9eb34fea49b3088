import asyncio

import pytest

from kafscale.log.writer.tail_memory import BATCH_BYTES, CHUNK_BYTES
from kafscale.objects.memory import MemoryObjectStore
from kafscale.settings.config import Config
from kafscale.settings.sections import CacheSection
from kafscale.settings.values import Size
from kafscale.testing.faulty_store import Fault, FaultPlan, FaultyObjectStore, Rule
from kafscale.testing.in_process import FOR_TESTS, InProcessBroker
from kafscale.wire.kafka.errors import ErrorCode
from tests.unit.gateways.kafka.caller import (
    Caller,
    fetch_request,
    headers_of,
    make_batch,
    values_of,
)
from tests.unit.gateways.kafka.settings import changed

COLD = changed(FOR_TESTS, cache=CacheSection(tail_cache_size=Size(0)))


async def fill(caller: Caller, count: int = 5, topic: str = "t", partition: int = 0) -> int:
    """So many batches of one record each; gives the size of one."""
    for number in range(count):
        batch = make_batch(b"%03d" % number)
        assert (await caller.produce(topic, batch, partition=partition)).error_code == 0
    return len(batch)


@pytest.mark.parametrize("version", range(4, 14))
async def test_every_version_of_format_2_reads(caller: Caller, version: int) -> None:
    made = await caller.create("t")
    await fill(caller)
    row = await caller.fetch(made.topic_id if version >= 13 else "t", 2, version=version)
    assert (row.error_code, row.high_watermark, row.last_stable_offset) == (0, 5, 5)
    assert values_of(row) == [b"002", b"003", b"004"]


async def test_an_offset_in_the_middle_of_a_batch_gets_the_whole_batch(caller: Caller) -> None:
    await caller.create("t")
    await caller.produce("t", make_batch(b"a", b"b", b"c"))
    assert values_of(await caller.fetch("t", 1)) == [b"a", b"b", b"c"]


async def test_at_the_end_there_is_nothing_and_beyond_it_an_error(caller: Caller) -> None:
    await caller.create("t")
    await fill(caller)
    row = await caller.fetch("t", 5)
    assert (row.error_code, values_of(row)) == (0, [])
    for offset in (6, -1):
        row = await caller.fetch("t", offset)
        assert (row.error_code, row.high_watermark) == (ErrorCode.OFFSET_OUT_OF_RANGE, 5)
        assert row.log_start_offset == 0


# -- limits ----------------------------------------------------------------------------------


@pytest.mark.parametrize("config", [FOR_TESTS, COLD], ids=["memory", "objects"])
async def test_answers_keep_their_limits_but_hold_at_least_one_batch(config: Config) -> None:
    async with InProcessBroker(config=config) as broker, Caller(broker.port) as caller:
        await caller.create("t")
        size = await fill(caller)
        for limit, batches in (
            (0, 1),
            (-1, 1),
            (1, 1),
            (size, 1),
            (2 * size - 1, 1),
            (2 * size, 2),
            (2**31 - 1, 5),
        ):
            for wish in ({"max_bytes": limit}, {"partition_bytes": limit}):
                row = await caller.fetch("t", **wish)
                assert len(headers_of(row)) == batches, (wish, batches)


@pytest.mark.parametrize("config", [FOR_TESTS, COLD], ids=["memory", "objects"])
async def test_partitions_share_the_limit_and_one_of_them_always_gets_something(
    config: Config,
) -> None:
    async with InProcessBroker(config=config) as broker, Caller(broker.port) as caller:
        await caller.create("t", 3)
        for partition in range(3):
            size = await fill(caller, 3, partition=partition)
        everything = [("t", partition, 0) for partition in range(3)]

        async def counts(**wishes: int) -> list[int]:
            answer = await caller.ask(fetch_request(everything, **wishes), 12)
            return [len(headers_of(row)) for row in answer.responses[0].partitions]

        assert await counts() == [3, 3, 3]
        assert await counts(max_bytes=1) == [1, 0, 0]
        assert await counts(max_bytes=4 * size, partition_bytes=3 * size) == [3, 1, 0]
        assert await counts(partition_bytes=2 * size) == [2, 2, 2]
        assert (await counts(partition_bytes=1))[0] == 1


@pytest.mark.parametrize("asked", [1, 1000], ids=["all there is", "far more"])
async def test_old_data_is_read_only_as_far_as_the_answer_has_room(asked: int) -> None:
    store = FaultyObjectStore(MemoryObjectStore(), FaultPlan())
    config = changed(COLD, cache=CacheSection(tail_cache_size=Size(0), read_ahead_segments=0))
    async with (
        InProcessBroker(config=config, store=store) as broker,
        Caller(broker.port) as caller,
    ):
        await caller.create("t", 20)
        for partition in range(20):
            size = await fill(caller, 1, partition=partition)
        store.calls.clear()
        request = fetch_request(
            [("t", partition, 0) for partition in range(20)],
            max_bytes=3 * size,
            partition_bytes=asked * size,
        )
        answer = await caller.ask(request, 12)
        rows = answer.responses[0].partitions
        assert [len(headers_of(row)) for row in rows] == [1] * 3 + [0] * 17
        assert {row.high_watermark for row in rows} == {1}
        assert len([key for verb, key in store.calls if verb == "read"]) == 3


# -- waiting ---------------------------------------------------------------------------------


async def watched(broker: InProcessBroker) -> None:
    """Return when a fetch waits for new data."""
    async with asyncio.timeout(20):
        while not any(
            lane.watchers
            for _, log in broker.engine._parts.logs.each()
            for lane in log.lanes.values()
        ):
            await asyncio.sleep(0.01)


async def test_a_waiting_fetch_is_woken_by_the_commit(
    broker: InProcessBroker, caller: Caller
) -> None:
    await caller.create("t", 2)
    async with Caller(broker.port) as waiting:
        waiting.send(fetch_request([("t", 0, 0), ("t", 1, 0)], max_wait_ms=30_000), 12)
        await watched(broker)
        await caller.produce("t", make_batch(b"news"), partition=1)
        rows = (await waiting.answer()).responses[0].partitions
        assert [values_of(row) for row in rows] == [[], [b"news"]]
    assert not any(
        lane.watchers for _, log in broker.engine._parts.logs.each() for lane in log.lanes.values()
    )


async def test_a_fetch_waits_until_there_are_min_bytes(
    broker: InProcessBroker, caller: Caller
) -> None:
    await caller.create("t")
    size = await fill(caller, 1)
    async with Caller(broker.port) as waiting:
        waiting.send(fetch_request([("t", 0, 0)], max_wait_ms=30_000, min_bytes=3 * size), 12)
        await watched(broker)
        await caller.produce("t", make_batch(b"001"))
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.05):
                await waiting.reader.read(1)
        await caller.produce("t", make_batch(b"002"))
        (row,) = (await waiting.answer()).responses[0].partitions
        assert len(values_of(row)) == 3


async def test_a_fetch_that_waited_long_enough_gives_what_there_is(caller: Caller) -> None:
    await caller.create("t")
    await fill(caller, 1)
    row = await caller.fetch("t", max_wait_ms=30, min_bytes=1 << 20)
    assert values_of(row) == [b"000"]


async def test_an_error_does_not_wait(caller: Caller) -> None:
    await caller.create("t")
    request = fetch_request([("t", 0, 0), ("missing", 0, 0)], max_wait_ms=60_000)
    answer = await caller.ask(request, 12)
    assert [topic.partitions[0].error_code for topic in answer.responses] == [0, 3]


async def test_a_wish_for_more_than_the_answer_may_hold_is_met_when_it_is_full(
    caller: Caller,
) -> None:
    await caller.create("t")
    await fill(caller, 3)
    row = await caller.fetch("t", max_wait_ms=60_000, min_bytes=2**31 - 1, max_bytes=10)
    assert len(values_of(row)) == 1


async def test_r6_no_wish_waits_longer_than_thirty_seconds(
    broker: InProcessBroker, caller: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[float] = []
    honest = broker.engine.partitions.fetch

    async def fetch(wanted, max_bytes, min_bytes, max_wait_s):  # type: ignore[no-untyped-def]
        asked.append(max_wait_s)
        return await honest(wanted, max_bytes, min_bytes, 0.01)

    monkeypatch.setattr(broker.engine.partitions, "fetch", fetch)
    await caller.create("t")
    await caller.fetch("t", max_wait_ms=2**31 - 1)
    assert asked == [30.0]


async def test_a_client_that_leaves_takes_its_waiting_fetch_along(
    broker: InProcessBroker, caller: Caller
) -> None:
    await caller.create("t")
    async with Caller(broker.port) as waiting:
        waiting.send(fetch_request([("t", 0, 0)], max_wait_ms=30_000), 12)
        await watched(broker)
    async with asyncio.timeout(20):
        while any(
            lane.watchers
            for _, log in broker.engine._parts.logs.each()
            for lane in log.lanes.values()
        ):
            await asyncio.sleep(0.01)


# -- leader epochs and trouble ---------------------------------------------------------------


async def test_r5_another_leader_epoch_is_refused(broker: InProcessBroker, caller: Caller) -> None:
    await caller.create("t")
    await broker.restart()
    epoch = broker.engine.identity.epoch
    async with Caller(broker.port) as later:
        for asked, code in (
            (epoch - 1, ErrorCode.FENCED_LEADER_EPOCH),
            (epoch + 1, ErrorCode.UNKNOWN_LEADER_EPOCH),
            (epoch, ErrorCode.NONE),
            (-1, ErrorCode.NONE),
        ):
            assert (await later.fetch("t", leader_epoch=asked)).error_code == code


@pytest.mark.parametrize(
    ("version", "code"),
    [(5, ErrorCode.NOT_LEADER_OR_FOLLOWER), (6, ErrorCode.KAFKA_STORAGE_ERROR), (12, 56)],
)
async def test_while_the_store_fails_memory_serves_and_the_rest_gets_a_code_consumers_wait_out(
    version: int, code: int
) -> None:
    plan = FaultPlan()
    store = FaultyObjectStore(MemoryObjectStore(), plan)
    size = len(make_batch(b"000")) + CHUNK_BYTES + BATCH_BYTES
    config = changed(FOR_TESTS, cache=CacheSection(tail_cache_size=Size(2 * size)))
    async with (
        InProcessBroker(config=config, store=store) as broker,
        Caller(broker.port) as caller,
    ):
        await caller.create("t")
        await fill(caller, 5)
        rule = plan.add(Rule(Fault.FAIL_BEFORE, "read"))
        assert values_of(await caller.fetch("t", 3, version=version)) == [b"003", b"004"]
        assert (await caller.fetch("t", 0, version=version)).error_code == code
        assert rule.happened
        plan.clear()
        assert values_of(await caller.fetch("t", 0, version=version))[0] == b"000"


async def test_a_topic_may_let_its_readers_see_what_is_not_committed_yet() -> None:
    store = FaultyObjectStore(MemoryObjectStore(), plan := FaultPlan())
    async with InProcessBroker(store=store) as broker, Caller(broker.port) as caller:
        await caller.create("open", configs={"kafscale.fetch.buffered": "true"})
        await caller.create("shut")
        await fill(caller, 1, "open")
        await fill(caller, 1, "shut")
        stall = plan.add(Rule(Fault.STALL_BEFORE, "put_new", keys="*/segment-*"))
        async with Caller(broker.port) as reader, Caller(broker.port) as other:
            waiting = [
                asyncio.ensure_future(producer.produce(topic, make_batch(b"waits")))
                for producer, topic in ((caller, "open"), (other, "shut"))
            ]
            row = await reader.fetch("open", 1, max_wait_ms=5000, min_bytes=1)
            assert (values_of(row), row.high_watermark) == ([b"waits"], 2)
            row = await reader.fetch("shut", 1)
            assert (values_of(row), row.high_watermark) == ([], 1)
            stall.release()
            assert [answer.error_code for answer in await asyncio.gather(*waiting)] == [0, 0]
