import asyncio

import pytest

from kafscale.engine.partitions import refused
from kafscale.log.formats import keys
from kafscale.model.errors import StoreUnavailable
from kafscale.objects.memory import MemoryObjectStore
from kafscale.records.compression import Codec
from kafscale.testing.clock import ManualClock
from kafscale.testing.faulty_store import Fault, FaultPlan, FaultyObjectStore, Rule
from kafscale.testing.in_process import InProcessBroker
from kafscale.wire.kafka import frame
from kafscale.wire.kafka.errors import ErrorCode
from kafscale.wire.kafka.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from tests.support.old_wire import message
from tests.unit.gateways.kafka.caller import (
    NOW_MS,
    Caller,
    headers_of,
    make_batch,
    produce_request,
    records_of,
    values_of,
)
from tests.unit.records.samples import resigned


@pytest.mark.parametrize("version", range(10))
async def test_every_version_stores_a_batch(caller: Caller, version: int) -> None:
    await caller.create("t")
    assert (await caller.produce("t", make_batch(b"a", b"b"), version=version)).base_offset == 0
    row = await caller.produce("t", make_batch(b"c"), version=version)
    assert (row.error_code, row.base_offset, row.log_append_time_ms) == (0, 2, -1)
    if version >= 5:
        assert row.log_start_offset == 0
    assert values_of(await caller.fetch("t")) == [b"a", b"b", b"c"]


async def test_one_request_may_mix_good_and_bad(caller: Caller) -> None:
    await caller.create("t", 2)
    broken = bytearray(make_batch(b"x"))
    broken[-1] ^= 1
    data = [
        TopicProduceData(
            "t",
            [
                PartitionProduceData(0, make_batch(b"a")),
                PartitionProduceData(1, bytes(broken)),
                PartitionProduceData(7, make_batch(b"b")),
            ],
        ),
        TopicProduceData("missing", [PartitionProduceData(0, make_batch(b"c"))]),
        TopicProduceData("t", [PartitionProduceData(1, make_batch(b"d"))]),
    ]
    answer = await caller.ask(ProduceRequest(None, -1, 5000, data), 9)
    found = [
        (topic.name, row.index, row.error_code, row.base_offset)
        for topic in answer.responses
        for row in topic.partition_responses
    ]
    assert found == [
        ("t", 0, 0, 0),
        ("t", 1, 2, -1),
        ("t", 7, 3, -1),
        ("missing", 0, 3, -1),
        ("t", 1, 0, 0),
    ]
    assert answer.responses[0].partition_responses[1].error_message == "the checksum is wrong"


# -- acks ------------------------------------------------------------------------------------


class Stalled:
    """A broker whose next segment waits until it is released."""

    def __init__(self) -> None:
        self.plan = FaultPlan()
        self.broker = InProcessBroker(
            store=FaultyObjectStore(MemoryObjectStore(), self.plan), clock=ManualClock(NOW_MS)
        )

    def stall(self) -> Rule:
        return self.plan.add(Rule(Fault.STALL_BEFORE, "put_new", "*/segment-*"))


@pytest.mark.parametrize("acks", [-1, 1])
async def test_acks_all_and_1_are_answered_after_the_commit(acks: int) -> None:
    bench = Stalled()
    async with (
        bench.broker,
        Caller(bench.broker.port) as caller,
        Caller(bench.broker.port) as other,
    ):
        await caller.create("t")
        stall = bench.stall()
        caller.send(produce_request("t", make_batch(b"a"), acks=acks), 9)
        await stall.reached.wait()
        row = await other.fetch("t")
        assert (row.high_watermark, values_of(row)) == (0, []), "not committed, not visible"
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.05):
                await caller.reader.read(1)
        stall.release()
        assert (await caller.answer()).responses[0].partition_responses[0].error_code == 0
        assert values_of(await other.fetch("t")) == [b"a"]


async def test_a_topic_may_have_acks_1_answered_from_memory() -> None:
    bench = Stalled()
    async with bench.broker, Caller(bench.broker.port) as caller:
        await caller.create("t", configs={"kafscale.acks1": "buffered"})
        stall = bench.stall()
        first = await caller.produce("t", make_batch(b"a"), acks=1)
        second = await caller.produce("t", make_batch(b"b"), acks=1)
        assert (first.base_offset, second.base_offset) == (0, 1)
        caller.send(produce_request("t", make_batch(b"c"), acks=-1), 9)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.05):
                await caller.reader.read(1)
        stall.release()
        row = (await caller.answer()).responses[0].partition_responses[0]
        assert (row.error_code, row.base_offset) == (0, 2), "acks=all waits as ever"
        assert values_of(await caller.fetch("t")) == [b"a", b"b", b"c"]


async def test_acks_0_is_never_answered_and_stored_in_order(caller: Caller) -> None:
    await caller.create("t")
    for number in range(5):
        caller.writer.writelines(_frame(produce_request("t", make_batch(b"%d" % number), acks=0)))
    last = await caller.produce("t", make_batch(b"5"))
    assert last.base_offset == 5
    assert values_of(await caller.fetch("t")) == [b"0", b"1", b"2", b"3", b"4", b"5"]


async def test_acks_0_with_an_error_closes_the_connection(caller: Caller) -> None:
    await caller.create("t")
    caller.writer.writelines(_frame(produce_request("t", b"rubbish", acks=0)))
    assert await caller.is_closed()


def _frame(request: ProduceRequest) -> list[bytes]:
    return [bytes(piece) for piece in frame.request_frame(0, request, 9, "tests")]


async def test_the_producers_own_timeout_answers_that_the_outcome_is_unknown() -> None:
    bench = Stalled()
    async with bench.broker, Caller(bench.broker.port) as caller:
        await caller.create("t")
        stall = bench.stall()
        row = await caller.produce("t", make_batch(b"a"), timeout_ms=50)
        assert (row.error_code, row.base_offset) == (ErrorCode.REQUEST_TIMED_OUT, -1)
        stall.release()
        later = await caller.produce("t", make_batch(b"b"))
        assert later.base_offset == 1, "what timed out was not taken back"
        assert values_of(await caller.fetch("t")) == [b"a", b"b"]


# -- what topics say -------------------------------------------------------------------------


@pytest.mark.parametrize("wanted", ["uncompressed", "gzip", "snappy", "lz4", "zstd"])
async def test_a_topics_compression_is_honoured(caller: Caller, wanted: str) -> None:
    await caller.create("t", configs={"compression.type": wanted})
    for codec in Codec:
        await caller.produce("t", make_batch(b"value" * 50, codec=codec))
    row = await caller.fetch("t")
    assert {header.codec for header in headers_of(row)} == {Codec.named(wanted)}
    assert values_of(row) == [b"value" * 50] * len(Codec)
    assert [header.base_offset for header in headers_of(row)] == list(range(len(Codec)))


async def test_by_default_batches_are_kept_as_they_came(caller: Caller) -> None:
    await caller.create("t")
    sent = [make_batch(b"value" * 50, codec=codec) for codec in Codec]
    for one in sent:
        await caller.produce("t", one)
    row = await caller.fetch("t")
    assert isinstance(row.records, memoryview)
    stored, at = [], 0
    for header in headers_of(row):
        stored.append(bytes(row.records[at + 16 : at + header.size]))
        at += header.size
    assert stored == [one[16:] for one in sent], "all but offset and leader epoch is untouched"


async def test_log_append_time_is_the_brokers_and_is_told(
    caller: Caller, clock: ManualClock
) -> None:
    await caller.create("t", configs={"message.timestamp.type": "LogAppendTime"})
    clock.advance_ms(5000)
    row = await caller.produce("t", make_batch(b"a", b"b", timestamp_ms=12, codec=Codec.GZIP))
    assert row.log_append_time_ms == NOW_MS + 5000
    read = records_of(await caller.fetch("t"))
    assert [record.timestamp_ms for record in read] == [NOW_MS + 5000] * 2
    assert (await caller.offset("t", NOW_MS + 1)).offset == 0


async def test_with_log_append_time_the_producers_clock_does_not_matter(caller: Caller) -> None:
    await caller.create(
        "t",
        configs={
            "message.timestamp.type": "LogAppendTime",
            "message.timestamp.before.max.ms": "1000",
        },
    )
    row = await caller.produce("t", make_batch(b"a", timestamp_ms=12))
    assert row.error_code == 0


async def test_a_producer_may_not_claim_append_time_where_create_time_rules(
    caller: Caller,
) -> None:
    await caller.create("t")
    await caller.create("stamped", configs={"message.timestamp.type": "LogAppendTime"})
    claimed = resigned(make_batch(b"a"), attributes=8)
    assert (await caller.produce("t", claimed)).error_code == ErrorCode.INVALID_TIMESTAMP
    assert (await caller.produce("stamped", claimed)).error_code == 0


@pytest.mark.parametrize(
    ("setting", "timestamp_ms"),
    [
        ({"message.timestamp.before.max.ms": "1000"}, NOW_MS - 1001),
        ({"message.timestamp.after.max.ms": "1000"}, NOW_MS + 1001),
    ],
)
async def test_times_outside_a_topics_limits_are_refused(
    caller: Caller, setting: dict[str, str | None], timestamp_ms: int
) -> None:
    await caller.create("t", configs=setting)
    row = await caller.produce("t", make_batch(b"a", timestamp_ms=timestamp_ms))
    assert row.error_code == ErrorCode.INVALID_TIMESTAMP
    assert (await caller.produce("t", make_batch(b"a"))).error_code == 0


async def test_max_message_bytes_counts_the_batch_as_it_comes(caller: Caller) -> None:
    await caller.create("t", configs={"max.message.bytes": "500"})
    assert (await caller.produce("t", make_batch(b"x" * 600))).error_code == 10
    packed = make_batch(b"x" * 5000, codec=Codec.ZSTD)
    assert (await caller.produce("t", packed)).error_code == 0


async def test_recompression_must_not_outgrow_the_limit(caller: Caller) -> None:
    await caller.create(
        "t", configs={"max.message.bytes": "500", "compression.type": "uncompressed"}
    )
    packed = make_batch(b"x" * 5000, codec=Codec.ZSTD)
    assert (await caller.produce("t", packed)).error_code == ErrorCode.MESSAGE_TOO_LARGE


async def test_a_compacted_topic_wants_keys(caller: Caller) -> None:
    await caller.create("t", configs={"cleanup.policy": "compact"})
    row = await caller.produce("t", make_batch(b"no key", b"nor here"))
    assert row.error_code == ErrorCode.INVALID_RECORD
    assert [error.batch_index for error in row.record_errors] == [0, 1]


# -- formats, transactions, idempotence -------------------------------------------------------


@pytest.mark.parametrize("version", range(3, 10))
@pytest.mark.parametrize("magic", [0, 1])
async def test_old_message_formats_are_invalid_from_version_3_on(
    caller: Caller, version: int, magic: int
) -> None:
    await caller.create("t")
    row = await caller.produce("t", message(magic), version=version)
    assert row.error_code == ErrorCode.INVALID_RECORD


@pytest.mark.parametrize(("version", "code"), [(3, 76), (6, 76), (7, 0), (9, 0)])
async def test_zstd_is_for_version_7_and_later(caller: Caller, version: int, code: int) -> None:
    await caller.create("t")
    packed = make_batch(b"a" * 100, codec=Codec.ZSTD)
    assert (await caller.produce("t", packed, version=version)).error_code == code


def numbered(sequence: int, *, epoch: int = 0, count: int = 1, producer_id: int = 77) -> bytes:
    return make_batch(
        *[b"v"] * count, producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence
    )


async def test_p24_idempotence_over_the_wire(broker: InProcessBroker, caller: Caller) -> None:
    await caller.create("t")
    for sequence in range(7):
        row = await caller.produce("t", numbered(sequence))
        assert (row.error_code, row.base_offset) == (0, sequence)
    for sequence in range(2, 7):
        again = await caller.produce("t", numbered(sequence))
        assert (again.error_code, again.base_offset) == (0, sequence), "the window of five"
    outside = await caller.produce("t", numbered(0))
    assert outside.error_code == ErrorCode.DUPLICATE_SEQUENCE_NUMBER
    gap = await caller.produce("t", numbered(9))
    assert gap.error_code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert (await caller.produce("t", numbered(0, epoch=1))).base_offset == 7
    stale = await caller.produce("t", numbered(7))
    assert stale.error_code == ErrorCode.INVALID_PRODUCER_EPOCH
    assert (await caller.offset("t", -1)).offset == 8
    await broker.restart()
    async with Caller(broker.port) as later:
        again = await later.produce("t", numbered(0, epoch=1))
        assert (again.error_code, again.base_offset) == (0, 7), "remembered over a restart"


async def test_who_has_been_forgotten_is_told_where_the_log_starts(
    caller: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without it the Java client does not begin anew but repeats itself until its time is up."""
    await caller.create("t")
    row = await caller.produce("t", numbered(3))
    assert (row.error_code, row.log_start_offset) == (ErrorCode.UNKNOWN_PRODUCER_ID, -1)
    monkeypatch.setattr(refused, "FORGOTTEN_S", 0.0)
    row = await caller.produce("t", numbered(3))
    assert (row.error_code, row.log_start_offset) == (ErrorCode.UNKNOWN_PRODUCER_ID, 0)


async def test_a_duplicate_of_what_still_waits_is_answered_with_it() -> None:
    bench = Stalled()
    async with bench.broker, Caller(bench.broker.port) as caller:
        await caller.create("t")
        stall = bench.stall()
        caller.send(produce_request("t", numbered(0)), 9)
        caller.send(produce_request("t", numbered(0)), 9)
        await stall.reached.wait()
        stall.release()
        rows = [(await caller.answer()).responses[0].partition_responses[0] for _ in range(2)]
        assert [(row.error_code, row.base_offset) for row in rows] == [(0, 0), (0, 0)]
        assert (await caller.offset("t", -1)).offset == 1


# -- trouble ---------------------------------------------------------------------------------


async def test_p21_another_writers_segment_makes_us_not_the_leader(
    broker: InProcessBroker, caller: Caller
) -> None:
    await caller.create("t")
    await caller.produce("t", make_batch(b"ours"))
    folder = keys.log_folder(broker.engine.topics.get("t").descriptor.folder, 0)
    taken = bytes(await broker.store.read(keys.segment(folder, 0)))
    # A copy of our first segment under the name of the next: as if another writer had come.
    await broker.store.put_new(keys.segment(folder, 1), [taken])
    row = await caller.produce("t", make_batch(b"lost"))
    assert row.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER


async def test_a_log_that_cannot_be_opened_is_a_retriable_refusal() -> None:
    plan = FaultPlan()
    store = FaultyObjectStore(MemoryObjectStore(), plan)
    async with (
        InProcessBroker(store=store, clock=ManualClock(NOW_MS)) as broker,
        Caller(broker.port) as caller,
    ):
        await caller.create("t")
        plan.add(Rule(Fault.FAIL_BEFORE, "find", "*/t/0", error=StoreUnavailable, times=1))
        row = await caller.produce("t", make_batch(b"a"))
        assert row.error_code == ErrorCode.NOT_ENOUGH_REPLICAS
        assert (await caller.produce("t", make_batch(b"a"))).error_code == 0
