"""What old producers send is stored as format 2; what is format 2 already pays nothing for it."""

import threading
from typing import Any

import pytest

from kafscale.gateways.kafka.records import conversion
from kafscale.records import batch as batches
from kafscale.records import compression, legacy_down, legacy_up, record, validation
from kafscale.records.compression import Codec
from kafscale.settings.sections import StorageSection
from kafscale.testing.clock import ManualClock
from kafscale.testing.in_process import FOR_TESTS, InProcessBroker
from kafscale.wire.kafka.errors import ErrorCode
from kafscale.wire.kafka.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from tests.support.old_wire import GZIP, NONE, message, plain, wrapper
from tests.unit.gateways.kafka.caller import (
    NOW_MS,
    Caller,
    headers_of,
    make_batch,
    produce_request,
    records_of,
    values_of,
)
from tests.unit.gateways.kafka.old_caller import ROWS, large, olds, stored, timed
from tests.unit.gateways.kafka.settings import changed
from tests.unit.records import legacy_oracles


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
    topics = [TopicProduceData("missing", data[:1]), TopicProduceData("t", data)]
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
    assert sorted(threads) == [False, False, True]


async def test_many_small_sets_in_a_request_are_converted_beside_the_event_loop_too(
    caller: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads: set[bool] = set()
    real = legacy_up.to_batches

    def watched(*arguments: Any) -> Any:
        threads.add(threading.current_thread() is threading.main_thread())
        return real(*arguments)

    monkeypatch.setattr(legacy_up, "to_batches", watched)
    await caller.create("t", 100)
    data = [PartitionProduceData(n, large(1, 10)) for n in range(100)]
    answer = await caller.ask(ProduceRequest(None, -1, 5000, [TopicProduceData("t", data)]), 2)
    rows = answer.responses[0].partition_responses
    assert [(row.error_code, row.base_offset) for row in rows] == [(0, 0)] * 100
    assert threads == {False}


# -- format 2 pays nothing -----------------------------------------------------------------------


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
