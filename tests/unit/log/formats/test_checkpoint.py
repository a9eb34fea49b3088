import json

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafscale.log.formats import checkpoint
from kafscale.log.formats.checkpoint import HEADER, CheckpointHead, CheckpointPart, CheckpointRow
from kafscale.model.errors import CorruptObject
from kafscale.records.compression import Codec, compress
from tests.unit.log.pages import fields, layout, table

PAGE = "checkpoint.md"
HEAD = CheckpointHead(
    number=7,
    created_ms=1,
    author="broker-0",
    cluster_id="c",
    groups=1,
    offsets=1,
    parts=[CheckpointPart("00000000000000000007-00000001-0", 10, 20, 3)],
    rows=[checkpoint.row("/kafscale/consumers/g/offsets/t/0", b'{"offset": 5}')],
)
GOLDEN = bytes.fromhex(
    "4b46434b"  # magic     KFCK
    "0001"  # version       1
    "0004"  # codec         zstd
    "00000076"  # packed    118 bytes follow
    "00000086"  # size      134 bytes of JSON
    "6744d438"  # crc
    "28b52ffd20866d030092c6161c706b3306019f88d0f62e3ebe89d7da45ff7f19334507cc8c55d583010f420f01903b"
    "b822d0583b2234c043800782b393641373da1866b1b7f630aece9784b2eada5ba8f174be0be15e1a91bc35caa22ee9"
    "aab190af1a9ac7d809050056654de7b096305e4679362828"
)
JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(1 << 60), 1 << 60) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=5,
)
ROWS = st.lists(st.tuples(st.text(st.characters(codec="ascii")), JSON_VALUES), max_size=20)


def plain(rows: list[CheckpointRow]) -> list[tuple[str, bytes]]:
    return [(key, bytes(value)) for key, value in rows]


@given(st.lists(ROWS, max_size=3))
def test_rows_come_back_from_any_number_of_blocks(
    blocks: list[list[tuple[str, object]]],
) -> None:
    rows = [
        [checkpoint.row(key, json.dumps(value).encode()) for key, value in block]
        for block in blocks
    ]
    data = b"".join(map(checkpoint.encode_rows, rows))
    assert plain(checkpoint.decode_rows(data)) == plain([row for block in rows for row in block])


def test_a_head_comes_back_with_the_bytes_of_its_values() -> None:
    found = checkpoint.decode_head(checkpoint.encode_head(HEAD))
    assert plain(found.rows) == [("/kafscale/consumers/g/offsets/t/0", b'{"offset": 5}')]
    assert msgspec.structs.replace(found, rows=HEAD.rows) == HEAD


def test_a_head_of_before_is_still_read() -> None:
    found = checkpoint.decode_head(GOLDEN)
    assert (found.number, found.cluster_id, found.groups, found.offsets) == (7, "c", 1, 1)
    assert found.parts == [CheckpointPart("p", 10, 20, 3)]
    assert plain(found.rows) == [("/k", b'{"offset": 5}')]


@given(st.data())
def test_no_changed_byte_goes_unnoticed(data: st.DataObject) -> None:
    good = checkpoint.encode_head(HEAD)
    at = data.draw(st.integers(0, len(good) - 1))
    bad = bytearray(good)
    bad[at] ^= data.draw(st.integers(1, 255))
    with pytest.raises(CorruptObject):
        checkpoint.decode_head(bytes(bad))


@given(st.integers(0, len(checkpoint.encode_head(HEAD)) - 1))
def test_no_cut_goes_unnoticed(size: int) -> None:
    with pytest.raises(CorruptObject):
        checkpoint.decode_head(checkpoint.encode_head(HEAD)[:size])


@given(st.binary())
def test_other_bytes_are_no_checkpoint(raw: bytes) -> None:
    with pytest.raises(CorruptObject):
        checkpoint.decode_head(raw)


def test_a_block_behind_the_head_is_refused() -> None:
    with pytest.raises(CorruptObject, match="more than one block"):
        checkpoint.decode_head(checkpoint.encode_head(HEAD) * 2)


def block(body: bytes, *, version: int = 1, size: int | None = None) -> bytes:
    packed = compress(Codec.ZSTD, body)
    sizes = len(packed), len(body) if size is None else size
    crc = checkpoint.crc32c(packed)
    return HEADER.pack(checkpoint.MAGIC, version, Codec.ZSTD, *sizes, crc) + packed


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (block(b"{}", version=2), "version 2"),
        (block(b"{}", size=1), "unpacked"),
        (block(b"{}", size=3), "unpacks to 2 bytes, not 3"),
        (block(b"{}", size=(1 << 30) + 1), "checksum"),
        (block(b"{}"), "missing required field"),
        (block(b"\xff"), "not a checkpoint"),
    ],
)
def test_a_block_with_a_good_checksum_and_other_contents_is_refused(
    data: bytes, reason: str
) -> None:
    with pytest.raises(CorruptObject, match=reason):
        checkpoint.decode_head(data)


def test_a_value_that_is_no_json_is_no_row() -> None:
    with pytest.raises(CorruptObject, match="/kafscale/x holds no JSON"):
        checkpoint.row("/kafscale/x", b'{"offset":')


def test_a_part_is_known_by_its_bytes() -> None:
    data = checkpoint.encode_rows(HEAD.rows)
    named = checkpoint.part("p", data, 1)
    checkpoint.check_part(named, data)
    with pytest.raises(CorruptObject, match="p is not the part"):
        checkpoint.check_part(named, data + b"\0")


def test_the_documented_header_is_the_struct() -> None:
    assert table(PAGE, "## Header") == layout(checkpoint, "HEADER")


@pytest.mark.parametrize(
    ("heading", "structure"), [("## Head\n", CheckpointHead), ("## Part", CheckpointPart)]
)
def test_the_documented_fields_are_the_structures(heading: str, structure: type) -> None:
    assert fields(PAGE, heading) == [f.name for f in msgspec.structs.fields(structure)]
