"""Zigzag varints: the lengths and deltas inside a record.

Here: reading and writing one of them. The hot walk (framing.py) reads its own, inline.
Never here: what the numbers mean.
"""

from typing import Final

from kafscale.model.errors import InvalidRecord

MAX_INT_BYTES: Final = 5  # 32 bits, seven per byte
MAX_LONG_BYTES: Final = 10  # 64 bits


def read(buf: bytes, at: int, end: int, max_bytes: int = MAX_INT_BYTES) -> tuple[int, int]:
    """Read the number at `at`, using no byte from `end` on: the number and the place after it.

    Needlessly long encodings are read, as Kafka does.
    """
    if at < end and (first := buf[at]) < 0x80:
        return (first >> 1) ^ -(first & 1), at + 1
    raw = shift = 0
    for place in range(at, min(end, at + max_bytes)):
        byte = buf[place]
        raw |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (raw >> 1) ^ -(raw & 1), place + 1
        shift += 7
    raise InvalidRecord(f"the number at byte {at} does not end")


def encode(number: int) -> bytes:
    """The shortest encoding of a number of up to 64 bits, sign included."""
    raw = (number << 1) ^ (number >> 63)
    out = bytearray()
    while raw > 0x7F:
        out.append(raw & 0x7F | 0x80)
        raw >>= 7
    out.append(raw)
    return bytes(out)
