"""Sets of formats 0 and 1 on their way into the log: every case a producer can make of them."""

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafscale.model.errors import (
    BadBatch,
    BatchTooLarge,
    CorruptBatch,
    InvalidRecord,
    InvalidTimestamp,
    RecordListTooLarge,
)
from kafscale.records.batch import read_header
from kafscale.records.compression import Codec, compress
from kafscale.records.legacy import with_wrong_lz4_checksum
from kafscale.records.legacy_up import to_batches
from kafscale.records.record import open_batch
from kafscale.records.validation import NO_LIMIT, BatchLimits, validate
from tests.golden.annotate import from_text
from tests.support.examples import examples
from tests.support.old_wire import (
    APPEND_TIME,
    GZIP,
    LZ4,
    NONE,
    SNAPPY,
    Old,
    forged,
    message,
    plain,
    wrapper,
)
from tests.unit.records import legacy_oracles
from tests.unit.records.samples import NOW_MS

GOLDEN = Path(__file__).parents[2] / "golden/messages"
LIMITS = BatchLimits(
    max_message_bytes=10_000, max_segment_bytes=100_000, max_decompressed_bytes=100_000
)
PACKED = (GZIP, SNAPPY, LZ4)
BOTH = pytest.mark.parametrize("magic", [0, 1])

ROWS = [
    Old(0, NOW_MS, b"k", b"v"),
    Old(1, NOW_MS + 5, None, b"value"),
    Old(2, NOW_MS - 5, b"", None),
    Old(3, NOW_MS + 9000, b"x" * 200, b""),
]


def converted(
    records: bytes, limits: BatchLimits = LIMITS, codec: Codec | None = None, now_ms: int = NOW_MS
) -> list[Old]:
    """The records of all batches, which must be ones that a producer might have sent itself."""
    found: list[Old] = []
    for batch in to_batches(memoryview(records), limits, now_ms, codec):
        header = validate(memoryview(batch), limits, now_ms)
        assert (header.producer_id, header.producer_epoch, header.base_sequence) == (-1, -1, -1)
        assert (header.base_offset, header.leader_epoch) == (0, -1)
        opened = open_batch(batch, 1 << 20)
        assert header.max_timestamp_ms == max(r.timestamp_ms for r in opened)
        assert not any(record.headers for record in opened)
        found += [Old(len(found) + r.offset - i, *r[1:4]) for i, r in enumerate(opened)]
    return [row._replace(offset=at) for at, row in enumerate(found)]


def timed(rows: list[Old], magic: int) -> list[Old]:
    return rows if magic else [row._replace(timestamp_ms=-1) for row in rows]


def codecs(records: bytes, codec: Codec | None = None) -> list[int]:
    return [read_header(one).codec for one in to_batches(records, LIMITS, NOW_MS, codec)]


# -- what must come out ----------------------------------------------------------------------


@pytest.mark.parametrize("magic", [0, 1])
def test_the_golden_messages_become_the_golden_batch(magic: int) -> None:
    old = from_text((GOLDEN / f"format-{magic}.hex").read_text())
    (batch,) = to_batches(old, LIMITS, 2000)
    if magic:
        wanted = bytearray(from_text((GOLDEN / "format-2.hex").read_text()))
        wanted[:8] = bytes(8)  # the place is the log's to give
        assert batch == wanted
    records = [r[1:4] for r in open_batch(batch, 100)]
    times = (1000, 1005) if magic else (-1, -1)
    assert records == [(times[0], b"k", b"v"), (times[1], None, None)]


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4"])
@BOTH
def test_the_golden_wrappers_are_opened(magic: int, codec: str) -> None:
    old = from_text((GOLDEN / f"kafka-python-format-{magic}-{codec}.hex").read_text())
    assert converted(old, now_ms=2000) == timed(
        [Old(0, 1000, b"k0", b"value"), Old(1, 1001, None, b"value"), Old(2, 1002, b"k2", None)],
        magic,
    )


@BOTH
def test_messages_in_a_row_become_one_batch(magic: int) -> None:
    (batch,) = to_batches(plain(ROWS, magic), LIMITS, NOW_MS)
    header = read_header(batch)
    assert (header.record_count, header.last_offset_delta, header.codec) == (4, 3, 0)
    if magic:
        assert (header.base_timestamp_ms, header.max_timestamp_ms) == (NOW_MS, NOW_MS + 9000)
    else:
        assert (header.base_timestamp_ms, header.max_timestamp_ms) == (-1, -1)
    assert converted(plain(ROWS, magic)) == timed(ROWS, magic)


@pytest.mark.parametrize("codec", PACKED)
@BOTH
def test_a_wrapper_becomes_one_batch_of_the_same_codec(magic: int, codec: int) -> None:
    packed = wrapper(magic, plain(ROWS, magic), codec, offset=3)
    assert converted(packed) == timed(ROWS, magic)
    assert codecs(packed) == [codec]


@BOTH
def test_a_topics_own_codec_wins(magic: int) -> None:
    packed = wrapper(magic, plain(ROWS, magic), GZIP)
    for codec in Codec:
        assert codecs(packed, codec) == [codec]
        assert codecs(plain(ROWS, magic), codec) == [codec]
        assert converted(packed, codec=codec) == timed(ROWS, magic)


@pytest.mark.parametrize(
    "offsets",
    [
        (0, 1, 2, 3),
        (0, 0, 0, 0),
        (-1, -1, -1, -1),
        (100, 103, 107, 200),
        (3, 2, 1, 0),
        (7, 7, 1, 3),
    ],
)
@pytest.mark.parametrize("codec", [NONE, *PACKED])
@BOTH
def test_offsets_that_producers_wrote_do_not_matter(
    magic: int, codec: int, offsets: tuple[int, ...]
) -> None:
    rows = [row._replace(offset=offset) for row, offset in zip(ROWS, offsets, strict=True)]
    inside = plain(rows, magic)
    for outer in (0, -1, 200, 2**62):
        records = wrapper(magic, inside, codec, offset=outer) if codec else inside
        assert converted(records) == timed(ROWS, magic)


def test_a_wrapper_before_its_last_message_is_invalid_in_format_1() -> None:
    inside = plain(ROWS, 1)
    for offset in (1, 2, -2):
        with pytest.raises(InvalidRecord, match="ends at 3"):
            to_batches(wrapper(1, inside, GZIP, offset=offset), LIMITS, NOW_MS)
    assert converted(wrapper(0, plain(ROWS, 0), GZIP, offset=1)) == timed(ROWS, 0)


@pytest.mark.parametrize("outer", [-1, 0, NOW_MS + 2**30])
def test_the_wrappers_time_does_not_matter(outer: int) -> None:
    assert converted(wrapper(1, plain(ROWS, 1), GZIP, timestamp_ms=outer)) == ROWS


def test_append_time_in_a_wrapper_is_the_time_of_all_inside_and_the_bit_is_cleared() -> None:
    packed = wrapper(1, plain(ROWS, 1), GZIP, timestamp_ms=NOW_MS - 77, attributes=APPEND_TIME)
    (batch,) = to_batches(packed, LIMITS, NOW_MS)
    header = read_header(batch)
    assert not header.log_append_time
    assert (header.base_timestamp_ms, header.max_timestamp_ms) == (NOW_MS - 77, NOW_MS - 77)
    assert converted(packed) == [row._replace(timestamp_ms=NOW_MS - 77) for row in ROWS]


def test_append_time_in_a_plain_message_is_cleared_and_its_time_kept() -> None:
    marked = message(1, timestamp_ms=NOW_MS, attributes=APPEND_TIME)
    (batch,) = to_batches(marked, LIMITS, NOW_MS)
    assert not read_header(batch).log_append_time
    assert read_header(batch).base_timestamp_ms == NOW_MS


@pytest.mark.parametrize("wrong", [True, False])
def test_format_0_takes_both_checksums_of_lz4(wrong: bool) -> None:
    frame = compress(Codec.LZ4, plain(ROWS, 0))
    value = with_wrong_lz4_checksum(frame) if wrong else frame
    assert converted(message(0, None, value, attributes=LZ4)) == timed(ROWS, 0)


def test_format_1_refuses_the_wrong_checksum_of_lz4() -> None:
    value = with_wrong_lz4_checksum(compress(Codec.LZ4, plain(ROWS, 1)))
    with pytest.raises(CorruptBatch, match="lz4"):
        to_batches(message(1, None, value, attributes=LZ4), LIMITS, NOW_MS)


@BOTH
def test_both_framings_of_snappy_are_read(magic: int) -> None:
    streamed = compress(Codec.SNAPPY, plain(ROWS, magic))
    assert streamed.startswith(b"\x82SNAPPY")
    assert converted(message(magic, None, streamed, attributes=SNAPPY)) == timed(ROWS, magic)
    assert converted(wrapper(magic, plain(ROWS, magic), SNAPPY)) == timed(ROWS, magic)


def test_times_as_far_apart_as_can_be_survive() -> None:
    loose = replace(LIMITS, timestamp_after_max_ms=NO_LIMIT, timestamp_before_max_ms=NO_LIMIT)
    times = (2**63 - 1, -1, 0, 2**63 - 1)
    for turned in (times, times[::-1], times[1:], times[2:]):
        rows = [Old(n, time_ms, None, b"v") for n, time_ms in enumerate(turned)]
        (batch,) = to_batches(plain(rows, 1), loose, NOW_MS)
        assert [r.timestamp_ms for r in open_batch(batch, 1000)] == list(turned)


# -- sizes -----------------------------------------------------------------------------------


@BOTH
def test_more_than_one_batch_holds_becomes_several(magic: int) -> None:
    rows = [Old(n, NOW_MS + n, b"%d" % n, b"x" * 700) for n in range(100)]
    batches = to_batches(plain(rows, magic), LIMITS, NOW_MS)
    assert 7 <= len(batches) <= 9
    assert all(len(one) <= LIMITS.max_message_bytes for one in batches)
    assert converted(plain(rows, magic)) == timed(rows, magic)


@BOTH
def test_the_limit_is_for_the_single_message(magic: int) -> None:
    fits = message(magic, None, b"x" * 9_900)
    assert len(converted(fits + fits)) == 2
    with pytest.raises(BatchTooLarge):
        to_batches(fits + message(magic, None, b"x" * 10_000), LIMITS, NOW_MS)


@BOTH
def test_a_message_that_only_as_a_batch_exceeds_the_limit_is_too_large(magic: int) -> None:
    grows = message(magic, None, b"x" * 9_960)
    assert len(grows) < LIMITS.max_message_bytes
    with pytest.raises(BatchTooLarge, match="as a batch"):
        to_batches(message(magic) + grows, LIMITS, NOW_MS)


def test_a_batch_larger_than_a_segment_is_refused() -> None:
    with pytest.raises(RecordListTooLarge):
        to_batches(message(1, None, b"x" * 500), replace(LIMITS, max_segment_bytes=400), NOW_MS)


@pytest.mark.parametrize("codec", PACKED)
@BOTH
def test_a_bomb_is_too_large_long_before_it_is_unpacked(magic: int, codec: int) -> None:
    bomb = wrapper(magic, bytes(150_000), codec)
    assert len(bomb) < LIMITS.max_message_bytes
    with pytest.raises(BatchTooLarge, match="unpack to more than 100000"):
        to_batches(bomb, LIMITS, NOW_MS)


@BOTH
def test_many_tiny_messages_are_as_good_as_few(magic: int) -> None:
    rows = [Old(n, NOW_MS, None, b"") for n in range(9_000)]
    loose = replace(LIMITS, max_message_bytes=100_000, max_decompressed_bytes=1 << 20)
    assert converted(wrapper(magic, plain(rows, magic), GZIP), loose) == timed(rows, magic)


# -- times and keys --------------------------------------------------------------------------


def test_format_0_has_no_time_to_be_refused() -> None:
    strict = replace(LIMITS, timestamp_before_max_ms=10, timestamp_after_max_ms=10)
    assert len(to_batches(plain(ROWS, 0), strict, NOW_MS)) == 1
    assert len(to_batches(message(1, timestamp_ms=-1), strict, NOW_MS)) == 1


@pytest.mark.parametrize("off", [-11, 11])
@pytest.mark.parametrize("codec", [NONE, GZIP])
def test_a_time_too_far_from_now_is_invalid_wherever_it_stands(codec: int, off: int) -> None:
    strict = replace(LIMITS, timestamp_before_max_ms=10, timestamp_after_max_ms=10)
    for before in (b"", message(1, timestamp_ms=NOW_MS)):
        inside = before + message(1, timestamp_ms=NOW_MS + off)
        with pytest.raises(InvalidTimestamp):
            to_batches(wrapper(1, inside, codec) if codec else inside, strict, NOW_MS)


def test_append_time_in_a_wrapper_must_be_near_too() -> None:
    strict = replace(LIMITS, timestamp_before_max_ms=10)
    packed = wrapper(1, plain(ROWS, 1), GZIP, timestamp_ms=5, attributes=APPEND_TIME)
    with pytest.raises(InvalidTimestamp):
        to_batches(packed, strict, NOW_MS)


@pytest.mark.parametrize("time_ms", [-2, -(2**63)])
def test_a_time_below_none_is_invalid(time_ms: int) -> None:
    usual = replace(LIMITS, timestamp_after_max_ms=3_600_000)
    with pytest.raises(InvalidTimestamp):
        to_batches(message(1, timestamp_ms=time_ms), usual, NOW_MS)


def test_any_producer_time_will_do_where_the_topic_does_not_limit_it() -> None:
    times = (-(2**63), 2**63 - 1, 0, -2)
    rows = [Old(n, time_ms, None, b"v") for n, time_ms in enumerate(times)]
    (batch,) = to_batches(plain(rows, 1), LIMITS, NOW_MS)
    assert [r.timestamp_ms for r in open_batch(batch, 1000)] == list(times)


def test_append_time_without_a_time_is_no_time() -> None:
    usual = replace(LIMITS, timestamp_after_max_ms=3_600_000)
    packed = wrapper(1, plain(ROWS, 1), GZIP, timestamp_ms=-1, attributes=APPEND_TIME)
    (batch,) = to_batches(packed, usual, NOW_MS)
    assert read_header(batch).max_timestamp_ms == -1


@pytest.mark.parametrize("codec", [NONE, GZIP])
@BOTH
def test_a_compacted_topic_wants_keys(magic: int, codec: int) -> None:
    keyed = replace(LIMITS, require_key=True)
    for inside, is_good in (
        (message(magic), True),
        (message(magic, b""), True),
        (message(magic, None), False),
        (message(magic) + message(magic, None), False),
    ):
        records = wrapper(magic, inside, codec) if codec else inside
        if is_good:
            assert converted(records, keyed)
        else:
            with pytest.raises(InvalidRecord, match="lacks a key"):
                to_batches(records, keyed, NOW_MS)


# -- properties ------------------------------------------------------------------------------

_field = st.none() | st.binary(max_size=40) | st.binary(max_size=3).map(lambda part: part * 60)
_times = st.integers(-1, 10) | st.integers(NOW_MS - 10**6, NOW_MS + 10**6)
rows_of = st.lists(st.builds(Old, st.just(0), _times, _field, _field), min_size=1, max_size=30)


@pytest.mark.parametrize(("client", "magic", "codec"), legacy_oracles.CASES)
@examples(25)
@given(rows=rows_of)
def test_what_other_clients_write_is_what_is_stored(
    client: str, magic: int, codec: Codec, rows: list[Old]
) -> None:
    rows = [row._replace(offset=at) for at, row in enumerate(rows)]
    records = legacy_oracles.build(client, magic, codec, rows)
    assert converted(records) == timed(rows, magic)
    # A client may leave alone what would not shrink.
    assert codecs(records)[0] in (codec, Codec.NONE)


@examples(300)
@given(data=st.data(), rows=rows_of, magic=st.sampled_from([0, 1]), codec=st.sampled_from(range(4)))
def test_a_changed_byte_is_refused_or_changes_no_record(
    data: st.DataObject, rows: list[Old], magic: int, codec: int
) -> None:
    rows = [row._replace(offset=at) for at, row in enumerate(rows)]
    inside = plain(rows, magic)
    records = bytearray(wrapper(magic, inside, codec) if codec else inside)
    at = data.draw(st.integers(0, len(records) - 1))
    records[at] ^= data.draw(st.integers(1, 255))
    if records[16] not in (0, 1):
        return
    try:
        found = converted(bytes(records))
    except BadBatch:
        return
    assert found == timed(rows, magic)  # only an offset was hit


@examples(300)
@given(st.binary(max_size=200), st.sampled_from([0, 1]), st.integers(0, 7))
def test_any_bytes_are_refused_politely_or_are_records(
    rest: bytes, magic: int, attributes: int
) -> None:
    for records in (forged(bytes([magic, attributes]) + rest), bytes(16) + bytes([magic]) + rest):
        try:
            batches = to_batches(records, LIMITS, NOW_MS)
        except BadBatch:
            continue
        assert all(validate(memoryview(one), LIMITS, NOW_MS).record_count for one in batches)
