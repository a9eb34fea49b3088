"""Payloads as Pulsar's clients pack them.

Here: unpacking, within a limit that is checked before memory is taken, and the codec of record
batches that comes nearest to each of Pulsar's.
Next door: the codecs of record batches (records/compression.py).
"""

import zlib
from typing import Final

import lz4.block

from kafscale.model.errors import BatchTooLarge, CorruptBatch, UnsupportedCompression
from kafscale.records.compression import Codec, decompress
from kafscale.wire.pulsar.messages.metadata import Compression

CODEC_OF: Final[dict[int, Codec]] = {
    Compression.NONE: Codec.NONE,
    Compression.LZ4: Codec.LZ4,
    Compression.ZLIB: Codec.GZIP,
    Compression.ZSTD: Codec.ZSTD,
    Compression.SNAPPY: Codec.SNAPPY,
}


def unpack(compression: int, payload: memoryview, size: int, limit: int) -> memoryview:
    """A payload unpacked to the `size` that its metadata claims. Raises BadBatch."""
    if compression == Compression.NONE:
        return payload
    if compression not in CODEC_OF:
        raise UnsupportedCompression(f"compression {compression} is not known")
    if size > limit:
        raise BatchTooLarge(f"the payload unpacks to {size} bytes; {limit} are allowed")
    unpacked = _unpack(compression, payload, size)
    if len(unpacked) != size:
        raise CorruptBatch(f"the payload unpacks to {len(unpacked)} bytes and claims {size}")
    return memoryview(unpacked)


def _unpack(compression: int, payload: memoryview, size: int) -> bytes | memoryview:
    if compression == Compression.LZ4:
        try:
            block: bytes = lz4.block.decompress(payload, uncompressed_size=size)
        except lz4.block.LZ4BlockError as broken:
            raise CorruptBatch(f"broken lz4 block: {broken}") from broken
        return block
    if compression == Compression.ZLIB:
        unpacker = zlib.decompressobj()
        try:
            return unpacker.decompress(payload, size + 1)
        except zlib.error as broken:
            raise CorruptBatch(f"broken zlib stream: {broken}") from broken
    return decompress(CODEC_OF[compression], payload, size)
