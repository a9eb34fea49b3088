"""Lengths are compared with what is left before anything is taken."""

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafscale.wire import buffer
from kafscale.wire.buffer import MalformedMessage


def view(text: str) -> memoryview:
    return memoryview(bytes.fromhex(text))


@pytest.mark.parametrize(
    ("text", "value", "end"),
    [
        ("00", 0, 1),
        ("7f", 127, 1),
        ("8001", 128, 2),
        ("ffffffff0f", 2**32 - 1, 5),
        ("8000", 0, 2),  # longer than needed, but within five bytes: Kafka reads it too
    ],
)
def test_an_unsigned_varint_is_read(text: str, value: int, end: int) -> None:
    assert buffer.unsigned_varint(view(text), 0) == (value, end)


@pytest.mark.parametrize("text", ["", "80", "ffff", "8080808080", "808080808000", "ffffffff10"])
def test_a_varint_cut_off_or_over_32_bits_is_malformed(text: str) -> None:
    with pytest.raises(MalformedMessage):
        buffer.unsigned_varint(view(text), 0)


@pytest.mark.parametrize("text", ["80" * 9, "80" * 10, "80" * 10 + "00", "ff" * 9 + "02"])
def test_a_varlong_cut_off_or_over_64_bits_is_malformed(text: str) -> None:
    with pytest.raises(MalformedMessage):
        buffer.unsigned_varlong(view(text), 0)


@given(st.integers(-(2**63), 2**63 - 1))
def test_a_signed_varlong_undoes_zigzag(number: int) -> None:
    zigzag = (number << 1) ^ (number >> 63)
    written = bytearray()
    while zigzag > 0x7F:
        written.append(zigzag & 0x7F | 0x80)
        zigzag >>= 7
    written.append(zigzag)
    assert buffer.varlong(memoryview(written), 0) == (number, len(written))
    if -(2**31) <= number < 2**31:
        assert buffer.varint(memoryview(written), 0) == (number, len(written))


def test_a_count_is_refused_when_so_many_elements_cannot_be_left() -> None:
    assert buffer.count(view("00000002 0000 0000"), 0, smallest=2) == (2, 4)
    with pytest.raises(MalformedMessage, match="exceeds"):
        buffer.count(view("00000003 0000 0000"), 0, smallest=2)
    with pytest.raises(MalformedMessage, match="exceeds"):
        buffer.compact_count(view("04 0000 0000"), 0, smallest=2)


def test_only_minus_one_means_null() -> None:
    assert buffer.count(view("ffffffff"), 0, smallest=1) == (-1, 4)
    assert buffer.compact_count(view("00"), 0, smallest=1) == (-1, 1)
    with pytest.raises(MalformedMessage, match="negative"):
        buffer.count(view("fffffffe"), 0, smallest=1)
    with pytest.raises(MalformedMessage, match="negative"):
        buffer.nullable_string(view("fffe"), 0)


def test_null_is_malformed_where_a_value_is_needed() -> None:
    for reader, text in ((buffer.string, "ffff"), (buffer.compact_string, "00")):
        with pytest.raises(MalformedMessage, match="null"):
            reader(view(text), 0)
    with pytest.raises(MalformedMessage, match="null"):
        buffer.given(None, 4)


def test_strings_are_utf8_and_tell_where_they_end() -> None:
    assert buffer.string(view("0003 e8aa9e ff"), 0) == ("語", 5)
    assert buffer.compact_nullable_string(view("04 e8aa9e ff"), 0) == ("語", 4)
    assert buffer.nullable_string(view("ffff"), 0) == (None, 2)
    with pytest.raises(MalformedMessage, match="UTF-8"):
        buffer.string(view("0002 e8aa"), 0)


def test_a_slice_is_not_a_copy() -> None:
    frame = bytearray(bytes.fromhex("00000002 aabb"))
    taken, end = buffer.slice_of(memoryview(frame), 0)
    frame[4] = 0xCC
    assert taken is not None
    assert (bytes(taken), end) == (b"\xcc\xbb", 6)


def test_unknown_tagged_fields_are_stepped_over() -> None:
    assert buffer.skip_tags(view("00 ff"), 0) == 1
    assert buffer.skip_tags(view("02 05 02 aabb 09 00 ff"), 0) == 7
    found, end = buffer.tags(view("02 00 01 aa 07 01 bb"), 0, highest=0)
    assert ({tag: bytes(v) for tag, v in found.items()}, end) == ({0: b"\xaa"}, 7)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "02 00 00 00 00",  # the same number twice
        "02 05 00 04 00",  # falling numbers
        "01 00 05 aa",  # longer than what is left
        "ffffffff0f",  # four thousand million fields
        "01 00",
    ],
)
def test_bad_tagged_fields_are_malformed(text: str) -> None:
    with pytest.raises(MalformedMessage):
        buffer.skip_tags(view(text), 0)


READERS: list[Callable[[memoryview, int], object]] = [
    buffer.unsigned_varint,
    buffer.unsigned_varlong,
    buffer.varint,
    buffer.varlong,
    buffer.string,
    buffer.nullable_string,
    buffer.compact_string,
    buffer.compact_nullable_string,
    buffer.slice_of,
    buffer.compact_slice_of,
    buffer.short_length,
    buffer.skip_tags,
    lambda v, at: buffer.count(v, at, 1),
    lambda v, at: buffer.compact_count(v, at, 1),
]


@given(st.binary(max_size=24), st.integers(0, 30))
def test_whatever_the_bytes_a_reader_succeeds_or_calls_them_malformed(data: bytes, at: int) -> None:
    for reader in READERS:
        try:
            reader(memoryview(data), at)
        except MalformedMessage:
            continue
