"""Record sets that take long are checked beside the event loop; what they unpack to is bounded."""

import threading
from typing import Any

import pytest

from kafscale.gateways.kafka.records import record_sets
from kafscale.records import compression, record
from kafscale.records.compression import Codec
from kafscale.testing.in_process import InProcessBroker
from kafscale.wire.kafka.errors import ErrorCode
from kafscale.wire.kafka.messages.api_versions import ApiVersionsRequest
from kafscale.wire.kafka.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    TopicProduceData,
)
from tests.unit.gateways.kafka.caller import Caller, headers_of, make_batch, produce_request

MIB = 1 << 20
PACKED = [codec for codec in Codec if codec is not Codec.NONE]


class Unpacked:
    """Bytes that were unpacked, by the event loop and by other threads."""

    def __init__(self) -> None:
        self.by_loop = self.beside = 0

    def note(self, size: int) -> None:
        if threading.current_thread() is threading.main_thread():
            self.by_loop += size
        else:
            self.beside += size


@pytest.fixture
def unpacked(monkeypatch: pytest.MonkeyPatch) -> Unpacked:
    counts = Unpacked()
    real = compression.decompress

    def watched(codec: Codec, data: Any, limit: int) -> Any:
        try:
            result = real(codec, data, limit)
        except Exception:
            counts.note(limit)
            raise
        counts.note(len(result))
        return result

    monkeypatch.setattr(compression, "decompress", watched)
    return counts


async def produce_many(caller: Caller, *batches: bytes) -> list[PartitionProduceResponse]:
    """One request with a batch for each partition of topic t."""
    data = [PartitionProduceData(number, one) for number, one in enumerate(batches)]
    request = ProduceRequest(None, -1, 20_000, [TopicProduceData("t", data)])
    answer = await caller.ask(request, 9)
    rows: list[PartitionProduceResponse] = answer.responses[0].partition_responses
    return rows


@pytest.mark.parametrize("codec", PACKED)
async def test_what_unpacks_to_little_is_checked_by_the_event_loop(
    caller: Caller, unpacked: Unpacked, codec: Codec
) -> None:
    await caller.create("t", 4)
    rows = await produce_many(caller, *[make_batch(bytes(10_000), codec=codec)] * 4)
    assert [row.error_code for row in rows] == [0] * 4
    assert unpacked.by_loop > 40_000
    assert unpacked.beside == 0


@pytest.mark.parametrize("codec", PACKED)
async def test_the_event_loop_unpacks_up_to_a_limit_and_a_thread_the_rest(
    caller: Caller, unpacked: Unpacked, codec: Codec
) -> None:
    await caller.create("t", 12)
    rows = await produce_many(caller, *[make_batch(bytes(800_000), codec=codec)] * 12)
    assert [row.error_code for row in rows] == [0] * 12
    assert unpacked.by_loop <= MIB
    assert unpacked.beside >= 11 * 800_000


async def test_a_request_that_unpacks_to_very_much_is_stored_in_part(
    broker: InProcessBroker, caller: Caller, unpacked: Unpacked
) -> None:
    """400 batches of some 400 bytes and 10 MB: its client sends the others again."""
    await caller.create("t", 400)
    bomb = make_batch(bytes(10_000_000), codec=Codec.ZSTD)
    assert len(bomb) < 1000
    rows = await produce_many(caller, *[bomb] * 400)
    codes = [row.error_code for row in rows]
    stored = codes.count(0)
    assert codes == [0] * stored + [ErrorCode.NOT_ENOUGH_REPLICAS] * (400 - stored)
    assert stored == 3
    assert unpacked.by_loop <= MIB
    assert unpacked.beside <= 42 * MIB  # the budget, and what could not be told in advance
    again = await produce_many(caller, *[bomb] * 3)
    assert [row.base_offset for row in again] == [1, 1, 1]


async def test_batches_that_are_refused_use_the_budget_too(
    caller: Caller, unpacked: Unpacked
) -> None:
    await caller.create("t", 100)
    rows = await produce_many(caller, *[make_batch(bytes(20_000_000), codec=Codec.ZSTD)] * 100)
    codes = {row.error_code for row in rows}
    assert codes == {ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.NOT_ENOUGH_REPLICAS}
    assert unpacked.by_loop <= MIB
    assert unpacked.beside <= 42 * MIB


async def test_a_request_that_sends_much_may_unpack_to_more(
    caller: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(record_sets, "_LEAST_BUDGET_BYTES", 1)
    await caller.create("t", 100)
    noise = bytes(range(256)) * 4
    batch = make_batch(noise + bytes(50 * len(noise)), codec=Codec.GZIP)
    rows = await produce_many(caller, *[batch] * 100)
    assert [row.error_code for row in rows] == [0] * 100


async def test_requests_behind_one_that_is_checked_beside_the_loop_keep_their_order(
    caller: Caller,
) -> None:
    await caller.create("t")
    large = make_batch(bytes(5_000_000), codec=Codec.ZSTD)
    for records in (large, make_batch(b"x"), large, make_batch(b"y")):
        caller.send(produce_request("t", records), 9)
    rows = [(await caller.answer()).responses[0].partition_responses[0] for _ in range(4)]
    assert [row.base_offset for row in rows] == [0, 1, 2, 3]


async def test_other_connections_are_served_while_a_request_is_checked(
    broker: InProcessBroker, caller: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = threading.Event()
    real = record_sets._check_piece

    def slow(*arguments: Any) -> Any:
        assert gate.wait(20)
        return real(*arguments)

    monkeypatch.setattr(record_sets, "_check_piece", slow)
    await caller.create("t")
    await caller.create("other")
    caller.send(produce_request("t", make_batch(bytes(5_000_000), codec=Codec.ZSTD)), 9)
    async with Caller(broker.port) as innocent:
        for base in range(20):
            row = await innocent.produce("other", make_batch(b"v"))
            assert (row.error_code, row.base_offset) == (0, base)
        gate.set()
    assert (await caller.answer()).responses[0].partition_responses[0].error_code == 0
    assert (await caller.ask(ApiVersionsRequest("tests", "1"), 3)).error_code == 0


async def test_very_many_records_are_walked_beside_the_event_loop(
    caller: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    by_loop: list[bool] = []
    real = record_sets._check

    def watched(*arguments: Any) -> Any:
        by_loop.append(threading.current_thread() is threading.main_thread())
        return real(*arguments)

    monkeypatch.setattr(record_sets, "_check", watched)
    await caller.create("t", 3)
    many = make_batch(*[b"v"] * 9_000)
    assert {row.error_code for row in await produce_many(caller, many, many)} == {0}
    assert by_loop == []  # checked when they are appended
    assert {row.error_code for row in await produce_many(caller, many, many, many)} == {0}
    assert by_loop == [False] * 3


async def test_a_topics_own_compression_is_applied_beside_the_event_loop(
    caller: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    by_loop: list[bool] = []
    real = record.recompress

    def watched(*arguments: Any) -> Any:
        by_loop.append(threading.current_thread() is threading.main_thread())
        return real(*arguments)

    monkeypatch.setattr(record, "recompress", watched)
    await caller.create("t", configs={"compression.type": "gzip"})
    for records in (make_batch(b"small"), make_batch(bytes(500_000))):
        assert (await caller.produce("t", records)).error_code == 0
    assert by_loop == [True, False]
    assert {header.codec for header in headers_of(await caller.fetch("t"))} == {Codec.GZIP}


async def test_a_bad_batch_that_was_checked_early_gets_its_own_error(caller: Caller) -> None:
    await caller.create("t", 3, configs={"cleanup.policy": "compact"})
    broken = bytearray(make_batch(b"v", codec=Codec.ZSTD))
    broken[-2] ^= 1
    keyless = make_batch(b"v", b"w", codec=Codec.ZSTD)
    refused = await caller.produce("t", bytes(broken))
    assert refused.error_code == ErrorCode.CORRUPT_MESSAGE
    refused = await caller.produce("t", keyless)
    assert refused.error_code == ErrorCode.INVALID_RECORD
    assert [one.batch_index for one in refused.record_errors] == [0, 1]
