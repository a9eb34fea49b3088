"""The tag of a batch: round trip, what it leaves alone, definitions of producers."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafscale.model.errors import CorruptBatch
from kafscale.proxy.state.tags import (
    MOST_LANES,
    MOST_NUMBERS,
    OFFSET_RANGE,
    Tag,
    TaggedProducer,
    read_definition,
    read_tag,
    with_definition,
    without_definition,
    write_tag,
)
from kafscale.records.batch import check_crc, read_header
from kafscale.records.compression import Codec
from kafscale.records.record import Record, build_batch, open_batch

LIMIT = 1 << 20
RECORDS = [
    Record(0, 1000, b"k", b"v" * 100, (("h", b"1"),)),
    Record(1, 1005, None, None),
    Record(2, 1001, b"", b"", (("h", None), ("h", b"2"))),
]


def a_batch(codec: Codec = Codec.NONE) -> bytearray:
    return bytearray(
        build_batch(
            RECORDS, base_offset=0, codec=codec, producer_id=7, producer_epoch=3, base_sequence=9
        )
    )


@given(
    st.integers(0, MOST_LANES - 1),
    st.integers(0, OFFSET_RANGE - 1),
    st.integers(0, MOST_NUMBERS - 1),
    st.integers(0, 2**31 - 1),
    st.booleans(),
    st.booleans(),
)
def test_a_tag_round_trips_and_the_batch_stays_sound(
    lane: int, offset: int, number: int, sequence: int, has: bool, defines: bool
) -> None:
    batch = a_batch()
    tag = Tag(lane, offset, number, sequence, has, defines)
    write_tag(batch, tag)
    header = read_header(batch)
    assert check_crc(batch)
    assert header.producer_id < -1
    assert header.producer_epoch >= 0
    assert header.base_sequence >= 0
    assert read_tag(header) == tag


@pytest.mark.parametrize("codec", list(Codec))
def test_tagged_records_are_the_records_that_were_sent(codec: Codec) -> None:
    batch = a_batch(codec)
    write_tag(batch, Tag(5, 77, 1, 2))
    assert open_batch(batch, LIMIT) == RECORDS


def test_batches_of_plain_producers_have_no_tag() -> None:
    assert read_tag(read_header(a_batch())) is None
    assert read_tag(read_header(build_batch(RECORDS, base_offset=0))) is None


def test_a_tag_of_a_later_version_is_refused() -> None:
    header = read_header(a_batch())._replace(producer_id=-(1 << 63) | 4 << 60)
    with pytest.raises(CorruptBatch):
        read_tag(header)


@pytest.mark.parametrize("codec", list(Codec))
def test_a_definition_comes_with_the_batch_and_goes_again(codec: Codec) -> None:
    batch = a_batch(codec)
    made = with_definition(memoryview(batch), TaggedProducer(7, 3), LIMIT)
    assert check_crc(made)
    assert read_definition(memoryview(made), LIMIT) == (7, 3)
    assert [one.value for one in open_batch(made, LIMIT)] == [one.value for one in RECORDS]
    back = without_definition(memoryview(made), LIMIT)
    assert open_batch(back, LIMIT) == RECORDS
    assert read_header(back)._replace(batch_length=0, crc=0) == read_header(batch)._replace(
        batch_length=0, crc=0
    )


def test_the_other_records_are_not_opened() -> None:
    """Time and memory do not grow with their number: only the first record is read."""
    batch = a_batch()
    last = bytes(batch[-8:])
    batch[-8:] = b"nonsense"
    made = with_definition(memoryview(batch), TaggedProducer(7, 3), LIMIT)
    assert made.endswith(b"nonsense")
    made[-8:] = last
    assert open_batch(made, LIMIT)[1:] == RECORDS[1:]


def test_a_batch_without_records_cannot_define() -> None:
    batch = a_batch()[:61]
    batch[8:12] = (49).to_bytes(4, "big")
    batch[57:61] = bytes(4)
    with pytest.raises(CorruptBatch):
        with_definition(memoryview(batch), TaggedProducer(7, 3), LIMIT)


def test_append_time_survives_taking_the_definition_away() -> None:
    from kafscale.records.batch import stamp_append_time

    made = with_definition(memoryview(a_batch()), TaggedProducer(1, 0), LIMIT)
    stamp_append_time(made, 123_456)
    back = without_definition(memoryview(made), LIMIT)
    assert read_header(back).log_append_time
    assert {one.timestamp_ms for one in open_batch(back, LIMIT)} == {123_456}


def test_a_definition_that_is_missing_is_an_error() -> None:
    with pytest.raises(CorruptBatch):
        read_definition(memoryview(a_batch()), LIMIT)
