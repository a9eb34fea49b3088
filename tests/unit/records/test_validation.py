"""What a producer may send: one test per row of the table of bad produce input (P1-P17, P22)."""

import struct
import tracemalloc
from dataclasses import replace

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
    UnsupportedCompression,
)
from kafscale.records.batch import read_header
from kafscale.records.compression import Codec, compress
from kafscale.records.record import Record, build_batch
from kafscale.records.validation import NO_LIMIT, BatchLimits, peek_magic, validate
from tests.support.examples import examples
from tests.unit.records import oracles
from tests.unit.records.samples import (
    NOW_MS,
    even_records,
    mixed_records,
    numbered,
    resigned,
    with_payload,
)

MIB = 2**20
LIMITS = BatchLimits(
    max_message_bytes=MIB, max_segment_bytes=64 * MIB, max_decompressed_bytes=10 * MIB
)
GOOD = build_batch(numbered(100), base_offset=0)


def check(batch: bytes | None, limits: BatchLimits = LIMITS, now_ms: int = NOW_MS) -> object:
    return validate(None if batch is None else memoryview(batch), limits, now_ms)


@pytest.mark.parametrize("codec", Codec)
@examples(40)
@given(records=mixed_records() | even_records())
def test_sound_batches_pass_and_give_their_header(codec: Codec, records: list[Record]) -> None:
    batch = build_batch(records, base_offset=0, codec=codec)
    limits = replace(LIMITS, max_message_bytes=64 * MIB)
    assert check(batch, limits) == read_header(batch)


@pytest.mark.parametrize(("client", "codec"), oracles.PAIRS)
def test_batches_of_other_clients_pass(client: str, codec: Codec) -> None:
    for records in (numbered(500), [Record(0, 0, None, None)]):
        check(oracles.build(client, codec, records))


def test_p1_a_wrong_checksum_is_corrupt() -> None:
    for at in (17, 21, 30, 60, 61, len(GOOD) - 1):
        broken = bytearray(GOOD)
        broken[at] ^= 0x40
        with pytest.raises(CorruptBatch):
            check(bytes(broken))


@pytest.mark.parametrize("magic", [3, 100, 127, -1, -128])
def test_p2_formats_that_do_not_exist_are_corrupt(magic: int) -> None:
    with pytest.raises(CorruptBatch):
        check(resigned(GOOD, magic=magic))


@pytest.mark.parametrize("magic", [0, 1])
def test_p3_older_formats_are_invalid_here(magic: int) -> None:
    message = struct.pack(">qiIbb", 0, 22, 0, magic, 0) + bytes(16)
    assert peek_magic(memoryview(message)) == magic
    with pytest.raises(InvalidRecord):
        check(message)
    with pytest.raises(InvalidRecord):
        check(resigned(GOOD, magic=magic))


@pytest.mark.parametrize("length", [48, 14, 13, 0, -1, -(2**31)])
def test_p4_a_length_that_no_batch_has_is_corrupt(length: int) -> None:
    with pytest.raises(CorruptBatch):
        check(resigned(GOOD, batch_length=length))


@pytest.mark.parametrize("magic", [0, 1])
def test_p4_a_length_that_no_message_of_any_format_has_is_corrupt(magic: int) -> None:
    with pytest.raises(CorruptBatch):
        check(resigned(GOOD, magic=magic, batch_length=13))
    with pytest.raises(InvalidRecord):
        check(resigned(GOOD, magic=magic, batch_length=14))


@pytest.mark.parametrize("length", [len(GOOD) - 11, 2**31 - 1])
def test_p5_a_length_beyond_the_data_is_invalid(length: int) -> None:
    with pytest.raises(InvalidRecord):
        check(resigned(GOOD, batch_length=length))


@pytest.mark.parametrize("size", [1, 11, 12, 16, 17, 60, 61, len(GOOD) - 1])
def test_p5_a_cut_off_batch_is_invalid(size: int) -> None:
    with pytest.raises(InvalidRecord):
        check(GOOD[:size])


def test_p6_two_batches_or_anything_behind_one_are_invalid() -> None:
    for more in (GOOD, GOOD[:20], b"\x00"):
        with pytest.raises(InvalidRecord):
            check(GOOD + more)


@pytest.mark.parametrize("nothing", [None, b""])
def test_p7_no_records_are_invalid(nothing: bytes | None) -> None:
    with pytest.raises(InvalidRecord):
        check(nothing)
    assert peek_magic(None if nothing is None else memoryview(nothing)) is None


@pytest.mark.parametrize(
    "fields",
    [
        {"record_count": 0, "last_offset_delta": -1},
        {"record_count": -1, "last_offset_delta": -2},
        {"record_count": 99},
        {"record_count": 101},
        {"last_offset_delta": 98},
        {"last_offset_delta": 100},
        {"last_offset_delta": -1},
        {"record_count": 99, "last_offset_delta": 98},
        {"record_count": 101, "last_offset_delta": 100},
    ],
)
@pytest.mark.parametrize("codec", Codec)
def test_p8_counts_that_contradict_each_other_are_invalid(
    codec: Codec, fields: dict[str, int]
) -> None:
    packed = build_batch(numbered(100), base_offset=0, codec=codec)
    with pytest.raises(InvalidRecord):
        check(resigned(packed, **fields))


@pytest.mark.parametrize("codec", Codec)
def test_p8_offset_deltas_out_of_order_are_invalid(codec: Codec) -> None:
    shuffled = numbered(100)
    shuffled[40], shuffled[41] = shuffled[41], shuffled[40]
    with pytest.raises(InvalidRecord):
        check(build_batch(shuffled, base_offset=0, codec=codec))
    gap = [*numbered(99), Record(100, NOW_MS, b"key", b"value")]
    batch = build_batch(gap, base_offset=0, codec=codec)
    with pytest.raises(InvalidRecord):
        check(resigned(batch, last_offset_delta=99))


@pytest.mark.parametrize("codec", Codec)
def test_p9_two_billion_claimed_records_take_no_memory(codec: Codec) -> None:
    packed = build_batch(numbered(100), base_offset=0, codec=codec)
    batch = resigned(packed, record_count=2**31 - 1, last_offset_delta=2**31 - 2)
    tracemalloc.start()
    try:
        with pytest.raises(InvalidRecord):
            check(batch)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < MIB


@pytest.mark.parametrize(
    "record",
    [
        "0e 00 00 00 01 01 7e 00",  # 63 headers in one byte
        "0e 00 00 00 03 01 00 00",  # key length -2
        "0e 00 00 00 01 03 00 00",  # value length -2
        "0e 00 00 00 7e 01 00 00",  # key of 63 bytes
        "7e 00 00 00 01 01 00 00",  # record of 63 bytes
    ],
)
@pytest.mark.parametrize("codec", Codec)
def test_p10_counts_and_lengths_beyond_the_record_are_invalid(codec: Codec, record: str) -> None:
    payload = compress(codec, bytes.fromhex(record))
    with pytest.raises(InvalidRecord):
        check(with_payload(payload, 1, attributes=codec))


def test_p11_control_batches_of_clients_are_invalid() -> None:
    with pytest.raises(InvalidRecord):
        check(resigned(GOOD, attributes=0x20))


@pytest.mark.parametrize("codec", [5, 6, 7])
def test_p12_unknown_codecs_are_unsupported(codec: int) -> None:
    with pytest.raises(UnsupportedCompression):
        check(resigned(GOOD, attributes=codec))


def test_p13_zstd_can_be_disallowed() -> None:
    batch = build_batch(numbered(10), base_offset=0, codec=Codec.ZSTD)
    check(batch)
    with pytest.raises(UnsupportedCompression):
        check(batch, replace(LIMITS, allow_zstd=False))
    check(GOOD, replace(LIMITS, allow_zstd=False))


@pytest.mark.parametrize("codec", list(Codec)[1:])
def test_p14_a_broken_stream_is_corrupt(codec: Codec) -> None:
    batch = build_batch(numbered(100), base_offset=0, codec=codec)
    payload = batch[61:]
    for broken in (payload[:-1], b"\xff" * len(payload), payload[: len(payload) // 2], b""):
        with pytest.raises(CorruptBatch):
            check(with_payload(broken, 100, attributes=codec))


@pytest.mark.parametrize("codec", list(Codec)[1:])
def test_p15_a_bomb_is_too_large(codec: Codec) -> None:
    bomb = compress(codec, bytes(16 * MIB))
    with pytest.raises(BatchTooLarge):
        check(with_payload(bomb, 100, attributes=codec))


def test_p15_a_bomb_in_a_bomb_is_merely_invalid() -> None:
    inner = compress(Codec.GZIP, bytes(64 * MIB))
    batch = with_payload(compress(Codec.GZIP, inner), 1, attributes=Codec.GZIP)
    with pytest.raises(InvalidRecord):
        check(batch)


def test_p16_a_batch_above_the_topic_s_size_is_too_large() -> None:
    check(GOOD, replace(LIMITS, max_message_bytes=len(GOOD)))
    with pytest.raises(BatchTooLarge):
        check(GOOD, replace(LIMITS, max_message_bytes=len(GOOD) - 1))


def test_p17_a_batch_above_the_segment_s_size_is_too_large_for_any_list() -> None:
    check(GOOD, replace(LIMITS, max_segment_bytes=len(GOOD)))
    with pytest.raises(RecordListTooLarge):
        check(GOOD, replace(LIMITS, max_segment_bytes=len(GOOD) - 1))


@pytest.mark.parametrize(
    ("base", "latest", "fits"),
    [(-100, 50, True), (-101, 0, False), (0, 51, False), (-50, -101, False), (51, 0, False)],
)
def test_p22_times_outside_the_topic_s_limits_are_refused(
    base: int, latest: int, fits: bool
) -> None:
    limits = replace(LIMITS, timestamp_before_max_ms=100, timestamp_after_max_ms=50)
    batch = resigned(GOOD, base_timestamp_ms=NOW_MS + base, max_timestamp_ms=NOW_MS + latest)
    if fits:
        check(batch, limits)
    else:
        with pytest.raises(InvalidTimestamp):
            check(batch, limits)


def test_p22_one_limit_works_without_the_other() -> None:
    ancient = resigned(GOOD, base_timestamp_ms=-1, max_timestamp_ms=-1)
    check(ancient)
    check(ancient, replace(LIMITS, timestamp_after_max_ms=50))
    with pytest.raises(InvalidTimestamp):
        check(ancient, replace(LIMITS, timestamp_before_max_ms=NOW_MS))
    far = resigned(GOOD, max_timestamp_ms=NO_LIMIT)
    check(far)
    with pytest.raises(InvalidTimestamp):
        check(far, replace(LIMITS, timestamp_after_max_ms=50))


@pytest.mark.parametrize(
    ("producer_id", "producer_epoch", "base_sequence", "fits"),
    [
        (-1, -1, -1, True),
        (0, 0, 0, True),
        (2**62 - 1, 2**15 - 1, 2**31 - 1, True),
        (2**62, 0, 0, False),
        (-2, 0, 0, False),
        (7, -1, 0, False),
        (7, 0, -1, False),
    ],
)
def test_producer_fields_must_make_sense(
    producer_id: int, producer_epoch: int, base_sequence: int, fits: bool
) -> None:
    batch = resigned(
        GOOD,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence,
    )
    if fits:
        check(batch)
    else:
        with pytest.raises(InvalidRecord):
            check(batch)


@pytest.mark.parametrize("codec", Codec)
def test_a_compacted_topic_refuses_records_without_key(codec: Codec) -> None:
    keyed = replace(LIMITS, require_key=True)
    check(build_batch(numbered(100), base_offset=0, codec=codec), keyed)
    for missing in (0, 50, 99):
        records = numbered(100)
        records[missing] = records[missing]._replace(key=None)
        batch = build_batch(records, base_offset=0, codec=codec)
        check(batch)
        with pytest.raises(InvalidRecord) as refused:
            check(batch, keyed)
        assert refused.value.records == (missing,)


def test_all_records_without_key_are_named() -> None:
    records = [r._replace(key=None) if n % 10 == 0 else r for n, r in enumerate(numbered(300))]
    with pytest.raises(InvalidRecord) as refused:
        check(build_batch(records, base_offset=0), replace(LIMITS, require_key=True))
    assert refused.value.records == tuple(range(0, 300, 10))


@given(noise=st.binary(max_size=200))
def test_noise_gets_a_clear_error(noise: bytes) -> None:
    with pytest.raises(BadBatch):
        check(noise)


@given(data=st.data(), codec=st.sampled_from(Codec))
def test_a_changed_byte_under_a_new_checksum_never_escapes_the_errors_we_name(
    data: st.DataObject, codec: Codec
) -> None:
    batch = bytearray(build_batch(numbered(80), base_offset=0, codec=codec))
    batch[data.draw(st.integers(0, len(batch) - 1))] ^= data.draw(st.integers(1, 255))
    try:
        check(resigned(batch))
    except BadBatch:
        pass
