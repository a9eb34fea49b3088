"""A checkpoint: what only the metadata store knows, as bytes for the bucket.

Here: the format of its head and its parts. A row is a key of the metadata store and its JSON as it
is there, so that no field is lost, not even one that a newer version wrote.
Next door: finding, writing and deleting checkpoints (catalog/checkpoints.py), their names
(keys.py), when they are taken (engine/upkeep/checkpoints.py).
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
    "I"  #  8 packed
    "I"  # 12 size
    "I"  # 16 crc
)
assert HEADER.size == 20
MAGIC: Final = 0x4B46434B  # "KFCK"
VERSION: Final = 1
LARGEST_BYTES: Final = 1 << 30  # of a body; a header that claims more is refused

CheckpointRow = tuple[str, msgspec.Raw]
_T = TypeVar("_T")


class CheckpointPart(msgspec.Struct, array_like=True, frozen=True):
    """An object with some of the rows."""

    name: str
    size: int
    crc: int
    rows: int


class CheckpointHead(msgspec.Struct, frozen=True, kw_only=True):
    """The object that makes a checkpoint count: it is written last and names the parts."""

    number: int
    created_ms: int
    author: str
    cluster_id: str
    groups: int
    offsets: int
    parts: list[CheckpointPart] = []
    rows: list[CheckpointRow] = []


def row(key: str, value: bytes) -> CheckpointRow:
    """A row of what the metadata store holds; CorruptObject if the value is no JSON."""
    try:
        return key, msgspec.json.decode(value, type=msgspec.Raw)
    except (msgspec.DecodeError, UnicodeDecodeError) as bad:
        raise CorruptObject(f"{key} holds no JSON: {bad}") from bad


def encode_rows(rows: Sequence[CheckpointRow]) -> bytes:
    """A block of rows; a part is one or more of them."""
    return _pack(msgspec.json.encode(rows))


def decode_rows(data: bytes | memoryview) -> list[CheckpointRow]:
    """Read a part."""
    rows: list[CheckpointRow] = []
    view = memoryview(data)
    while len(view):
        body, view = _unpack(view)
        block: list[CheckpointRow] = _read(_ROWS, body)
        rows += block
    return rows


def encode_head(head: CheckpointHead) -> bytes:
    """The bytes of a head."""
    return _pack(msgspec.json.encode(head))


def decode_head(data: bytes | memoryview) -> CheckpointHead:
    """Read a head: one block and nothing behind it."""
    body, rest = _unpack(memoryview(data))
    if len(rest):
        raise CorruptObject("more than one block in the head of a checkpoint")
    return _read(_HEAD, body)


def part(name: str, data: bytes | memoryview, rows: int) -> CheckpointPart:
    """How a head names a part."""
    return CheckpointPart(name, len(data), crc32c(data), rows)


def check_part(named: CheckpointPart, data: bytes | memoryview) -> None:
    """Raise CorruptObject unless these are the bytes that the head names."""
    if (named.size, named.crc) != (len(data), crc32c(data)):
        raise CorruptObject(f"{named.name} is not the part that was written")


_ROWS: Final = msgspec.json.Decoder(list[CheckpointRow])
_HEAD: Final = msgspec.json.Decoder(CheckpointHead)


def _pack(body: bytes) -> bytes:
    packed = compress(Codec.ZSTD, body)
    crc = crc32c(packed)
    return HEADER.pack(MAGIC, VERSION, Codec.ZSTD, len(packed), len(body), crc) + packed


def _read(decoder: "msgspec.json.Decoder[_T]", body: bytes | memoryview) -> _T:
    try:
        return decoder.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError) as bad:
        raise CorruptObject(f"not a checkpoint: {bad}") from bad


def _unpack(data: memoryview) -> tuple[bytes | memoryview, memoryview]:
    """The body of the first block, and what lies behind it."""
    if len(data) < HEADER.size:
        raise CorruptObject("too short to be a checkpoint")
    magic, version, codec, packed_size, size, crc = HEADER.unpack_from(data)
    if magic != MAGIC:
        raise CorruptObject("not a checkpoint")
    if version != VERSION or codec != Codec.ZSTD:
        raise CorruptObject(f"checkpoint version {version} with codec {codec} is not known here")
    end = HEADER.size + packed_size
    packed = data[HEADER.size : end]
    if end > len(data) or crc32c(packed) != crc or size > LARGEST_BYTES:
        raise CorruptObject("the checkpoint is cut off, or its checksum is wrong")
    try:
        body = decompress(Codec.ZSTD, packed, size)
    except BadBatch as bad:
        raise CorruptObject(f"the checkpoint cannot be unpacked: {bad}") from bad
    if len(body) != size:
        raise CorruptObject(f"the checkpoint unpacks to {len(body)} bytes, not {size}")
    return body, data[end:]
