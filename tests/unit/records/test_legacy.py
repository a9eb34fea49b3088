import re
from pathlib import Path

import lz4.frame
import pytest
import xxhash
from hypothesis import given
from hypothesis import strategies as st

from kafscale.model.errors import CorruptBatch
from kafscale.records import legacy
from kafscale.records.compression import Codec, compress, decompress
from kafscale.records.legacy import with_right_lz4_checksum, with_wrong_lz4_checksum
from tests.golden.annotate import from_text

ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize("magic", [0, 1])
def test_the_documented_tables_are_the_structs(magic: int) -> None:
    page = (ROOT / "docs/formats/message-set.md").read_text().split("## ")[1 + magic]
    rows = re.findall(r"^\| (\d+) \| (\d+) \| (\w+) \|", page, re.MULTILINE)
    golden = from_text((ROOT / f"tests/golden/messages/format-{magic}.hex").read_text())
    place, one_by_one = 0, []
    for offset, size, name in rows:
        assert int(offset) == place
        field = golden[place : place + int(size)]
        one_by_one.append(int.from_bytes(field, signed=name != "crc"))
        place += int(size)
    assert place == legacy.HEADS[magic].size
    assert tuple(one_by_one) == legacy.HEADS[magic].unpack_from(golden)
    assert f"{legacy.MIN_SIZES[magic]} or more" in page


@given(st.binary(max_size=70))
def test_the_checksum_of_lz4_headers_is_xxh32(data: bytes) -> None:
    assert legacy._xxh32(data) == xxhash.xxh32(data, 0).intdigest()


def test_the_wrong_checksum_covers_the_frames_magic_number_too() -> None:
    right = compress(Codec.LZ4, b"value" * 100)
    wrong = with_wrong_lz4_checksum(right)
    assert right[:7].hex() == "04224d18604082"
    assert wrong[:7].hex() == "04224d1860401a"
    assert wrong[7:] == right[7:]
    with pytest.raises(CorruptBatch):
        decompress(Codec.LZ4, wrong, 1000)


@given(st.binary(max_size=100), st.booleans(), st.booleans())
def test_a_wrong_checksum_is_put_right_and_a_right_one_left_alone(
    data: bytes, has_size: bool, is_linked: bool
) -> None:
    right = lz4.frame.compress(data, store_size=has_size, block_linked=is_linked)
    assert with_right_lz4_checksum(right) == right
    assert with_right_lz4_checksum(with_wrong_lz4_checksum(right)) == right


def test_a_checksum_that_is_neither_stays_broken() -> None:
    broken = bytearray(compress(Codec.LZ4, b"value"))
    broken[6] ^= 0x55
    assert with_right_lz4_checksum(bytes(broken)) == broken


@pytest.mark.parametrize("cut", range(7))
def test_frames_cut_off_within_their_header_are_corrupt(cut: int) -> None:
    frame = compress(Codec.LZ4, b"value")[:cut]
    with pytest.raises(CorruptBatch):
        decompress(Codec.LZ4, with_right_lz4_checksum(frame), 1000)
