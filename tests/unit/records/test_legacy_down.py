"""Batches on their way to consumers of formats 0 and 1."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafscale.model.errors import BatchTooLarge, CorruptBatch, KafscaleError, NotConvertible
from kafscale.records import legacy_down
from kafscale.records.batch import CONTROL, LOG_APPEND_TIME, stamp, stamp_append_time
from kafscale.records.compression import Codec
from kafscale.records.legacy_down import to_messages
from kafscale.records.legacy_up import to_batches
from kafscale.records.record import Record, build_batch
from kafscale.records.validation import BatchLimits
from tests.golden.annotate import from_text
from tests.support.examples import examples
from tests.support.old_wire import Old, plain, shallow
from tests.unit.records import legacy_oracles
from tests.unit.records.samples import (
    NOW_MS,
    even_records,
    mixed_records,
    numbered,
    resigned,
    with_payload,
)

GOLDEN = Path(__file__).parents[2] / "golden/messages"
LIMIT = 1 << 24
LIMITS = BatchLimits(max_message_bytes=LIMIT, max_segment_bytes=LIMIT, max_decompressed_bytes=LIMIT)
BOTH = pytest.mark.parametrize("magic", [0, 1])
CODECS = pytest.mark.parametrize("codec", legacy_oracles.CODECS)


def converted(batch: bytes | bytearray, magic: int, first_offset: int = 0) -> bytes:
    return b"".join(to_messages(batch, magic, first_offset, LIMIT))


def olds(records: list[Record], magic: int) -> list[Old]:
    return [Old(r.offset, r.timestamp_ms if magic else -1, r.key, r.value) for r in records]


def read(messages: bytes) -> list[Old]:
    return legacy_oracles.parse("kafka-python", messages)


# -- what must come out ----------------------------------------------------------------------


@BOTH
def test_the_golden_batch_becomes_the_golden_messages(magic: int) -> None:
    batch = from_text((GOLDEN / "format-2.hex").read_text())
    assert converted(batch, magic) == from_text((GOLDEN / f"format-{magic}.hex").read_text())


def test_append_time_becomes_the_time_of_every_message() -> None:
    batch = bytearray(build_batch([Record(100, 5, b"k", b"v")], base_offset=100))
    stamp_append_time(batch, 1_600_000_000_000)
    golden = from_text((GOLDEN / "format-1-append-time.hex").read_text())
    assert converted(batch, 1) == golden


@CODECS
@BOTH
def test_the_same_codec_is_kept_and_headers_are_left_out(magic: int, codec: Codec) -> None:
    records = [Record(7 + n, NOW_MS + n, b"k", b"v" * 50, (("name", b"x"),)) for n in range(20)]
    messages = converted(build_batch(records, base_offset=7, codec=codec), magic)
    assert read(messages) == olds(records, magic)
    if codec:
        assert list(shallow(messages)) == [(26, magic, codec)]
    else:
        assert list(shallow(messages)) == [(7 + n, magic, 0) for n in range(20)]


@pytest.mark.parametrize("codec", legacy_oracles.CODECS[1:])
def test_a_wrapper_says_append_time_for_all_inside(codec: Codec) -> None:
    batch = bytearray(build_batch(numbered(5), base_offset=0, codec=codec))
    stamp_append_time(batch, NOW_MS + 99)
    messages = converted(batch, 1)
    assert messages[17] == codec | LOG_APPEND_TIME
    assert {row.timestamp_ms for row in read(messages)} == {NOW_MS + 99}
    assert converted(batch, 0)[17] == codec


def test_a_wrapper_has_the_latest_time_inside() -> None:
    times = (NOW_MS, NOW_MS + 50, NOW_MS - 50)
    records = [Record(n, time_ms, None, b"v") for n, time_ms in enumerate(times)]
    messages = converted(build_batch(records, base_offset=0, codec=Codec.GZIP), 1)
    assert int.from_bytes(messages[18:26], signed=True) == NOW_MS + 50
    assert [row.timestamp_ms for row in read(messages)] == list(times)


def test_format_0_gets_the_wrong_lz4_checksum_and_format_1_the_right_one() -> None:
    batch = build_batch(numbered(5), base_offset=0, codec=Codec.LZ4)
    assert converted(batch, 0)[26:33].hex() == "04224d1860401a"
    assert converted(batch, 1)[34:41].hex() == "04224d18604082"


@CODECS
@BOTH
def test_holes_of_a_compacted_log_are_kept(magic: int, codec: Codec) -> None:
    records = [Record(offset, NOW_MS, b"k", b"v") for offset in (100, 103, 107)]
    batch = resigned(build_batch(records, base_offset=100, codec=codec), last_offset_delta=20)
    messages = converted(batch, magic)
    assert read(messages) == olds(records, magic)
    assert legacy_oracles.parse("aiokafka", converted(batch, 1)) == olds(records, 1)
    if codec:
        assert list(shallow(messages)) == [(107, magic, codec)]


@CODECS
@BOTH
def test_records_before_the_offset_asked_for_are_left_out(magic: int, codec: Codec) -> None:
    records = [r._replace(offset=r.offset + 1000) for r in numbered(200)]
    batch = build_batch(records, base_offset=1000, codec=codec)
    for first in (0, 1000, 1001, 1070, 1199):
        wanted = [r for r in records if r.offset >= first]
        assert read(converted(batch, magic, first)) == olds(wanted, magic)
    assert converted(batch, magic, 1200) == b""


@CODECS
@BOTH
def test_an_offset_in_the_hole_at_a_batchs_end_gives_nothing(magic: int, codec: Codec) -> None:
    batch = resigned(
        build_batch(numbered(3), base_offset=0, codec=codec), last_offset_delta=9, record_count=3
    )
    assert converted(batch, magic, 3) == b""


@BOTH
def test_control_batches_and_empty_ones_give_nothing(magic: int) -> None:
    control = resigned(build_batch(numbered(1), base_offset=0), attributes=CONTROL)
    assert converted(control, magic) == b""
    assert converted(with_payload(b"", 0, base_offset=5), magic) == b""


@BOTH
def test_zstd_cannot_be_converted(magic: int) -> None:
    batch = build_batch(numbered(3), base_offset=0, codec=Codec.ZSTD)
    with pytest.raises(NotConvertible, match="codec 4"):
        converted(batch, magic)
    control = resigned(batch, attributes=CONTROL | Codec.ZSTD)
    assert converted(control, magic) == b""


@CODECS
@BOTH
def test_a_large_batch_comes_in_pieces_of_bounded_size(magic: int, codec: Codec) -> None:
    records = numbered(3000, value=bytes(range(256)) * 4)
    batch = build_batch(records, base_offset=0, codec=codec)
    pieces = list(to_messages(batch, magic, 0, LIMIT))
    assert len(pieces) == 4
    assert all(len(piece) < legacy_down._PIECE_BYTES + 2000 for piece in pieces)
    assert read(b"".join(pieces)) == olds(records, magic)
    # A consumer that stops after a piece goes on behind it.
    seen = read(pieces[0])
    rest = b"".join(to_messages(batch, magic, seen[-1].offset + 1, LIMIT))
    assert seen + read(rest) == olds(records, magic)


def test_a_time_beyond_64_bits_wraps_as_everywhere() -> None:
    extreme = [Record(0, 0, None, b"a"), Record(1, 5, None, b"b")]
    batch = resigned(build_batch(extreme, base_offset=0), base_timestamp_ms=2**63 - 1)
    assert [row.timestamp_ms for row in read(converted(batch, 1))] == [2**63 - 1, -(2**63) + 4]


# -- stored bytes that are wrong -------------------------------------------------------------


@pytest.mark.parametrize(
    ("payload", "count"),
    [
        (b"", 1),
        (b"\x10", 1),
        (b"\x10\x00\x00\x00\x02k\x02v\x00", 2),  # one record less than said
        (b"\x02\x00\x00\x00\x02k\x02v\x00", 1),  # ends before it began
        (b"\x10\x00\x00\x00\x7ek\x02v\x00", 1),  # key beyond the record
        (b"\x10\x00\x00\x00\x02k\x7ev\x00", 1),  # value beyond the record
        (b"\x10\x00\x00\x00\x03k\x02v\x00", 1),  # key of -2 bytes
        (b"\x10\x00\x00\x00\x02k\x03v\x00", 1),  # value of -2 bytes
        (b"\x80\x80\x80\x80\x80\x00", 1),
        (b"\xff\xff\xff\xff\x0f\x00\x00\x00\x00\x00\x00", 2**31 - 1),  # ends before the batch
    ],
)
@BOTH
def test_broken_records_are_corrupt(magic: int, payload: bytes, count: int) -> None:
    with pytest.raises(KafscaleError) as refused:
        converted(with_payload(payload, count), magic)
    assert isinstance(refused.value, CorruptBatch) or "does not end" in str(refused.value)


def test_what_unpacks_to_more_than_allowed_is_refused() -> None:
    batch = build_batch(numbered(100, value=bytes(1000)), base_offset=0, codec=Codec.GZIP)
    with pytest.raises(BatchTooLarge):
        list(to_messages(batch, 1, 0, 50_000))


@examples(200)
@given(st.binary(max_size=60), st.integers(1, 2**31 - 1), st.sampled_from([0, 1]))
def test_any_stored_bytes_end_in_messages_or_an_error(
    payload: bytes, count: int, magic: int
) -> None:
    try:
        messages = converted(with_payload(payload, count), magic)
    except KafscaleError:
        return
    assert read(messages)


# -- properties ------------------------------------------------------------------------------


@pytest.mark.parametrize(("client", "magic", "codec"), legacy_oracles.CASES)
@examples(15)
@given(records=mixed_records() | even_records(), base=st.sampled_from([0, 63, 8191, 2**40]))
def test_other_clients_read_what_was_stored(
    client: str, magic: int, codec: Codec, records: list[Record], base: int
) -> None:
    batch = bytearray(build_batch(records, base_offset=0, codec=codec))
    stamp(batch, base, 3)
    moved = [record._replace(offset=record.offset + base) for record in records]
    assert legacy_oracles.parse(client, converted(batch, magic)) == olds(moved, magic)


@CODECS
@BOTH
@examples(15)
@given(records=mixed_records())
def test_down_and_up_again_is_the_same(magic: int, codec: Codec, records: list[Record]) -> None:
    records = [r._replace(timestamp_ms=r.timestamp_ms if magic else -1) for r in records]
    batch = build_batch(records, base_offset=0, codec=codec)
    messages = converted(batch, magic)
    (again,) = to_batches(messages, LIMITS, NOW_MS)
    assert again == build_batch(
        [r._replace(headers=()) for r in records], base_offset=0, codec=codec
    )


@BOTH
@examples(50)
@given(records=mixed_records())
def test_up_and_down_again_is_the_same(magic: int, records: list[Record]) -> None:
    messages = plain(olds(records, magic), magic)
    (batch,) = to_batches(messages, LIMITS, NOW_MS)
    assert converted(batch, magic) == messages
