import struct
import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafscale.admin.records.scanning import ScannedRecord
from kafscale.console.records.decoders import CUT_BYTES, decode, row_of, scope_of

BIG = b'{"id":73314510714175488,"pi":3.14159265358979323846}'


@pytest.mark.parametrize(
    ("data", "wanted", "decoder", "text"),
    [
        (None, "auto", "null", None),
        (b"", "auto", "text", ""),
        (b"hello", "auto", "text", "hello"),
        (BIG, "auto", "json", BIG.decode()),
        (BIG, "json", "json", BIG.decode()),
        (b"\xff\xfe", "auto", "hex", "ff fe"),
        (b"hi", "hex", "hex", "68 69"),
        (b"hi", "base64", "base64", "aGk="),
        (struct.pack(">i", -5), "int32", "int32", "-5"),
        (struct.pack(">q", 2**63 - 1), "int64", "int64", "9223372036854775807"),
        (struct.pack(">d", 1.5), "double", "double", "1.5"),
        (uuid.UUID(int=7).bytes, "uuid", "uuid", str(uuid.UUID(int=7))),
        (b"\0\0\0\0\x07\x02\xff", "registry", "registry", "schema 7: 02 ff"),
        (b"\0\0\0\0\x07\x02\xff", "auto", "registry", "schema 7: 02 ff"),
        (b"\x08\x96\x01\x12\x03abc", "protobuf", "protobuf", '{"1":["150"],"2":["abc"]}'),
    ],
)
def test_decoders(data: bytes | None, wanted: str, decoder: str, text: str | None) -> None:
    found = decode(data, wanted)
    assert (found.decoder, found.text, found.note) == (decoder, text, None)


@pytest.mark.parametrize(
    ("data", "wanted"),
    [(b"abc", "int64"), (b"{", "json"), (b"abc", "uuid"), (b"abc", "avro"), (b"\xff", "protobuf"),
     (b"abc", "registry")],
)  # fmt: skip
def test_a_decoder_that_does_not_fit_says_so_and_shows_the_bytes_anyway(
    data: bytes, wanted: str
) -> None:
    found = decode(data, wanted)
    assert found.note
    assert found.note.startswith(f"not {wanted}")
    assert found.text


def test_large_values_are_cut_and_a_cut_character_is_left_out() -> None:
    found = decode("ä".encode() * CUT_BYTES, "auto")
    assert (found.cut, found.bytes, found.decoder) == (True, 2 * CUT_BYTES, "text")
    odd = decode(b"x" + "ä".encode() * CUT_BYTES, "auto")
    assert odd.decoder == "text"
    assert odd.text is not None
    assert odd.text.endswith("ä")


def test_hidden_values_are_hidden_also_in_headers() -> None:
    record = ScannedRecord(0, 1, 2, False, b"key", b"value", [("h", b"header")])
    row = row_of(record, "auto", "auto", is_shown=False)
    assert (row.key.text, row.value.text, row.headers) == (None, None, [])
    assert (row.key.decoder, row.value.bytes, row.bytes) == ("hidden", 5, 15)


def test_filters_see_json_where_it_is_json_and_exact_numbers() -> None:
    record = ScannedRecord(0, 1, None, False, b"7", BIG, [("h", b"\xff"), ("t", b"x")])
    scope = scope_of(record)
    assert scope["value"]["id"] == 73314510714175488
    assert (scope["key"], scope["headers"]) == (7, {"h": None, "t": "x"})


@given(st.binary(max_size=200), st.sampled_from(["auto", "json", "protobuf", "registry", "text"]))
def test_any_bytes_can_be_shown(data: bytes, wanted: str) -> None:
    assert decode(data, wanted).text is not None
