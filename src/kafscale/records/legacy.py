"""Message formats 0 and 1 as bytes: what both directions of conversion share.

A message set is messages in a row, without count or length of its own. A compressed set is one
message more around it, the wrapper: its value is the packed set, its attributes name the codec,
its offset is that of the last message inside.
Next door: sets become batches (legacy_up.py), batches become sets (legacy_down.py).
Never here: batches of format 2.
"""

import struct
from typing import Final

from kafscale.model.errors import CorruptBatch

MESSAGE_0: Final = struct.Struct(
    ">"
    "q"  #  0 offset        in a wrapper: absolute
    "i"  #  8 size          counts every byte after itself
    "I"  # 12 crc           crc32 of byte 16 to the end
    "b"  # 16 magic         0
    "b"  # 17 attributes    codec
    "i"  # 18 key_size      -1: null; the key, the value's size and the value follow
)
MESSAGE_1: Final = struct.Struct(
    ">"
    "q"  #  0 offset        in a wrapper: relative, so that the wrapper alone tells the place
    "i"  #  8 size
    "I"  # 12 crc           crc32 of byte 16 to the end
    "b"  # 16 magic         1
    "b"  # 17 attributes    codec, and which clock made the timestamp
    "q"  # 18 timestamp_ms  -1: none
    "i"  # 26 key_size
)
HEADS: Final = (MESSAGE_0, MESSAGE_1)
PREFIX: Final = 12  # offset and size: what size does not count
SIGNED_FROM: Final = 16
VALUE_SIZE: Final = struct.Struct(">i")
MIN_SIZES: Final = tuple(head.size + VALUE_SIZE.size - PREFIX for head in HEADS)
assert MIN_SIZES == (14, 22)

NO_TIMESTAMP: Final = -1

# -- LZ4 -------------------------------------------------------------------------------------
# Clients of format 0 count the frame's magic number into the checksum of its header. They read
# no other checksum, so that this mistake is part of the format.

_LZ4_MAGIC: Final = b"\x04\x22\x4d\x18"
_LZ4_FLAGS_AT: Final = 4
_HAS_CONTENT_SIZE: Final = 0x08
_HAS_DICTIONARY: Final = 0x01


def with_wrong_lz4_checksum(frame: bytes) -> bytes:
    """Make an LZ4 frame one of format 0."""
    at = _checksum_at(frame)
    return frame[:at] + _header_checksum(frame[:at]) + frame[at + 1 :]


def with_right_lz4_checksum(frame: bytes) -> bytes:
    """Make an LZ4 frame of format 0 one that every client reads; a right one passes unchanged."""
    if frame[:_LZ4_FLAGS_AT] != _LZ4_MAGIC:
        return frame  # unpacking it later gives the error
    at = _checksum_at(frame)
    if frame[at : at + 1] != _header_checksum(frame[:at]):
        return frame
    return frame[:at] + _header_checksum(frame[_LZ4_FLAGS_AT:at]) + frame[at + 1 :]


def _checksum_at(frame: bytes) -> int:
    if len(frame) <= _LZ4_FLAGS_AT:
        raise CorruptBatch("the lz4 frame ends too early")
    flags = frame[_LZ4_FLAGS_AT]
    return 6 + (8 if flags & _HAS_CONTENT_SIZE else 0) + (4 if flags & _HAS_DICTIONARY else 0)


def _header_checksum(header: bytes) -> bytes:
    return bytes([_xxh32(header) >> 8 & 0xFF])


_MASK: Final = 0xFFFFFFFF
_PRIMES: Final = (2654435761, 2246822519, 3266489917, 668265263, 374761393)


def _rotated(number: int, bits: int) -> int:
    return (number << bits | number >> 32 - bits) & _MASK


def _xxh32(data: bytes) -> int:
    """XXH32 with seed 0 of a few bytes. LZ4's library has it but does not lend it."""
    p1, p2, p3, p4, p5 = _PRIMES
    at = 0
    if len(data) >= 16:
        lanes = [p1 + p2 & _MASK, p2, 0, -p1 & _MASK]
        while at + 16 <= len(data):
            for lane, word in enumerate(struct.unpack_from("<4I", data, at)):
                lanes[lane] = _rotated(lanes[lane] + word * p2 & _MASK, 13) * p1 & _MASK
            at += 16
        total = sum(map(_rotated, lanes, (1, 7, 12, 18)))
    else:
        total = p5
    total += len(data)
    while at + 4 <= len(data):
        (word,) = struct.unpack_from("<I", data, at)
        total = _rotated(total + word * p3 & _MASK, 17) * p4
        at += 4
    for byte in data[at:]:
        total = _rotated(total + byte * p5 & _MASK, 11) * p1
    total &= _MASK
    total = (total ^ total >> 15) * p2 & _MASK
    total = (total ^ total >> 13) * p3 & _MASK
    return total ^ total >> 16
