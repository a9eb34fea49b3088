"""Codecs: what we write others read, what others write we read, and nothing explodes."""

import gzip
import struct
import tracemalloc
import zlib

import cramjam
import lz4.frame
import pytest
from aiokafka import codec as aiokafka_codec
from hypothesis import given
from hypothesis import strategies as st

from kafscale.model.errors import (
    BatchTooLarge,
    CorruptBatch,
    UnpacksTooMuch,
    UnsupportedCompression,
)
from kafscale.records.compression import Codec, UnpackBudget, compress, decompress
from tests.support.examples import examples

PACKED = [codec for codec in Codec if codec is not Codec.NONE]
TEXT = b"".join(b'{"order": %d, "city": "Lund"},' % n for n in range(9_000))
MIB = 2**20

THEIRS = {
    Codec.GZIP: (aiokafka_codec.gzip_encode, aiokafka_codec.gzip_decode),
    Codec.SNAPPY: (aiokafka_codec.snappy_encode, aiokafka_codec.snappy_decode),
    Codec.LZ4: (aiokafka_codec.lz4_encode, aiokafka_codec.lz4_decode),
    Codec.ZSTD: (aiokafka_codec.zstd_encode, aiokafka_codec.zstd_decode),
}


def test_codecs_have_their_numbers_and_names() -> None:
    assert [Codec.named(n) for n in ("none", "gzip", "snappy", "lz4", "zstd")] == [0, 1, 2, 3, 4]
    assert Codec.named("uncompressed") is Codec.NONE
    with pytest.raises(UnsupportedCompression):
        Codec.named("brotli")


@given(codec=st.sampled_from(Codec), data=st.binary(max_size=300), times=st.integers(1, 400))
def test_what_is_packed_unpacks_to_itself(codec: Codec, data: bytes, times: int) -> None:
    data *= times
    packed = compress(codec, memoryview(data))
    assert decompress(codec, memoryview(packed), len(data)) == data


@pytest.mark.parametrize("codec", PACKED)
def test_another_client_reads_what_we_write_and_we_read_what_it_writes(codec: Codec) -> None:
    encode, decode = THEIRS[codec]
    assert bytes(decode(compress(codec, TEXT))) == TEXT
    assert decompress(codec, encode(TEXT), MIB) == TEXT


def test_snappy_is_written_as_a_xerial_stream_of_small_blocks() -> None:
    packed = compress(Codec.SNAPPY, TEXT)
    assert packed[:16] == b"\x82SNAPPY\x00\x00\x00\x00\x01\x00\x00\x00\x01"
    (size,) = struct.unpack_from(">i", packed, 16)
    assert bytes(cramjam.snappy.decompress_raw(packed[20 : 20 + size])) == TEXT[: 32 * 1024]


def test_bare_snappy_blocks_are_read() -> None:
    assert decompress(Codec.SNAPPY, bytes(cramjam.snappy.compress_raw(TEXT)), MIB) == TEXT


def test_lz4_frames_are_such_as_java_reads() -> None:
    info = lz4.frame.get_frame_info(compress(Codec.LZ4, TEXT))
    assert not info["block_linked"]
    assert not info["content_checksum"]
    assert not info["block_checksum"]
    assert info["content_size"] == 0
    assert info["block_size"] == 64 * 1024


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.LZ4, Codec.ZSTD])
def test_streams_put_end_to_end_are_read_as_one(codec: Codec) -> None:
    packed = compress(codec, b"one ") + compress(codec, b"") + compress(codec, b"two")
    assert decompress(codec, packed, 7) == b"one two"
    with pytest.raises(BatchTooLarge):
        decompress(codec, packed, 6)


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.LZ4])
def test_thousands_of_empty_streams_are_an_attack(codec: Codec) -> None:
    with pytest.raises(CorruptBatch, match="more than 128"):
        decompress(codec, compress(codec, b"") * 5_000, MIB)


@pytest.mark.parametrize("codec", Codec)
@pytest.mark.parametrize("size", [1, 65_536, len(TEXT)])
def test_the_limit_is_exact(codec: Codec, size: int) -> None:
    packed = compress(codec, TEXT[:size])
    assert decompress(codec, packed, size) == TEXT[:size]
    with pytest.raises(BatchTooLarge):
        decompress(codec, packed, size - 1)


@pytest.mark.parametrize("codec", PACKED)
def test_a_stream_that_ends_too_early_is_corrupt(codec: Codec) -> None:
    packed = compress(codec, TEXT)
    for size in (*range(1, 40), len(packed) // 2, len(packed) - 1):
        if codec is Codec.SNAPPY and size == 16:
            continue  # a xerial header alone is a whole stream of no blocks
        with pytest.raises(CorruptBatch):
            decompress(codec, packed[:size], MIB)


@pytest.mark.parametrize("codec", PACKED)
@examples(40)
@given(data=st.data())
def test_noise_costs_no_more_than_a_clear_error(codec: Codec, data: st.DataObject) -> None:
    packed = bytearray(compress(codec, TEXT[:5_000]))
    at = data.draw(st.integers(0, len(packed) - 1))
    packed[at] ^= data.draw(st.integers(1, 255))
    try:
        assert len(decompress(codec, packed, 6_000)) <= 6_000
    except (CorruptBatch, BatchTooLarge):
        pass


@pytest.mark.parametrize("codec", PACKED)
@examples(40)
@given(noise=st.binary(max_size=200))
def test_bytes_of_no_codec_are_corrupt_or_short(codec: Codec, noise: bytes) -> None:
    try:
        assert len(decompress(codec, noise, 100)) <= 100
    except (CorruptBatch, BatchTooLarge):
        pass


@pytest.mark.parametrize("codec", PACKED)
def test_no_bytes_are_not_a_stream(codec: Codec) -> None:
    with pytest.raises(CorruptBatch):
        decompress(codec, b"", MIB)


@pytest.mark.parametrize("codec", PACKED)
def test_a_bomb_is_stopped_at_the_limit(codec: Codec) -> None:
    bomb = compress(codec, bytes(64 * MIB))
    tracemalloc.start()
    try:
        with pytest.raises(BatchTooLarge):
            decompress(codec, bomb, MIB)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 40 * MIB  # lz4 may take eight times what came in, here 2 MiB


def test_a_nested_bomb_unpacks_one_layer() -> None:
    inner = gzip.compress(bytes(MIB))
    assert decompress(Codec.GZIP, gzip.compress(inner), MIB) == inner


def test_claimed_sizes_are_not_believed() -> None:
    huge_snappy = b"\xff\xff\xff\xff\x0f" + b"\x00" * 20  # claims 4 GiB
    with pytest.raises(CorruptBatch, match="cannot hold"):
        decompress(Codec.SNAPPY, huge_snappy, 2**40)

    honest_lz4 = lz4.frame.compress(b"x" * 100, content_checksum=False)
    lying_lz4 = _with_lz4_content_size(honest_lz4, 2**40)
    with pytest.raises(CorruptBatch):
        decompress(Codec.LZ4, lying_lz4, MIB)

    # zstd: magic, descriptor (single segment, 8-byte size), 2^40 bytes claimed, one raw block of 3
    lying_zstd = b"\x28\xb5\x2f\xfd\xe0" + (2**40).to_bytes(8, "little") + b"\x19\x00\x00abc"
    with pytest.raises(CorruptBatch):
        decompress(Codec.ZSTD, lying_zstd, MIB)


def _with_lz4_content_size(frame: bytes, size: int) -> bytes:
    """The frame with another content size, its header's checksum made to fit."""
    for checksum in range(256):
        forged = frame[:6] + size.to_bytes(8, "little") + bytes([checksum]) + frame[15:]
        try:
            if lz4.frame.get_frame_info(forged)["content_size"] == size:
                return forged
        except RuntimeError:
            continue
    raise AssertionError("no checksum fits")


def test_gzip_with_garbage_behind_it_is_corrupt() -> None:
    with pytest.raises(CorruptBatch):
        decompress(Codec.GZIP, compress(Codec.GZIP, b"x") + b"garbage", MIB)


def test_plain_deflate_is_not_gzip() -> None:
    with pytest.raises(CorruptBatch):
        decompress(Codec.GZIP, zlib.compress(b"x"), MIB)


def test_zstd_begins_again_at_most_once_and_after_little(monkeypatch: pytest.MonkeyPatch) -> None:
    rooms: list[int] = []
    real = cramjam.zstd.decompress_into

    def counted(data: bytes, out: bytearray) -> int:
        rooms.append(len(out))
        return int(real(data, out))

    monkeypatch.setattr(cramjam.zstd, "decompress_into", counted)
    packed = compress(Codec.ZSTD, bytes(10 * MIB))
    assert decompress(Codec.ZSTD, packed, 11 * MIB) == bytes(10 * MIB)
    with pytest.raises(BatchTooLarge):
        decompress(Codec.ZSTD, packed, 9 * MIB)
    assert rooms == [64 * 1024, 11 * MIB, 64 * 1024, 9 * MIB]


@pytest.mark.parametrize("codec", PACKED)
def test_a_budget_is_shared_by_all_that_is_unpacked_from_it(codec: Codec) -> None:
    packed = compress(codec, bytes(1000))
    budget = UnpackBudget(2500)
    assert budget.unpack(codec, packed, 1000) == bytes(1000)
    with pytest.raises(BatchTooLarge):
        budget.unpack(codec, packed, 999)
    assert budget.left == 501  # what was refused costs its limit
    with pytest.raises(UnpacksTooMuch):
        budget.unpack(codec, packed, 1000)
    assert budget.left == 0
