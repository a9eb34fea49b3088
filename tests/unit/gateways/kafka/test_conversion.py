"""Old clients at the door: what they send is stored as format 2, what they read is converted."""

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest

from kafscale.broker.config_sections import StorageSection, TopicsSection
from kafscale.broker.config_values import FormatVersion
from kafscale.gateways.kafka import conversion
from kafscale.records import batch as batches
from kafscale.records import compression, legacy_down, legacy_up, record, validation
from kafscale.records.batch import CONTROL, read_header
from kafscale.records.compression import Codec
from kafscale.records.record import Record, build_batch
from kafscale.testing.clock import ManualClock
from kafscale.testing.in_process import FOR_TESTS, InProcessBroker
from kafscale.wire.kafka.errors import ErrorCode
from kafscale.wire.kafka.messages.fetch import PartitionData
from kafscale.wire.kafka.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from tests.support.old_wire import GZIP, NONE, Old, message, plain, shallow, wrapper
from tests.unit.gateways.kafka.caller import (
    NOW_MS,
    Caller,
    fetch_request,
    headers_of,
    make_batch,
    produce_request,
    records_of,
    values_of,
)
from tests.unit.gateways.kafka.settings import changed
from tests.unit.records import legacy_oracles
from tests.unit.records.samples import resigned

ROWS = [Old(n, NOW_MS + n, b"k%d" % n, b"value") for n in range(3)]
OLD_FETCHES = pytest.mark.parametrize(("version", "magic"), [(0, 0), (1, 0), (2, 1), (3, 1)])


def olds(row: PartitionData) -> list[Old]:
    """What a client of old reads."""
    assert row.error_code == 0
    assert isinstance(row.records, memoryview)
    return legacy_oracles.parse("kafka-python", bytes(row.records))


def magics(row: PartitionData) -> set[int]:
    assert isinstance(row.records, memoryview)
    return {magic for _, magic, _ in shallow(row.records)}


def stored(row: PartitionData) -> list[Old]:
    return [Old(*one[:4]) for one in records_of(row)]


def timed(rows: list[Old], magic: int) -> list[Old]:
    return rows if magic else [row._replace(timestamp_ms=-1) for row in rows]


def large(magic: int, count: int = 500) -> bytes:
    return plain([Old(n, NOW_MS, None, b"%05d" % n + bytes(95)) for n in range(count)], magic)


async def put(broker: InProcessBroker, raw: bytes) -> None:
    """Append a batch no producer could send: what compaction or a transaction leaves behind."""
    topic = broker.engine.topics.get("t")
    log, lane = await broker.engine.logs.open(topic, 0)
    data = memoryview(bytearray(raw))
    done = log.append(lane.number, read_header(data), data, acknowledged=False).committed
    assert done is not None
    assert await done is None


# -- producing -------------------------------------------------------------------------------


@pytest.mark.parametrize("codec", legacy_oracles.CODECS)
@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("version", [0, 1, 2])
async def test_the_magic_byte_counts_whatever_the_version(
    caller: Caller, version: int, magic: int, codec: Codec
) -> None:
    await caller.create("t")
    inside = plain(ROWS, magic)
    records = wrapper(magic, inside, codec) if codec else inside
    for base in (0, 3):
        row = await caller.produce("t", records, version=version)
        assert (row.error_code, row.base_offset, row.log_append_time_ms) == (0, base, -1)
    found = await caller.fetch("t")
    again = [one._replace(offset=one.offset + 3) for one in ROWS]
    assert stored(found) == timed(ROWS + again, magic)
    assert [header.codec for header in headers_of(found)] == [codec, codec]


@pytest.mark.parametrize("version", [0, 1, 2])
async def test_format_2_is_taken_by_old_versions_too(caller: Caller, version: int) -> None:
    await caller.create("t")
    sent = make_batch(b"a", b"b", codec=Codec.LZ4)
    assert (await caller.produce("t", sent, version=version)).error_code == 0
    found = await caller.fetch("t")
    assert isinstance(found.records, memoryview)
    assert found.records[16:] == sent[16:]
    zstd = make_batch(b"a", codec=Codec.ZSTD)
    refused = await caller.produce("t", zstd, version=version)
    assert refused.error_code == ErrorCode.UNSUPPORTED_COMPRESSION_TYPE


async def test_a_set_larger_than_a_batch_may_be_is_stored_as_several(caller: Caller) -> None:
    await caller.create("t", configs={"max.message.bytes": "10000"})
    row = await caller.produce("t", large(1), version=2)
    assert (row.error_code, row.base_offset) == (0, 0)
    assert (await caller.produce("t", message(1), version=2)).base_offset == 500
    found = await caller.fetch("t")
    assert len(headers_of(found)) == 8
    assert [value[:5] for value in values_of(found)[:500] if value] == [
        b"%05d" % n for n in range(500)
    ]


async def test_of_a_set_with_one_bad_message_nothing_is_stored(caller: Caller) -> None:
    await caller.create("t", configs={"max.message.bytes": "10000"})
    for bad in (message(1, None, bytes(10_000)), message(1)[:-1] + b"w", message(0)):
        row = await caller.produce("t", large(1) + bad, version=2)
        assert row.error_code != 0
        assert row.base_offset == -1
    assert (await caller.fetch("t")).high_watermark == 0


async def test_append_time_is_stamped_over_whatever_the_producer_wrote(
    caller: Caller, clock: ManualClock
) -> None:
    await caller.create("t", configs={"message.timestamp.type": "LogAppendTime"})
    for magic, codec in ((0, NONE), (1, NONE), (1, GZIP)):
        inside = plain(ROWS, magic)
        records = wrapper(magic, inside, codec) if codec else inside
        row = await caller.produce("t", records, version=2)
        assert (row.error_code, row.log_append_time_ms) == (0, NOW_MS)
    found = await caller.fetch("t")
    assert {one.timestamp_ms for one in records_of(found)} == {NOW_MS}
    first = headers_of(found)[0]
    assert first.log_append_time
    assert (first.base_timestamp_ms, first.max_timestamp_ms) == (-1, NOW_MS)
    for version in (2, 3):
        row2 = await caller.fetch("t", version=version)
        assert {one.timestamp_ms for one in olds(row2)} == {NOW_MS}
        assert isinstance(row2.records, memoryview)
        assert row2.records[17] == batches.LOG_APPEND_TIME


async def test_times_outside_a_topics_limits_are_invalid_but_none_at_all_is_not(
    caller: Caller,
) -> None:
    await caller.create("t", configs={"message.timestamp.before.max.ms": "1000"})
    late = await caller.produce("t", message(1, timestamp_ms=NOW_MS - 2000), version=2)
    assert late.error_code == ErrorCode.INVALID_TIMESTAMP
    assert (await caller.produce("t", message(0), version=1)).error_code == 0


@pytest.mark.parametrize("magic", [0, 1])
async def test_a_compacted_topic_wants_keys_in_old_formats_too(caller: Caller, magic: int) -> None:
    await caller.create("t", configs={"cleanup.policy": "compact"})
    bad = await caller.produce("t", message(magic, None), version=2)
    assert bad.error_code == ErrorCode.INVALID_RECORD
    assert (await caller.produce("t", message(magic, b"k", None), version=2)).error_code == 0


@pytest.mark.parametrize("codec", ["none", "zstd", "gzip"])
async def test_a_topics_own_codec_is_packed_once(
    caller: Caller, codec: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    await caller.create("t", configs={"compression.type": codec})
    monkeypatch.setattr(record, "recompress", _never)
    for records in (plain(ROWS, 1), wrapper(1, plain(ROWS, 1), GZIP)):
        assert (await caller.produce("t", records, version=2)).error_code == 0
    found = await caller.fetch("t")
    assert {Codec(header.codec).name.lower() for header in headers_of(found)} == {codec}
    assert len(values_of(found)) == 6


async def test_acks_0_takes_old_formats_and_closes_on_bad_ones(broker: InProcessBroker) -> None:
    async with Caller(broker.port) as caller:
        await caller.create("t")
        for records in (plain(ROWS, 1), large(0)):
            caller.send(produce_request("t", records, acks=0), 1)
            caller._sent.pop()
        assert (await caller.produce("t", message(0), version=0)).base_offset == 503
        caller.send(produce_request("t", message(0)[:-1] + b"w", acks=0), 1)
        assert await caller.is_closed()


async def test_one_request_may_mix_formats_and_refusals(caller: Caller) -> None:
    await caller.create("t", 5)
    data = [
        PartitionProduceData(0, large(0)),
        PartitionProduceData(1, make_batch(b"a")),
        PartitionProduceData(2, wrapper(1, b"garbage", GZIP)),
        PartitionProduceData(3, message(1)),
        PartitionProduceData(9, large(1)),
        PartitionProduceData(4, None),
    ]
    topics = [TopicProduceData("nobody", data[:1]), TopicProduceData("t", data)]
    answer = await caller.ask(ProduceRequest(None, -1, 5000, topics), 2)
    found = [row.error_code for one in answer.responses for row in one.partition_responses]
    assert found == [3, 0, 0, 87, 0, 3, 87]


async def test_large_sets_are_converted_beside_the_event_loop_and_keep_their_order(
    caller: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads: list[bool] = []
    real = legacy_up.to_batches

    def watched(*arguments: Any) -> Any:
        threads.append(threading.current_thread() is threading.main_thread())
        return real(*arguments)

    monkeypatch.setattr(legacy_up, "to_batches", watched)
    await caller.create("t")
    sent = [
        (large(1), 2),
        (make_batch(b"x"), 9),
        (message(0), 0),
        (wrapper(1, message(1), GZIP), 2),
        (make_batch(b"y"), 9),
    ]
    for records, version in sent:
        caller.send(produce_request("t", records), version)
    firsts = [(await caller.answer()).responses[0].partition_responses[0] for _ in sent]
    assert [row.base_offset for row in firsts] == [0, 500, 501, 502, 503]
    assert threads == [False, True, False]


# -- fetching --------------------------------------------------------------------------------


@pytest.mark.parametrize("codec", legacy_oracles.CODECS)
@OLD_FETCHES
async def test_old_consumers_read_what_new_producers_wrote(
    caller: Caller, version: int, magic: int, codec: Codec
) -> None:
    await caller.create("t")
    assert olds(await caller.fetch("t", version=version)) == []
    rows = [Record(n, NOW_MS + n, b"k", b"v" * 50, (("h", b"1"),)) for n in range(5)]
    for _ in range(2):
        await caller.produce("t", build_batch(rows, base_offset=0, codec=codec))
    for first in (0, 3, 5, 9):
        row = await caller.fetch("t", first, version=version)
        assert row.high_watermark == 10
        wanted = [Old(n, NOW_MS + n % 5, b"k", b"v" * 50) for n in range(first, 10)]
        assert olds(row) == timed(wanted, magic)
        assert magics(row) == {magic}
    assert olds(await caller.fetch("t", 10, version=version)) == []
    beyond = await caller.fetch("t", 11, version=version)
    assert beyond.error_code == ErrorCode.OFFSET_OUT_OF_RANGE


@OLD_FETCHES
async def test_old_consumers_read_what_old_producers_wrote(
    caller: Caller, version: int, magic: int
) -> None:
    await caller.create("t")
    for written in (0, 1):
        await caller.produce("t", plain(ROWS, written), version=2)
    found = olds(await caller.fetch("t", version=version))
    assert [row.value for row in found] == [b"value"] * 6
    assert [row.timestamp_ms for row in found[3:]] == [
        row.timestamp_ms for row in timed(ROWS, magic)
    ]


@OLD_FETCHES
async def test_a_limit_below_the_first_message_still_gives_it(
    caller: Caller, version: int, magic: int
) -> None:
    await caller.create("t")
    await caller.produce("t", make_batch(bytes(50_000)))
    await caller.produce("t", make_batch(b"small"))
    for limit in (0, 1, 100):
        row = await caller.fetch("t", version=version, partition_bytes=limit)
        assert [len(one.value or b"") for one in olds(row)] == [50_000]


async def test_converted_answers_keep_their_limits_up_to_a_piece(caller: Caller) -> None:
    await caller.create("t", 3)
    for partition in range(3):
        for _ in range(4):
            batch = make_batch(*[b"x"] * 20_000)
            await caller.produce("t", batch, partition=partition)
    size = len(batch)
    row = await caller.fetch("t", version=3, partition_bytes=3 * size)
    # Three batches were read; as messages one fills the limit.
    assert len(olds(row)) in range(20_000, 40_001)
    request = fetch_request(
        [("t", p, 0) for p in range(3)], max_bytes=3 * size, partition_bytes=3 * size
    )
    answer = await caller.ask(request, 3)
    given = [len(olds(one)) for one in answer.responses[0].partitions]
    assert given[0] > 0
    assert given[1:] == [0, 0]


@OLD_FETCHES
async def test_zstd_is_refused_when_it_comes_first_and_ends_the_answer_otherwise(
    broker: InProcessBroker, caller: Caller, version: int, magic: int
) -> None:
    await caller.create("t")
    await caller.produce("t", make_batch(b"a"))
    await caller.produce("t", make_batch(b"b", codec=Codec.ZSTD))
    await caller.produce("t", make_batch(b"c"))
    assert [one.value for one in olds(await caller.fetch("t", version=version))] == [b"a"]
    row = await caller.fetch("t", 1, version=version)
    assert row.error_code == ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
    assert row.high_watermark == 3
    assert [one.value for one in olds(await caller.fetch("t", 2, version=version))] == [b"c"]
    assert b'reason="not_convertible"' in broker.metrics()


async def test_conversion_can_be_switched_off_by_topic(caller: Caller) -> None:
    configs: dict[str, str | None] = {
        "message.downconversion.enable": "false",
        "message.format.version": "0.9",
    }
    await caller.create("t", configs=configs)
    await caller.produce("t", message(1), version=2)
    for version in range(4):
        row = await caller.fetch("t", version=version)
        assert row.error_code == ErrorCode.UNSUPPORTED_VERSION
        assert (await caller.fetch("t", 1, version=version)).error_code == 0
    assert values_of(await caller.fetch("t", version=4)) == [b"v"]


@pytest.mark.parametrize(
    ("cap", "magic"), [("0.8.2", 0), ("0", 0), ("0.10.2-IV0", 1), ("1", 1), ("0.11.0", 2)]
)
@pytest.mark.parametrize("of_broker", [True, False])
async def test_a_format_version_caps_what_every_consumer_is_handed(
    cap: str, magic: int, of_broker: bool
) -> None:
    topics = TopicsSection(message_format_version=FormatVersion(cap))
    config = changed(FOR_TESTS, topics=topics) if of_broker else FOR_TESTS
    configs: dict[str, str | None] = {} if of_broker else {"message.format.version": cap}
    async with InProcessBroker(config=config) as broker, Caller(broker.port) as caller:
        made = await caller.create("t", configs=configs)
        await caller.produce("t", make_batch(b"a", b"b"))
        for version in range(14):
            name = made.topic_id if version >= 13 else "t"
            row = await caller.fetch(name, 1, version=version)
            asked = 0 if version < 2 else 1 if version < 4 else 2
            handed = min(asked, magic)
            assert magics(row) == {handed}
            if handed < 2:
                assert [(one.offset, one.value) for one in olds(row)] == [(1, b"b")]
            else:
                assert values_of(row) == [b"a", b"b"]


async def test_a_session_on_a_capped_topic_tells_only_news(caller: Caller) -> None:
    await caller.create("t", configs={"message.format.version": "0.10"})
    await caller.produce("t", make_batch(b"a"))
    first = await caller.ask(fetch_request([("t", 0, 0)], session_epoch=0), 12)
    assert [one.value for one in olds(first.responses[0].partitions[0])] == [b"a"]
    session = {"session_id": first.session_id}
    quiet = await caller.ask(fetch_request([("t", 0, 1)], session_epoch=1, **session), 12)
    assert quiet.responses == []
    await caller.produce("t", make_batch(b"b"))
    news = await caller.ask(fetch_request([], session_epoch=2, **session), 12)
    assert [one.value for one in olds(news.responses[0].partitions[0])] == [b"b"]


# -- what is left of a log after compaction ----------------------------------------------------


@pytest.mark.parametrize("codec", legacy_oracles.CODECS)
@OLD_FETCHES
async def test_an_offset_in_a_hole_gets_what_comes_behind_it(
    broker: InProcessBroker, caller: Caller, version: int, magic: int, codec: Codec
) -> None:
    await caller.create("t")
    holed = resigned(make_batch(b"a", b"b", codec=codec), last_offset_delta=9)
    await put(broker, holed)
    await put(broker, resigned(make_batch(b"marker"), attributes=CONTROL))
    await put(broker, make_batch(b"c", codec=codec))
    for first in (0, 1, 2, 9, 10, 11):
        row = await caller.fetch("t", first, version=version)
        wanted = [Old(n, NOW_MS, None, v) for n, v in ((0, b"a"), (1, b"b"), (11, b"c"))]
        wanted[1] = wanted[1]._replace(timestamp_ms=NOW_MS + 1)
        assert olds(row) == timed([one for one in wanted if one.offset >= first], magic)
        assert row.high_watermark == 12


async def test_a_hole_at_the_end_of_the_log_is_waited_out_and_not_asked_about_in_circles(
    broker: InProcessBroker, caller: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = 0
    real = legacy_down.to_messages

    def counted(*arguments: Any) -> Any:
        nonlocal asked
        asked += 1
        return real(*arguments)

    monkeypatch.setattr(legacy_down, "to_messages", counted)
    await caller.create("t")
    await put(broker, resigned(make_batch(b"a"), last_offset_delta=9))
    row = await caller.fetch("t", 1, version=2, max_wait_ms=50)
    assert olds(row) == []
    assert asked == 1
    caller.send(fetch_request([("t", 0, 1)], max_wait_ms=30_000), 2)
    async with Caller(broker.port) as producer:
        await asyncio.sleep(0)
        await producer.produce("t", make_batch(b"b"))
    (row,) = (await caller.answer()).responses[0].partitions
    assert [(one.offset, one.value) for one in olds(row)] == [(10, b"b")]


async def test_stored_bytes_that_cannot_be_opened_are_trouble_with_the_store(
    broker: InProcessBroker, caller: Caller
) -> None:
    await caller.create("t")
    await put(broker, resigned(make_batch(b"a"), record_count=7, last_offset_delta=6))
    row = await caller.fetch("t", version=2)
    assert row.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert b"corrupt" not in broker.metrics()


# -- format 2 pays nothing ---------------------------------------------------------------------


def _never(*arguments: Any, **named: Any) -> Any:
    raise AssertionError("a batch of format 2 was opened")


_OPENERS: list[tuple[Any, str]] = [
    (legacy_down, "to_messages"),
    (legacy_down, "decompress"),
    (legacy_down, "compress"),
    (legacy_up, "to_batches"),
    (record, "compress"),
    (record, "decompress"),
    (compression, "compress"),
    (compression, "decompress"),
    (validation, "decompress"),
    (conversion, "to_hand_out"),
    (conversion, "to_store"),
]


@pytest.mark.parametrize("codec", Codec)
async def test_traffic_of_format_2_is_never_opened_nor_packed(
    codec: Codec, monkeypatch: pytest.MonkeyPatch
) -> None:
    storage = StorageSection(validation="batches")
    config = changed(FOR_TESTS, storage=storage)
    sent = make_batch(*[b"value" * 20] * 100, codec=codec)
    async with InProcessBroker(config=config) as broker, Caller(broker.port) as caller:
        made = await caller.create("t")
        for module, name in _OPENERS:
            monkeypatch.setattr(module, name, _never)
        for version in range(7 if codec is Codec.ZSTD else 2, 10):
            assert (await caller.produce("t", sent, version=version)).error_code == 0
        for version in range(4, 14):
            row = await caller.fetch(made.topic_id if version >= 13 else "t", 0, version=version)
            assert isinstance(row.records, memoryview)
            assert len(row.records) % len(sent) == 0
            for at in range(0, len(row.records), len(sent)):
                # Offset and leader epoch are stamped, both outside the checksum.
                assert row.records[at + 16 : at + len(sent)] == sent[16:]


async def test_conversions_take_turns() -> None:
    most = running = 0
    lock = threading.Lock()
    gate = threading.Event()

    def work() -> int:
        nonlocal most, running
        with lock:
            running += 1
            most = max(most, running)
        gate.wait(5)
        with lock:
            running -= 1
        return 1

    conversions = conversion.Conversions()
    tasks: list[Callable[[], int]] = [work] * 5
    async with asyncio.TaskGroup() as group:
        done = [group.create_task(conversions.run(one)) for one in tasks]
        await asyncio.sleep(0.05)
        gate.set()
    assert sum(one.result() for one in done) == 5
    assert most <= 2
