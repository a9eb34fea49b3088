"""Zigzag varints: known bytes, round trips, ends."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafscale.model.errors import InvalidRecord
from kafscale.records import varint
from tests.unit.records.oracles import kafka_python_varint


@pytest.mark.parametrize(
    ("number", "encoded"),
    [
        (0, "00"),
        (-1, "01"),
        (1, "02"),
        (63, "7e"),
        (-64, "7f"),
        (64, "8001"),
        (8191, "fe7f"),
        (8192, "808001"),
        (2**31 - 1, "feffffff0f"),
        (-(2**31), "ffffffff0f"),
        (2**63 - 1, "feffffffffffffffff01"),
        (-(2**63), "ffffffffffffffffff01"),
    ],
)
def test_known_numbers_have_known_bytes(number: int, encoded: str) -> None:
    assert varint.encode(number).hex() == encoded
    data = b"#" + bytes.fromhex(encoded) + b"#"
    assert varint.read(data, 1, len(data), varint.MAX_LONG_BYTES) == (number, len(data) - 1)


@given(st.integers(-(2**63), 2**63 - 1))
def test_numbers_survive_and_are_written_as_other_clients_write_them(number: int) -> None:
    encoded = varint.encode(number)
    assert encoded == kafka_python_varint(number)
    assert varint.read(encoded, 0, len(encoded), varint.MAX_LONG_BYTES) == (number, len(encoded))


@given(st.integers(-(2**63), 2**63 - 1))
def test_a_cut_off_number_is_refused(number: int) -> None:
    encoded = varint.encode(number)
    with pytest.raises(InvalidRecord):
        varint.read(encoded, 0, len(encoded) - 1, varint.MAX_LONG_BYTES)


@pytest.mark.parametrize("longest", [varint.MAX_INT_BYTES, varint.MAX_LONG_BYTES])
def test_a_number_may_be_needlessly_long_but_not_endless(longest: int) -> None:
    padded = b"\x82" + b"\x80" * (longest - 2) + b"\x00"
    assert varint.read(padded, 0, longest, longest) == (1, longest)
    with pytest.raises(InvalidRecord):
        varint.read(b"\x80" * longest + b"\x00", 0, longest + 1, longest)
