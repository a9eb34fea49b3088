"""Opening and building batches, against two other clients in both directions."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafscale.model.errors import (
    BatchTooLarge,
    CorruptBatch,
    InvalidRecord,
    UnsupportedCompression,
)
from kafscale.records.batch import check_crc, read_header, stamp_append_time
from kafscale.records.compression import Codec
from kafscale.records.record import (
    Record,
    build_batch,
    first_at_or_after,
    open_batch,
    recompress,
)
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
from tests.unit.records.test_batch import GOLDEN

LIMIT = 2**24
ANY_RECORDS = mixed_records() | even_records()


@pytest.mark.parametrize("client", oracles.MODULES)
def test_the_golden_batch_is_read_alike_by_all(client: str) -> None:
    golden = [Record(0, NOW_MS, b"k", b"vv", (("h", None),))]
    assert open_batch(GOLDEN, LIMIT) == golden
    assert oracles.parse(client, GOLDEN) == golden
    built = build_batch(golden, base_offset=0, producer_id=7, producer_epoch=3, base_sequence=5)
    assert built == GOLDEN


@pytest.mark.parametrize(("client", "codec"), oracles.PAIRS)
@examples(40)
@given(records=mixed_records())
def test_other_clients_read_what_we_build(client: str, codec: Codec, records: list[Record]) -> None:
    assert oracles.parse(client, build_batch(records, base_offset=0, codec=codec)) == records


@pytest.mark.parametrize(("client", "codec"), oracles.PAIRS)
@examples(40)
@given(records=mixed_records())
def test_we_read_what_other_clients_build(client: str, codec: Codec, records: list[Record]) -> None:
    theirs = oracles.build(client, codec, records)
    assert open_batch(theirs, LIMIT) == records
    if codec is Codec.NONE:
        ours = build_batch(records, base_offset=0, producer_id=7, producer_epoch=3, base_sequence=5)
        assert read_header(ours)._replace(leader_epoch=0, crc=0) == read_header(theirs)._replace(
            leader_epoch=0, crc=0
        )
        assert ours[61:] == theirs[61:]


@given(records=ANY_RECORDS, codec=st.sampled_from(Codec), base=st.integers(0, 2**60))
def test_records_survive_building_and_opening(
    records: list[Record], codec: Codec, base: int
) -> None:
    placed = [record._replace(offset=record.offset + base) for record in records]
    batch = build_batch(placed, base_offset=base, codec=codec, leader_epoch=4)
    assert open_batch(batch, LIMIT) == placed
    header = read_header(batch)
    assert (header.base_offset, header.last_offset) == (base, placed[-1].offset)
    assert header.max_timestamp_ms == max(record.timestamp_ms for record in placed)
    assert (header.leader_epoch, header.record_count) == (4, len(placed))
    assert check_crc(batch)


def test_gaps_between_offsets_are_kept() -> None:
    sparse = [Record(n, NOW_MS, b"k", b"v") for n in (12, 15, 99)]
    batch = build_batch(sparse, base_offset=10)
    assert open_batch(batch, LIMIT) == sparse
    assert read_header(batch).next_offset == 100


def test_a_batch_without_records_is_not_built() -> None:
    with pytest.raises(ValueError, match="at least one"):
        build_batch([], base_offset=0)


def test_names_of_headers_that_are_not_utf_8_survive() -> None:
    record = b"\x00\x00\x00\x01\x01\x02\x04\xff\xfe\x01"
    batch = with_payload(bytes([len(record) * 2]) + record, 1)
    opened = open_batch(batch, LIMIT)
    assert build_batch(opened, base_offset=0)[61:] == batch[61:]


@given(records=ANY_RECORDS, source=st.sampled_from(Codec), target=st.sampled_from(Codec))
def test_recompressing_changes_the_codec_and_nothing_else(
    records: list[Record], source: Codec, target: Codec
) -> None:
    batch = build_batch(
        records, base_offset=0, codec=source, producer_id=9, producer_epoch=1, base_sequence=8
    )
    again = recompress(batch, target, LIMIT)
    assert open_batch(again, LIMIT) == records
    assert check_crc(again)
    before, after = read_header(batch), read_header(again)
    assert after.codec == target
    assert after.size == len(again)
    assert (
        after._replace(batch_length=before.batch_length, crc=before.crc, attributes=source)
        == before
    )


def test_recompressing_keeps_the_other_attributes() -> None:
    batch = bytearray(build_batch(numbered(3), base_offset=0, codec=Codec.GZIP))
    stamp_append_time(batch, NOW_MS + 5)
    assert read_header(recompress(batch, Codec.ZSTD, LIMIT)).attributes == 0x08 | Codec.ZSTD


@pytest.mark.parametrize("codec", Codec)
def test_the_first_record_not_before_a_time_is_found(codec: Codec) -> None:
    times = [30, 10, 20, 50, 40]
    records = [Record(100 + n, time, None, b"v") for n, time in enumerate(times)]
    batch = build_batch(records, base_offset=100, codec=codec)
    assert first_at_or_after(batch, 5, LIMIT) == (100, 30)
    assert first_at_or_after(batch, 30, LIMIT) == (100, 30)
    assert first_at_or_after(batch, 31, LIMIT) == (103, 50)
    assert first_at_or_after(batch, 51, LIMIT) is None


def test_under_append_time_every_record_has_the_batch_s_time() -> None:
    batch = bytearray(build_batch(numbered(3), base_offset=0))
    stamp_append_time(batch, NOW_MS + 77)
    assert {record.timestamp_ms for record in open_batch(batch, LIMIT)} == {NOW_MS + 77}
    assert first_at_or_after(batch, NOW_MS + 77, LIMIT) == (0, NOW_MS + 77)
    assert first_at_or_after(batch, NOW_MS + 78, LIMIT) is None


def test_a_time_that_leaves_64_bits_wraps() -> None:
    batch = build_batch([Record(0, 0, None, None), Record(1, 5, None, None)], base_offset=0)
    times = [
        r.timestamp_ms for r in open_batch(resigned(batch, base_timestamp_ms=2**63 - 1), LIMIT)
    ]
    assert times == [2**63 - 1, -(2**63) + 4]


@pytest.mark.parametrize("codec", Codec)
def test_opening_obeys_its_limit(codec: Codec) -> None:
    batch = build_batch(numbered(1_000), base_offset=0, codec=codec)
    with pytest.raises(BatchTooLarge):
        open_batch(batch, 5_000)


def test_broken_batches_are_told_apart() -> None:
    batch = build_batch(numbered(3), base_offset=0)
    with pytest.raises(CorruptBatch):
        open_batch(batch[:-1], LIMIT)
    with pytest.raises(CorruptBatch):
        open_batch(resigned(batch, batch_length=48), LIMIT)
    with pytest.raises(UnsupportedCompression):
        open_batch(resigned(batch, attributes=5), LIMIT)
    for count in (2, 4):
        with pytest.raises(InvalidRecord):
            open_batch(resigned(batch, record_count=count), LIMIT)


def test_bytes_after_the_batch_are_not_its_records() -> None:
    records = numbered(3)
    batch = build_batch(records, base_offset=0)
    assert open_batch(batch + batch, LIMIT) == records
