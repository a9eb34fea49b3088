"""What old consumers read is converted from format 2."""

import asyncio
from typing import Any

import pytest

from kafscale.records import legacy_down
from kafscale.records.batch import CONTROL
from kafscale.records.compression import Codec
from kafscale.records.record import Record, build_batch
from kafscale.settings.sections import TopicsSection
from kafscale.settings.values import FormatVersion
from kafscale.testing.in_process import FOR_TESTS, InProcessBroker
from kafscale.wire.kafka.errors import ErrorCode
from tests.support.old_wire import Old, message, plain
from tests.unit.gateways.kafka.caller import (
    NOW_MS,
    Caller,
    fetch_request,
    make_batch,
    values_of,
)
from tests.unit.gateways.kafka.old_caller import ROWS, magics, olds, put, timed
from tests.unit.gateways.kafka.settings import changed
from tests.unit.records import legacy_oracles
from tests.unit.records.samples import resigned

OLD_FETCHES = pytest.mark.parametrize(("version", "magic"), [(0, 0), (1, 0), (2, 1), (3, 1)])


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


# -- what is left of a log after compaction ------------------------------------------------------


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
