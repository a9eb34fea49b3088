"""The five ways a batch's records may be packed.

Here: packing the way Kafka clients can read, unpacking what any client wrote, under a hard cap.
What a stream claims about its own size is never believed: memory follows the bytes that come out.
Never here: batches and records.
"""

import mmap
import struct
import zlib
from enum import IntEnum
from typing import Final

import cramjam
import lz4.frame

from kafscale.model.buffers import Buffer
from kafscale.model.errors import (
    BatchTooLarge,
    CorruptBatch,
    UnpacksTooMuch,
    UnsupportedCompression,
)


class Codec(IntEnum):
    """Codecs by their number in a batch's attributes."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4

    @classmethod
    def named(cls, name: str) -> "Codec":
        """The codec of a topic setting or an option."""
        try:
            return _NAMES[name]
        except KeyError:
            raise UnsupportedCompression(f"no codec is called {name!r}") from None


_NAMES: Final = {codec.name.lower(): codec for codec in Codec}
_NAMES["uncompressed"] = Codec.NONE  # the name that topic settings use

# The stream format of snappy-java, which Kafka's clients write: magic, version, oldest reader.
_XERIAL_MAGIC: Final = b"\x82SNAPPY\x00"
_XERIAL_HEADER: Final = _XERIAL_MAGIC + struct.pack(">ii", 1, 1)
_XERIAL_BLOCK: Final = 32 * 1024
_BLOCK_LENGTH: Final = struct.Struct(">i")

_GZIP_WINDOW: Final = 31  # 15 bits of window, and 16 says: with gzip's own header
_GZIP_LEVEL: Final = 6
_ZSTD_LEVEL: Final = 3

# A snappy stream's densest element spends 3 bytes on a copy of 64.
_SNAPPY_MAX_RATIO: Final = 22
# Streams may be put end to end. Each costs a set-up, so that thousands of empty ones are an attack.
_MAX_STREAMS: Final = 128
# What cramjam says when the bytes do not fit the buffer we lent it; any other word is corruption.
_BUFFER_FULL: Final = "failed to write whole buffer"
_FIRST_GUESS: Final = 64 * 1024
_LARGE_MEMORY: Final = 128 << 20


def compress(codec: Codec, data: Buffer) -> bytes:
    """Pack, so that every Kafka client can unpack."""
    match codec:
        case Codec.NONE:
            return bytes(data)
        case Codec.GZIP:
            packer = zlib.compressobj(_GZIP_LEVEL, zlib.DEFLATED, _GZIP_WINDOW)
            return packer.compress(data) + packer.flush()
        case Codec.SNAPPY:
            return _pack_xerial(memoryview(data))
        case Codec.LZ4:
            # Kafka's Java reader refuses linked blocks, and some versions a content checksum.
            packed: bytes = lz4.frame.compress(
                data,
                block_linked=False,
                block_size=lz4.frame.BLOCKSIZE_MAX64KB,
                content_checksum=False,
                store_size=False,
            )
            return packed
        case Codec.ZSTD:
            return bytes(memoryview(cramjam.zstd.compress(data, level=_ZSTD_LEVEL)))


def decompress(codec: Codec, data: Buffer, limit: int) -> bytes | memoryview:
    """Unpack at most `limit` bytes.

    Raises BatchTooLarge when there would be more, CorruptBatch when the stream is broken.
    """
    match codec:
        case Codec.NONE:
            if len(data) > limit:
                raise _too_large(limit)
            return bytes(data)
        case Codec.GZIP:
            return _unpack_gzip(data, limit)
        case Codec.SNAPPY:
            return _unpack_snappy(memoryview(data), limit)
        case Codec.LZ4:
            return _unpack_lz4(data, limit)
        case Codec.ZSTD:
            return _unpack_zstd(data, limit)


class UnpackBudget:
    """How many bytes the batches of one request may still unpack to, together.

    What a batch that is refused has cost is not known, so that it costs all that it was allowed.
    """

    __slots__ = ("left",)

    def __init__(self, size: int) -> None:
        self.left = size

    def unpack(self, codec: Codec, data: Buffer, limit: int) -> bytes | memoryview:
        """Unpack one batch, at most `limit` bytes of it.

        Raises UnpacksTooMuch when the limit would allow the batch and the budget does not.
        """
        room = min(limit, self.left)
        self.left -= room
        try:
            unpacked = decompress(codec, data, room)
        except BatchTooLarge:
            if room == limit:
                raise
            raise UnpacksTooMuch(
                "the batches of the request unpack to too much, together; this one was not written"
            ) from None
        self.left += room - len(unpacked)
        return unpacked


def _too_large(limit: int) -> BatchTooLarge:
    return BatchTooLarge(f"the records unpack to more than {limit} bytes")


def _pack_xerial(data: memoryview) -> bytes:
    parts = [_XERIAL_HEADER]
    for at in range(0, len(data), _XERIAL_BLOCK):
        block = bytes(memoryview(cramjam.snappy.compress_raw(data[at : at + _XERIAL_BLOCK])))
        parts += (_BLOCK_LENGTH.pack(len(block)), block)
    return b"".join(parts)


def _unpack_snappy(data: memoryview, limit: int) -> bytes:
    """Read snappy-java's stream of blocks, or the one bare block that other clients write."""
    if bytes(data[: len(_XERIAL_MAGIC)]) != _XERIAL_MAGIC:
        return _unpack_snappy_block(data, limit)
    at = len(_XERIAL_HEADER)
    if len(data) < at:
        raise CorruptBatch("the snappy stream ends within its header")
    parts: list[bytes] = []
    room = limit
    while at < len(data):
        if len(data) - at < _BLOCK_LENGTH.size:
            raise CorruptBatch("the snappy stream ends within a block's length")
        size: int = _BLOCK_LENGTH.unpack_from(data, at)[0]
        at += _BLOCK_LENGTH.size
        if not 0 < size <= len(data) - at:
            raise CorruptBatch(f"a snappy block of {size} bytes, {len(data) - at} are left")
        parts.append(_unpack_snappy_block(data[at : at + size], room))
        room -= len(parts[-1])
        at += size
    return b"".join(parts)


def _unpack_snappy_block(block: memoryview, limit: int) -> bytes:
    try:
        claimed = cramjam.snappy.decompress_raw_len(block)
        if claimed > len(block) * _SNAPPY_MAX_RATIO:
            raise CorruptBatch(f"{len(block)} bytes of snappy cannot hold {claimed}")
        if claimed > limit:
            raise _too_large(limit)
        return bytes(memoryview(cramjam.snappy.decompress_raw(block)))
    except cramjam.DecompressionError as broken:
        raise CorruptBatch(f"broken snappy block: {broken}") from broken


def _unpack_gzip(data: Buffer, limit: int) -> bytes:
    parts: list[bytes] = []
    room = limit
    rest: Buffer = data
    for _ in range(_MAX_STREAMS):
        unpacker = zlib.decompressobj(_GZIP_WINDOW)
        try:
            parts.append(unpacker.decompress(rest, room + 1))
        except zlib.error as broken:
            raise CorruptBatch(f"broken gzip stream: {broken}") from broken
        room -= len(parts[-1])
        if room < 0:
            raise _too_large(limit)
        if not unpacker.eof:
            raise CorruptBatch("the gzip stream ends too early")
        rest = unpacker.unused_data
        if not rest:
            return parts[0] if len(parts) == 1 else b"".join(parts)
    raise CorruptBatch(f"more than {_MAX_STREAMS} gzip streams in one batch")


def _unpack_lz4(data: Buffer, limit: int) -> bytes:
    parts: list[bytes] = []
    room = limit
    rest: Buffer = data
    step = max(_FIRST_GUESS, 8 * len(data))
    for _ in range(_MAX_STREAMS):
        unpacker = lz4.frame.LZ4FrameDecompressor()
        while not unpacker.eof:
            try:
                part: bytes = unpacker.decompress(rest, max_length=min(room + 1, step))
            except (RuntimeError, EOFError) as broken:
                raise CorruptBatch(f"broken lz4 frame: {broken}") from broken
            parts.append(part)
            room -= len(part)
            if room < 0:
                raise _too_large(limit)
            if not part and unpacker.needs_input and not unpacker.eof:
                raise CorruptBatch("the lz4 frame ends too early")
            rest = b""
        rest = unpacker.unused_data or b""
        if not rest:
            return parts[0] if len(parts) == 1 else b"".join(parts)
    raise CorruptBatch(f"more than {_MAX_STREAMS} lz4 frames in one batch")


def _unpack_zstd(data: Buffer, limit: int) -> bytes:
    """Unpack into little memory, which is enough for most; then into memory for all that may come.

    The large memory costs no more than what is written to it: the system gives it page by page.
    Only data that does not fit the largest such memory is begun a third time.
    """
    room = min(limit, max(_FIRST_GUESS, 8 * len(data)))
    out: bytearray | mmap.mmap = bytearray(room)
    while True:
        try:
            size = cramjam.zstd.decompress_into(data, out)
            return bytes(memoryview(out)[:size])
        except cramjam.DecompressionError as failure:
            if str(failure) != _BUFFER_FULL:
                raise CorruptBatch(f"broken zstd stream: {failure}") from failure
            if room == limit:
                raise _too_large(limit) from failure
        room = min(limit, max(4 * room, _LARGE_MEMORY))
        out = mmap.mmap(-1, room, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
