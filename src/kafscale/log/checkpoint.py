"""A checkpoint: what the metadata store says that nothing else in the bucket does, as bytes.

Here: the format of its head and its parts. A row is a key of the metadata store and its JSON as
it is there, so that nothing is lost on the way, not even what a newer version wrote.
Next door: finding, writing and deleting checkpoints (checkpoints.py), their names (keys.py), when
they are taken (engine/checkpoints.py).
Never here: what the rows mean.
"""

import struct
from collections.abc import Sequence
from typing import Final, TypeVar

import msgspec
from crc32c import crc32c

from kafscale.model.errors import BadBatch, CorruptObject
from kafscale.records.compression import Codec, compress, decompress

HEADER: Final = struct.Struct(
    ">"
    "I"  #  0 magic
    "H"  #  4 version
    "H"  #  6 codec
    "I"  #  8 size
    "I"  # 12 crc
)
assert HEADER.size == 16
MAGIC: Final = 0x4B46434B  # "KFCK"
VERSION: Final = 1
LARGEST_BYTES: Final = 1 << 30  # of a body; what claims to be larger is not believed

Row = tuple[str, msgspec.Raw]
_T = TypeVar("_T")


class Part(msgspec.Struct, array_like=True, frozen=True):
    """An object with some of the rows."""

    name: str
    size: int
    crc: int
    rows: int


class Head(msgspec.Struct, frozen=True, kw_only=True):
    """The object that makes a checkpoint count: it is written last and names the parts."""

    number: int
    created_ms: int
    author: str
    cluster_id: str
    groups: int
    offsets: int
    parts: list[Part] = []
    rows: list[Row] = []


def row(key: str, value: bytes) -> Row:
    """A row of what the metadata store holds; CorruptObject if the value is no JSON."""
    try:
        return key, msgspec.json.decode(value, type=msgspec.Raw)
    except (msgspec.DecodeError, UnicodeDecodeError) as bad:
        raise CorruptObject(f"{key} holds no JSON: {bad}") from bad


def encode_rows(rows: Sequence[Row]) -> bytes:
    """The bytes of a part."""
    return _pack(msgspec.json.encode(rows))


def decode_rows(data: bytes | memoryview) -> list[Row]:
    """Read a part."""
    return _read(_ROWS, data)


def encode_head(head: Head) -> bytes:
    """The bytes of a head."""
    return _pack(msgspec.json.encode(head))


def decode_head(data: bytes | memoryview) -> Head:
    """Read a head."""
    return _read(_HEAD, data)


def part(name: str, data: bytes | memoryview, rows: int) -> Part:
    """How a head names a part."""
    return Part(name, len(data), crc32c(data), rows)


def check_part(named: Part, data: bytes | memoryview) -> None:
    """Raise CorruptObject unless these are the bytes that the head names."""
    if (named.size, named.crc) != (len(data), crc32c(data)):
        raise CorruptObject(f"{named.name} is not the part that was written")


_ROWS: Final = msgspec.json.Decoder(list[Row])
_HEAD: Final = msgspec.json.Decoder(Head)


def _pack(body: bytes) -> bytes:
    packed = compress(Codec.ZSTD, body)
    return HEADER.pack(MAGIC, VERSION, Codec.ZSTD, len(body), crc32c(packed)) + packed


def _read(decoder: "msgspec.json.Decoder[_T]", data: bytes | memoryview) -> _T:
    try:
        return decoder.decode(_unpack(data))
    except (msgspec.DecodeError, UnicodeDecodeError) as bad:
        raise CorruptObject(f"not a checkpoint: {bad}") from bad


def _unpack(data: bytes | memoryview) -> bytes | memoryview:
    if len(data) < HEADER.size:
        raise CorruptObject("too short to be a checkpoint")
    magic, version, codec, size, crc = HEADER.unpack_from(data)
    if magic != MAGIC:
        raise CorruptObject("not a checkpoint")
    if version != VERSION or codec != Codec.ZSTD:
        raise CorruptObject(f"checkpoint version {version} with codec {codec} is not known here")
    packed = memoryview(data)[HEADER.size :]
    if crc32c(packed) != crc or size > LARGEST_BYTES:
        raise CorruptObject("the checkpoint's checksum is wrong")
    try:
        body = decompress(Codec.ZSTD, packed, size)
    except BadBatch as bad:
        raise CorruptObject(f"the checkpoint cannot be unpacked: {bad}") from bad
    if len(body) != size:
        raise CorruptObject(f"the checkpoint unpacks to {len(body)} bytes, not {size}")
    return body
